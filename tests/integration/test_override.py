# SPDX-License-Identifier: MIT
"""Overrides: use and set for a unit, a user or a time. Processes with real uids; the node of most tests is one for the module."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import CTL, PREFIX, Node, clean_environ, wait_until

CLIENT = pathlib.Path(os.environ["BUILDDIR"]) / "tests/start-client"
NOBODY, USER, OTHER = 65534, 12345, 23456
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be other users")


def digest_of(node, uid):
    """What a job of UID that begins now gets, by libcudaenv."""
    done = subprocess.run(node.new_job([CLIENT]), env=clean_environ(CUDAENV_RUNTIME_DIR=node.run), capture_output=True, text=True,
                          user=uid, group=uid, extra_groups=[], cwd="/", timeout=30)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.split()[0]


def snapshot_of(node, uid):
    """The lines of that snapshot after its header."""
    digest = digest_of(node, uid)
    return [] if digest == "none" else (node.run / "snapshots" / digest).read_text().splitlines()[3:]


def profiles(node):
    return {p["name"]: p["digest"] for p in node.json("list")["profiles"]}


def overrides(node):
    return node.json("status")["overrides"]


def rules_text(node):
    return (node.run / "assign").read_text()


def history(node):
    return node.json("history")["entries"]


SETTINGS = f"[assign team]\nuser = {USER}\nprofile = team\n"


def fill(node):
    node.config.mkdir(exist_ok=True)
    (node.config / "cudaenvd.conf").write_text(SETTINGS)
    node.variables("base", NCCL_PROTO="LL", NCCL_ALGO="Ring")
    node.variables("debug", NCCL_DEBUG="INFO")
    node.profile("team", "[env.force]\nNCCL_PROTO = Simple\n[env.unset]\nNCCL_ALGO =\n[env.prepend]\nPATH = /usr/bin\n")
    node.start()
    node.ctl("use", "base")
    node.ctl("on")
    return node


@pytest.fixture(scope="module")
def shared():
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-"))
    root.chmod(0o755)
    n = fill(Node(root))
    yield n
    n.stop()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def base(shared):
    """That node, without overrides, its own choice base."""
    shared.ctl("use", "--reset")
    shared.ctl("use", "base")
    shared.ctl("on")
    return shared


@pytest.fixture
def own(node):
    return fill(node)


def test_one_user_gets_it(base):
    digests = profiles(base)
    done = base.ctl("use", "debug", "--user", "nobody", "--for", "2h", "--reason", "look")
    assert done.stdout.startswith(f"In use for user nobody: debug, snapshot {digests['debug'][:12]}, until ")
    assert re.search(r"until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(2h\)\.\n", done.stdout), "in UTC, with what was asked for"
    assert digest_of(base, NOBODY) == digests["debug"]
    assert (digest_of(base, 0), digest_of(base, USER)) == (digests["base"], digests["team"])
    [o] = overrides(base)
    assert (o["action"], o["scope"], o["uid"], o["profile"], o["digest"], o["by"]) == (
        "use", "user nobody", NOBODY, "debug", digests["debug"], "root")
    assert o["until"] - o["since"] == 7201
    assert "Override\tuser nobody: profile debug, " in base.ctl("status").stdout
    entry = history(base)[-1]
    assert {k: entry[k] for k in ("action", "scope", "to", "profile", "reason", "until", "user")} == {
        "action": "use", "scope": "user nobody", "to": digests["debug"], "profile": "debug", "reason": "look",
        "until": o["until"], "user": "root"}
    rule = base.json("list")["rules"][0]
    assert (rule["conditions"], rule["digest"], rule["until"], rule["override"], rule["by"]) == (
        [{"kind": "uid", "value": str(NOBODY)}], digests["debug"], o["until"], "use user nobody", "root")
    # Who asks the files alone finds the same.
    done = subprocess.run([CTL, "exec", "--dry-run", "--json", "true"], env=base.environ(), capture_output=True, text=True, user=NOBODY,
                          group=NOBODY, extra_groups=[], cwd="/")
    assert json.loads(done.stdout)["digest"] == digests["debug"]
    # A second one for the same user takes its place, one for another user does not.
    base.ctl("use", "team", "--user", NOBODY)
    base.ctl("use", "debug", "--user", OTHER)
    assert [(o["scope"], o["profile"], o["until"]) for o in overrides(base)] == [
        ("user nobody", "team", None), (f"user {OTHER}", "debug", None)]
    done = base.json("use", "--reset", "--user", "nobody", "--reason", "done")
    assert [o["profile"] for o in done["ended"]] == ["team"]
    assert (digest_of(base, NOBODY), digest_of(base, OTHER)) == (digests["base"], digests["debug"])
    entry = history(base)[-1]
    assert (entry["action"], entry["scope"], entry["from"], entry["to"]) == ("reset", "user nobody", digests["team"], None)
    assert base.json("use", "--reset", "--user", "nobody")["ended"] == []
    assert "There is no override for user nobody" in base.ctl("use", "--reset", "--user", "nobody").stdout


def test_variables_over_the_profile_that_it_would_be(base):
    base.ctl("set", "NCCL_ALGO=Tree", "NCCL_PROTO=LL128", "NCCL_DEBUG=", "--user", USER)
    # By the rule of the settings: force stays, what was unset is set whatever the process has, the list is as it was.
    assert snapshot_of(base, USER) == ["force NCCL_ALGO=Tree", "default NCCL_DEBUG=", "force NCCL_PROTO=LL128", "prepend PATH=/usr/bin"]
    assert snapshot_of(base, 0) == ["default NCCL_ALGO=Ring", "default NCCL_PROTO=LL"]
    rule = base.json("list")["rules"][0]
    assert rule["override"] == f"set user {USER}" and rule["file"].endswith("cudaenvd.conf") and rule["line"] == 1
    # More join, and the end is the last command's.
    done = base.json("set", "NCCL_PROTO=Simple", "NCCL_NTHREADS=512", "--user", USER, "--for", "1d")
    assert [(v["name"], v["value"]) for v in done["variables"]] == [
        ("NCCL_ALGO", "Tree"), ("NCCL_DEBUG", ""), ("NCCL_NTHREADS", "512"), ("NCCL_PROTO", "Simple")]
    assert len(overrides(base)) == 1 and done["until"] == overrides(base)[0]["until"]
    # Over another's override too, and over the node's later choice.
    base.ctl("use", "debug", "--user", USER)
    assert snapshot_of(base, USER) == [
        "default NCCL_ALGO=Tree", "default NCCL_DEBUG=", "default NCCL_NTHREADS=512", "default NCCL_PROTO=Simple"]
    base.ctl("set", "NCCL_ALGO=CollNet", "--user", OTHER)
    base.ctl("use", "debug")
    assert snapshot_of(base, OTHER) == ["default NCCL_ALGO=CollNet", "default NCCL_DEBUG=INFO"]
    assert history(base)[-2]["variables"] == "NCCL_ALGO=CollNet"
    assert "NCCL_ALGO=CollNet" in base.ctl("history").stdout
    base.ctl("use", "--reset", "--user", USER)
    assert snapshot_of(base, USER)[0] == "unset NCCL_ALGO"


def test_a_derived_snapshot_is_mended(base):
    base.ctl("set", "NCCL_ALGO=Tree", "--user", OTHER)
    digest = digest_of(base, OTHER)
    (base.run / "snapshots" / digest).unlink()
    wait_until((base.run / "snapshots" / digest).exists, "it is published again")
    assert snapshot_of(base, OTHER) == ["default NCCL_ALGO=Tree", "default NCCL_PROTO=LL"]


def test_the_whole_node_for_a_time(base):
    digests = profiles(base)
    base.ctl("use", "debug", "--for", "1h")
    assert (digest_of(base, 0), digest_of(base, USER)) == (digests["debug"], digests["team"]), "behind the rules"
    status = base.json("status")
    assert status["active"] == "base" and "debug" in status["verdict"]
    # The node's choice goes back below it, and says so.
    assert "node: profile debug, " in base.ctl("rollback").stdout
    assert digest_of(base, 0) == digests["debug"]
    done = base.ctl("use", "base")
    assert "node: " not in done.stdout and overrides(base) == []
    assert digest_of(base, 0) == digests["base"]
    # It is no choice that a rollback goes back to.
    base.ctl("use", "team")
    base.ctl("use", "debug", "--for", "1h")
    base.ctl("rollback")
    assert base.json("status")["active"] == "base"
    dry = base.json("rollback", "--dry-run")["to"]
    base.ctl("rollback")
    assert base.json("status")["digest"] == dry


def test_reset_of_everything(base):
    base.ctl("use", "debug", "--user", OTHER)
    base.ctl("set", "A=1", "--unit", "vllm")
    digest = profiles(base)["base"]
    dry = base.json("use", "--reset", "--dry-run")
    assert dry["to"] == digest and dry["ended"] == overrides(base) and len(dry["ended"]) == 2
    assert "Would end for unit vllm.service: A=1.\n" in base.ctl("use", "--reset", "--dry-run").stdout
    done = base.json("use", "--reset")
    assert sorted(o["scope"] for o in done["ended"]) == ["unit vllm.service", f"user {OTHER}"]
    assert (done["from"], done["to"], done["scope"]) == (digest, digest, "all") == (dry["from"], dry["to"], dry["scope"])
    assert digest_of(base, 0) == digest and overrides(base) == []
    assert base.ctl("use", "--reset").stdout.startswith(f"There is no override.\nIn use: base, snapshot {digest[:12]} (as before).\n")


def test_reset_of_the_choice(base):
    """The node's own choice and override end, nobody else's."""
    digests = profiles(base)
    base.ctl("use", "debug", "--user", OTHER)
    base.ctl("use", "team", "--for", "1h")
    dry, done = base.json("use", "--reset", "--node", "--dry-run"), base.json("use", "--reset", "--node")
    for answer in dry, done:
        assert [o["profile"] for o in answer["ended"]] == ["team"]
        assert (answer["from"], answer["to"], answer["scope"]) == (digests["base"], None, "node")
    assert digest_of(base, 0) == "none" and digest_of(base, OTHER) == digests["debug"]
    base.ctl("rollback")
    assert digest_of(base, 0) == digests["base"]
    assert "either --node" in base.ctl("use", "--reset", "--node", "--user", OTHER, ok=2).stderr
    assert "--node goes with --reset" in base.ctl("use", "base", "--node", ok=2).stderr


def test_off_and_on_keep_them(base):
    base.ctl("use", "debug", "--user", OTHER)
    base.ctl("off")
    assert digest_of(base, OTHER) == "none"
    base.ctl("on")
    assert digest_of(base, OTHER) == profiles(base)["debug"]


def test_it_ends_in_time_without_the_manager(base):
    digests = profiles(base)
    base.ctl("use", "debug", "--user", OTHER, "--for", "2s")
    os.kill(base.process.pid, signal.SIGSTOP)
    try:
        assert digest_of(base, OTHER) in (digests["debug"], digests["base"])
        wait_until(lambda: digest_of(base, OTHER) == digests["base"], "it is over")
        assert "override." in rules_text(base)
    finally:
        os.kill(base.process.pid, signal.SIGCONT)
    wait_until(lambda: "override." not in rules_text(base), "the manager takes it out")
    wait_until(lambda: history(base)[-1]["action"] == "expired", "the history says so")
    entry = history(base)[-1]
    assert (entry["scope"], entry["from"], entry["to"], entry["user"]) == (f"user {OTHER}", digests["debug"], None, None)
    assert overrides(base) == []


def test_restarts_and_reboots(own):
    digests = profiles(own)
    own.ctl("use", "debug", "--user", OTHER, "--for", "1h")
    own.ctl("set", "NCCL_ALGO=Tree", "--user", USER)
    before, text = overrides(own), rules_text(own)
    own.stop(signal.SIGKILL)
    assert digest_of(own, OTHER) == digests["debug"]
    own.start()
    assert overrides(own) == before and rules_text(own) == text
    # A reboot, and an end that comes while nobody runs.
    short = own.json("use", "debug", "--user", "root", "--for", "1s")["until"]
    own.stop(signal.SIGKILL)
    wait_until(lambda: time.time() >= short, "its end")
    assert digest_of(own, 0) == digests["base"], "by the files alone"
    shutil.rmtree(own.run)
    own.start()
    wait_until(lambda: overrides(own) == before, "what ended is taken out, the rest is there")
    assert (digest_of(own, 0), digest_of(own, OTHER)) == (digests["base"], digests["debug"])
    assert "force NCCL_ALGO=Tree" in snapshot_of(own, USER)
    assert "expired" in [e["action"] for e in history(own)]
    # Turned off by another hand meanwhile.
    own.stop(signal.SIGKILL)
    own.ctl("off")
    own.start()
    assert own.json("status")["mode"] == "off" and overrides(own) == before
    own.ctl("on")
    assert digest_of(own, OTHER) == digests["debug"]


def test_its_version_is_its_own(own):
    digests = profiles(own)
    own.ctl("use", "base", "--user", OTHER)
    own.variables("base", NCCL_PROTO="LL128")
    wait_until(lambda: "base" in own.json("status")["edited"], "it is read")
    own.ctl("use", "base", "--user", "nobody")
    tried = digest_of(own, NOBODY)
    assert tried not in digests.values() and digest_of(own, OTHER) == digest_of(own, 0) == digests["base"]
    (own.profiles / "base.ini").unlink()
    wait_until(lambda: not (p := [p for p in own.json("list")["profiles"] if p["name"] == "base"]) or not p[0]["valid"], "gone")
    own.ctl("use", "debug")
    own.stop(signal.SIGKILL)
    own.start()
    assert (digest_of(own, NOBODY), digest_of(own, OTHER), digest_of(own, 0)) == (tried, digests["base"], digests["debug"])
    # Nodes whose edits are applied at once apply them here too.
    (own.config / "cudaenvd.conf").write_text(SETTINGS + "[cudaenvd]\napply_on_change = yes\nprofile = team\n")
    own.process.send_signal(signal.SIGHUP)
    wait_until(lambda: own.json("list")["configured"] == "team", "the settings are read")
    own.variables("base", NCCL_PROTO="Simple")
    wait_until(lambda: snapshot_of(own, OTHER) == ["default NCCL_PROTO=Simple"], "it is applied")
    assert snapshot_of(own, NOBODY) == ["default NCCL_PROTO=Simple"] and digest_of(own, 0) == digests["debug"]


def test_settings_are_read_again(own):
    own.ctl("set", "A=1", "--user", USER)
    (own.config / "cudaenvd.conf").write_text(SETTINGS.replace("team", "debug"))
    own.process.send_signal(signal.SIGHUP)
    wait_until(lambda: snapshot_of(own, USER) == ["default A=1", "default NCCL_DEBUG=INFO"], "the rule is the new one")
    # Rules are not read that no start could take with what is set.
    many = "".join(f"[assign r{i}]\ngroup = {i + 1}\nprofile = debug\n" for i in range(300))
    text = rules_text(own)
    (own.config / "cudaenvd.conf").write_text(many)
    own.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "too many to be published" in (own.root / "manager.log").read_text(), "it is refused")
    assert rules_text(own) == text
    # At a start the settings go before.
    own.stop(signal.SIGKILL)
    own.start()
    assert overrides(own) == [] and rules_text(own).count("\nrule ") == 300
    assert history(own)[-1]["action"] == "reset"


def test_who_stays(base):
    library = PREFIX / "lib/libcudaenv.so.0"
    code = f"import ctypes, sys; ctypes.CDLL('{library}').cudaenv_start(None, None); print(flush=True); sys.stdin.read()"
    jobs = [subprocess.Popen(base.new_job(["/usr/bin/python3", "-IS", "-c", code]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env=clean_environ(CUDAENV_RUNTIME_DIR=base.run), user=uid, group=uid, extra_groups=[], cwd="/")
            for uid in (OTHER, NOBODY, 0)]
    try:
        for job in jobs:
            job.stdout.readline()
        mine = [j["id"] for j in base.json("workers")["jobs"] if f"-{OTHER}-" in j["id"]]
        assert len(mine) == 1
        base.ctl("use", "debug", "--user", "nobody")
        done = base.json("use", "debug", "--user", OTHER)
        assert [(j["id"], j["uid"], j["fix"].startswith("end python3")) for j in done["stays"]] == [(mine[0], OTHER, True)]
        text = base.ctl("use", "debug").stdout
        assert "until they are started again, or moved by release JOB:\n" in text and f"{mine[0]} of {done['stays'][0]['user']}, on " in text
        root, = (line for line in text.splitlines() if "-0-" in line)
        assert " of " not in root, "of one's own it goes without saying"
        done = base.json("set", "A=1", "--user", USER)
        assert done["stays"] == [] and done["own_job"] is None
        assert len(base.json("use", "debug")["stays"]) == 3
    finally:
        for job in jobs:
            job.communicate()


def test_dry_runs_change_nothing(base):
    digests = profiles(base)
    base.ctl("set", "A=1", "--user", OTHER)
    before = rules_text(base)
    dry = base.json("use", "debug", "--unit", "vllm", "--for", "90min", "--dry-run")
    assert (dry["scope"], dry["to"], dry["dry_run"]) == ("unit vllm.service", digests["debug"], True)
    assert dry["until"] - time.time() == pytest.approx(5400, abs=60)
    dry = base.json("set", "B=2", "--user", OTHER, "--dry-run")
    assert [v["name"] for v in dry["variables"]] == ["A", "B"]
    assert len(base.json("use", "--reset", "--user", OTHER, "--dry-run")["ended"]) == 1
    assert base.ctl("use", "--reset", "--user", OTHER, "--dry-run").stdout == f"Would end for user {OTHER}: A=1.\n"
    assert rules_text(base) == before


def test_there_is_a_bound(base):
    for i in range(64):
        base.ctl("use", "debug", "--unit", f"u{i}")
    done = base.ctl("set", "A=1", "--user", OTHER, ok=1)
    assert "64 overrides" in done.stderr and "--reset" in done.stderr
    base.ctl("use", "base", "--unit", "u1")  # one that is there may change
    assert rules_text(base).count("\nrule ") == 65


def test_only_who_may(base):
    before = rules_text(base)
    for arguments in ["use", "debug", "--user", OTHER], ["set", "A=1", "--user", OTHER], ["use", "--reset"]:
        done = subprocess.run([CTL, *map(str, arguments)], env=base.environ(), capture_output=True, text=True, user=OTHER, group=OTHER,
                              extra_groups=[], cwd="/")
        assert done.returncode == 1 and "only root" in done.stderr, done
    assert rules_text(base) == before


def test_a_slip_in_a_name_is_loud(base):
    for more in [], ["--dry-run"]:
        done = base.ctl("set", "NCCL_DEBGU=INFO", "NCCL_PROTO=LL", "--user", OTHER, *more)
        assert done.stderr == "cudaenvctl: warning: NCCL_DEBGU is no variable that cudaenv knows: did you mean NCCL_DEBUG?\n"
        [finding] = base.json("set", "NCCL_DEBGU=INFO", "--user", OTHER, *more)["findings"]
        assert (finding["rule"], finding["variable"], finding["severity"]) == ("unknown-name", "NCCL_DEBGU", "warning")
    assert "default NCCL_DEBGU=INFO" in snapshot_of(base, OTHER), "new releases have new names"
    assert base.json("set", "NCCL_DEBUG=INFO", "--user", OTHER)["findings"] == []
    base.profile("slip", "[env]\nNCCL_DEBGU = INFO\n")
    try:
        assert "slip.ini:2:1: warning: NCCL_DEBGU is no variable that cudaenv knows\n" in base.ctl("check", "slip").stdout
        assert base.json("check", "slip")["findings"][0]["rule"] == "unknown-name"
    finally:
        (base.profiles / "slip.ini").unlink()


@pytest.mark.parametrize("arguments, text", [
    (["use", "debug", "--user", "no-such-user"], "there is no user 'no-such-user'"),
    (["use", "debug", "--user", "4294967295"], "is no user's number"),
    (["use", "debug", "--unit", "vllm@*"], "is a pattern"),
    (["use", "debug", "--unit", "a/b"], "no name of a unit"),
    (["use", "debug", "--unit", "a.timer"], "only services and scopes"),
    (["use", "debug", "--unit", "a", "--user", "root"], "not both"),
    (["use", "debug", "--for", "0"], "a second to ten years"),
    (["use", "debug", "--for", "99999999999999999999h"], "a second to ten years"),
    (["use", "debug", "--for", "3651d"], "a second to ten years"),
    (["use", "debug", "--for", "-1h"], "is no time"),
    (["use", "debug", "--for", "1.5h"], "is no time"),
    (["set", "A=1"], "for whom?"),
    (["set", "MY_API_KEY=hidden", "--user", "root"], "looks like a secret"),
    (["set", "DB_PASS=hidden", "--user", "root"], "looks like a secret"),
    (["set", "HTTPS_PROXY=http://a:hidden@b:1", "--user", "root"], "has a password in it"),
    (["set", "CUDA_VISIBLE_DEVICES=0", "--user", "root"], "belongs to the scheduler"),
    (["set", "PATH=/a::/b", "--user", "root"], "empty element"),
    (["set", "A=b\nB=c", "--user", "root"], "control character"),
    (["set", "1A=b", "--user", "root"], "no name of a variable"),
])
def test_what_is_refused(base, arguments, text):
    done = base.ctl(*arguments, ok=2)
    assert text in done.stderr and done.stderr.count("\n") == 1 and "hidden" not in done.stderr
    assert json.loads(json.dumps(overrides(base))) == []


def test_the_answer_has_the_time_that_was_asked_for(base):
    """Not the second that is added, and no reader's zone."""
    for more in [], ["--dry-run"]:
        for line in ["use", "debug", "--user", "nobody", "--for", "10s"], ["set", "A=1", "--unit", "x", "--for", "1d 90min"]:
            asked = {"10s": "10s", "1d 90min": "1d 1h"}[line[-1]]
            out = base.ctl(*line, *more, TZ="Asia/Tokyo").stdout
            when = re.search(r", until (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) \((.*?)\)\.\n", out)
            assert when and when[2] == asked, out
    base.ctl("use", "debug", "--user", "nobody", "--for", "2h")
    end = [o["until"] for o in overrides(base) if o["action"] == "use"]
    text = time.strftime("until %Y-%m-%dT%H:%M:%SZ", time.gmtime(end[0]))
    assert text in base.ctl("list", "--why", TZ="Asia/Tokyo").stdout
