# SPDX-License-Identifier: MIT
"""cudaenvctl: each verb with good and bad news, wrong usage, a dead daemon and a frozen one; the fields of --json."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import CTL, MANAGER, PCIE8, PREFIX, SRC, clean_environ, wait_until

NEEDS_MANAGER = [["history"], ["use", "base"], ["rollback"], ["on"], ["observe"]]
LIBRARY = PREFIX / "lib/libcudaenv.so.0"

# A program that starts as the hook would, then does what it is told on stdin; each of its processes lives until stdin ends.
PROGRAM = """
import ctypes, multiprocessing as mp, os, signal, subprocess, sys
def start():
    ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else os.environ["LIBRARY"]).cudaenv_start(None, ctypes.byref(ctypes.c_void_p()))
def child(connection):
    start()
    connection.send(os.getpid())
    signal.pause()
if __name__ == "__main__":
    start()
    print(os.getpid(), flush=True)
    children = []
    for line in sys.stdin:
        if line.strip() == "sleep":
            print(subprocess.Popen(["sleep", "3600"]).pid, flush=True)
            continue
        here, there = mp.Pipe()
        target = child if line.strip() != "fork" else lambda c: (c.send(os.getpid()), signal.pause())
        p = mp.get_context(line.strip()).Process(target=target, args=(there,), daemon=True)
        p.start()
        children.append(p)
        print(here.recv(), flush=True)
    for p in children:
        p.kill()
"""


@contextlib.contextmanager
def program(node, *, env=None):
    """Yields (pid, start) of a job of its own, where start("spawn") makes one more process and gives its pid ("sleep": one that
    knows nothing of cudaenv)."""
    path = node.root / "program.py"
    path.write_text(PROGRAM)
    p = subprocess.Popen(node.new_job([sys.executable, path]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         env=node.environ(LIBRARY=LIBRARY, **(env or {})), start_new_session=True)

    def start(method):
        p.stdin.write(method + "\n")
        p.stdin.flush()
        return int(p.stdout.readline())

    try:
        yield int(p.stdout.readline()), start
    finally:
        p.stdin.close()
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.wait(20)


def by_pid(node, *options):
    return {w["pid"]: w for w in node.json("workers", *options)["processes"]}


@pytest.fixture
def two(node):
    """A running node, mode on, with base in use, and pcie8 beside it."""
    node.variables("base", NCCL_DEBUG="WARN")
    node.profile("pcie8", (SRC / "tests/data/profiles/pcie8.ini").read_text())
    node.start()
    node.ctl("use", "base")
    node.ctl("on")
    return node


# --- usage


def run(*arguments, **more):
    return subprocess.run([CTL, *arguments], capture_output=True, text=True, timeout=60, env=clean_environ(), **more)


@pytest.mark.parametrize("arguments, message", [
    (["statsu"], "unknown verb 'statsu' (did you mean status?); see cudaenvctl --help"),
    (["help", "statsu"], "unknown verb 'statsu' (did you mean status?); see cudaenvctl --help"),
    (["nonsense"], "unknown verb 'nonsense'; see cudaenvctl --help"),
    (["use", "a", "--dry-rnu"], "unknown option '--dry-rnu' (did you mean --dry-run?); see cudaenvctl use --help"),
    (["use", "a", "--raeson=x"], "unknown option '--raeson=x' (did you mean --reason?); see cudaenvctl use --help"),
    (["--usr", "status"], "unknown option '--usr' (did you mean --user?); see cudaenvctl --help"),
    (["workers", "-q"], "unknown option '-q'; see cudaenvctl workers --help"),
    (["use", "a", "--reason"], "no argument for '--reason'; see cudaenvctl use --help"),
])
def test_what_was_meant(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2 and done.stderr == f"cudaenvctl: {message}\n"


def test_options_may_stand_anywhere(node):
    node.start()
    a = node.ctl("--json", "--user", "status").stdout
    b = node.ctl("status", "--user", "--json").stdout
    assert json.loads(a).keys() == json.loads(b).keys()


def test_a_full_disk_is_a_failure():
    with open("/dev/full", "w") as full:
        done = subprocess.run([CTL, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3 and "cannot write" in done.stderr


# --- the good road


STATUS = ["verdict", "mode", "active", "digest", "rank_digest", "facts_version", "generation", "profiles_valid",
          "profiles_broken", "edited", "processes", "jobs", "jobs_split", "last_error"]


def test_status(two):
    s = two.json("status")
    assert set(STATUS) <= s.keys()
    assert s["mode"] == "on" and s["active"] == "base" and s["profiles_valid"] == 2 and s["profiles_broken"] == 0
    assert s["running"] is True and s["jobs_split"] is None
    assert s["processes"] == 0 and s["jobs"] == 0
    assert s["verdict"] == "OK: no worker yet, new jobs get base"
    with program(two) as (_, start):
        start("spawn")
        s = two.json("status")
        # main, resource tracker of spawn only where it registers: a plain one has no start hook here.
        assert (s["processes"], s["jobs"]) == (2, 1)
        assert s["verdict"] == "OK: 2 of 2 workers on base"
        two.ctl("use", "pcie8")
        assert two.json("status")["verdict"] == "0 of 2 workers on pcie8 yet, 2 on another snapshot"
    two.ctl("observe")
    assert two.json("status")["verdict"].startswith("observing: ")
    two.ctl("off")
    assert two.json("status")["verdict"].startswith("off: ")
    first = two.ctl("status").stdout.splitlines()[0]
    assert first.startswith("off: ")


def test_status_when_nothing_is_in_use(node):
    node.start()
    node.ctl("on")
    done = node.ctl("status", ok=1)
    assert done.stdout.startswith("on, but no profile is in use")


def test_status_with_rules_alone(node):
    node.variables("base", NCCL_DEBUG="WARN")
    (node.config / "cudaenvd.conf").write_text("[assign everyone]\nprofile = base\nuser = root\n")
    node.start()
    node.ctl("on")
    assert node.json("status")["verdict"] == "OK: no worker yet, new jobs get what the rules give"
    assert node.ctl("exec", "/bin/sh", "-c", "echo $NCCL_DEBUG").stdout == "WARN\n"


def test_status_when_what_is_named_is_not_there(node):
    """Only what is really given counts: a name, or a rule that gives nothing, does not."""
    conf, bad = node.config / "cudaenvd.conf", node.profiles / "bad.ini"
    node.variables("base", NCCL_DEBUG="WARN")
    conf.write_text("[cudaenvd]\nprofile = bas\n[assign a]\nuser = root\nprofile = none\n")
    node.start()
    done = node.ctl("on").stdout
    assert "In use" not in done and "Jobs of no rule get nothing: there is no profile bas; did you mean base?\n" in done
    verdict = "on, but there is no profile bas: nothing is set; did you mean base?"
    assert node.ctl("status", ok=1).stdout.splitlines()[0] == verdict
    conf.write_text("[assign a]\nuser = root\nprofile = bad\n")
    bad.write_text("[env\n")
    node.process.send_signal(signal.SIGHUP)
    verdict = "on, but profile bad has errors: nothing is set; cudaenvctl check bad shows them"
    wait_until(lambda: node.json("status", ok=None)["verdict"] == verdict, "what the rule names is told")
    node.ctl("status", ok=1)
    conf.write_text("[cudaenvd]\nprofile = bad\n[assign a]\nuser = root\nprofile = base\n")
    node.process.send_signal(signal.SIGHUP)
    verdict = "OK: no worker yet, new jobs get what the rules give"
    wait_until(lambda: node.json("status", ok=None)["verdict"] == verdict, "the rule gives base")
    node.ctl("status")
    node.ctl("use", "base")
    done = node.ctl("use", "--reset", "--node")
    assert done.stdout.startswith("In use: no profile (before: ")
    assert "profile bad has errors; cudaenvctl check bad shows them" in done.stderr


def test_status_tells_an_error_of_the_manager(two):
    shutil.rmtree(two.state)
    done = two.ctl("use", "pcie8")
    assert "until reboot" in done.stderr
    done = two.ctl("status", ok=1)
    assert done.stdout.startswith("attention: ") and str(two.state) in done.stdout.splitlines()[0]
    assert two.json("status", ok=1)["last_error"]


def test_pipes_get_tabs_terminals_get_columns(two):
    plain = two.ctl("list").stdout
    assert [line.split("\t")[0] for line in plain.splitlines()] == ["base", "pcie8"]
    assert "\033" not in plain
    done = subprocess.run(["script", "-qec", f"{CTL} list", "/dev/null"], env=two.environ(TERM="xterm"),
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert "PROFILE" in done.stdout and "\033[1m" in done.stdout and "\t" not in done.stdout
    done = subprocess.run(["script", "-qec", f"{CTL} list", "/dev/null"], env=two.environ(TERM="xterm", NO_COLOR="1"),
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert "PROFILE" in done.stdout and "\033" not in done.stdout


def test_list_and_show(two):
    profiles = {p["name"]: p for p in two.json("list")["profiles"]}
    assert profiles.keys() == {"base", "pcie8"}
    assert {"name", "path", "active", "valid", "edited", "digest", "rank_digest", "scope", "description"} \
        <= profiles["base"].keys()
    assert profiles["base"]["active"] and not profiles["pcie8"]["active"]
    assert "8x RTX PRO 6000" in profiles["pcie8"]["description"]

    shown = two.json("show", "pcie8")
    assert shown["profile"] == "pcie8" and len(shown["digest"]) == 64
    assert {v["name"]: v["value"] for v in shown["variables"]} == PCIE8
    lines = (two.profiles / "pcie8.ini").read_text().splitlines()
    for v in shown["variables"]:
        assert {"name", "rule", "value", "file", "line"} <= v.keys()
        assert v["file"] == str(two.profiles / "pcie8.ini")
        assert lines[v["line"] - 1].startswith(v["name"])
    assert two.json("show")["profile"] == "base"
    assert "NCCL_DEBUG\tdefault\tWARN\t" in two.ctl("show").stdout


def test_values_are_escaped_and_json_is_utf8(node):
    node.profile("odd", "[env]\nA = tab\there gr\u00fc\u00df \u202eturned\n")
    node.start()
    node.ctl("use", "odd")
    assert "A\tdefault\ttab\\there gr\u00fc\u00df \\u{202e}turned\t" in node.ctl("show").stdout
    assert node.json("show")["variables"][0]["value"] == "tab\there gr\u00fc\u00df \u202eturned"


def test_bad_news_of_profiles(two):
    for arguments in ["show", "nothere"], ["use", "nothere"], ["use", "nothere", "--dry-run"], ["exec", "-p", "nothere", "true"]:
        done = two.ctl(*arguments, ok=1)
        assert "nothere" in done.stderr and done.stdout == ""
    two.profile("bad", "[env]\nA=b\nA=c\n")
    done = two.ctl("use", "bad", ok=1)
    first = f"cudaenvctl: profile bad has errors, the first is {two.profiles}/bad.ini:3:1: error: "
    way = "; cudaenvctl check bad shows all\n"
    assert done.stderr.startswith(first) and done.stderr.endswith(way)
    for arguments in ["use", "bad", "--dry-run"], ["show", "bad"]:
        done = two.ctl(*arguments, ok=1)
        assert done.stderr.startswith(first) and done.stderr.endswith(way)
    assert two.json("status")["active"] == "base"


def test_list_says_what_is_wrong(two):
    two.profile("bad", "[env]\nA=b\nA=c\n")
    bad = wait_until(lambda: [p for p in two.json("list")["profiles"] if p["name"] == "bad"], "it is seen")[0]
    assert bad["valid"] is False and bad["digest"] is None
    row, = [line for line in two.ctl("list").stdout.splitlines() if line.startswith("bad\thas errors\t")]
    assert f"{two.profiles}/bad.ini:3:1: error: " in row
    # One in use that is broken by an edit stays in force.
    two.profile("base", "[env]\nA=b\nA=c\n")
    wait_until(lambda: "base\tin use, has errors\t" in two.ctl("list").stdout, "the fault shows")
    s = two.json("status")
    assert s["active"] == "base" and s["profiles_broken"] == 2 and s["profiles_valid"] == 1


@pytest.mark.parametrize("reason", ["x" * 2000, b"\xff"])
def test_a_reason_that_cannot_be_kept(two, reason):
    for arguments in ["use", "pcie8"], ["off"], ["observe"], ["rollback"]:
        done = subprocess.run([CTL, *arguments, "--reason", reason], env=two.environ(), capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 2 and done.stdout == "" and done.stderr, arguments
    s = two.json("status")
    assert s["mode"] == "on" and s["active"] == "base"


def test_edited_is_not_applied_until_use(two):
    two.variables("base", NCCL_DEBUG="INFO")
    wait_until(lambda: [p for p in two.json("list")["profiles"] if p["name"] == "base" and p["edited"]], "edited shows")
    assert "in use, edited" in two.ctl("list").stdout
    assert two.json("show")["variables"][0]["value"] == "WARN"
    dry = two.json("use", "base", "--dry-run")
    assert dry["to"] != two.json("status")["digest"]
    assert two.json("use", "base")["to"] == dry["to"]
    assert two.json("show")["variables"][0]["value"] == "INFO"


def test_use_rollback_and_history(two):
    before = two.json("status")["digest"]
    dry = two.json("use", "pcie8", "--dry-run")
    assert dry["dry_run"] is True and dry["profile"] == "pcie8" and two.json("status")["active"] == "base"
    done = two.json("use", "pcie8", "--reason", "the new \u2028 tuning")
    assert {"action", "mode", "from", "to", "digest", "profile", "generation", "stays"} <= done.keys()
    assert (done["action"], done["profile"], done["from"], done["to"]) == ("use", "pcie8", before, dry["to"])
    assert done["stays"] == []

    dry = two.json("rollback", "--dry-run")
    assert dry["to"] == before and dry["profile"] == "base" and two.json("status")["active"] == "pcie8"
    assert two.json("rollback")["to"] == before
    assert two.json("status")["active"] == "base"

    entries = two.json("history")["entries"]
    assert all({"time", "uid", "user", "action", "scope", "from", "to", "reason"} <= e.keys() for e in entries)
    assert [e["action"] for e in entries][-2:] == ["use", "rollback"]
    assert entries[-2]["reason"] == "the new \u2028 tuning" and entries[-2]["uid"] == os.geteuid()
    assert "the new \\u{2028} tuning" in two.ctl("history").stdout


def test_history_of_what_nobody_saw(two):
    wait_until(lambda: two.json("status")["running"], "it answers")
    two.stop(signal.SIGKILL)
    two.ctl("off")
    shutil.rmtree(two.state)
    two.start()
    rows = [line.split("\t") for line in two.ctl("history").stdout.splitlines()]
    assert rows and {(r[1], r[2]) for r in rows} <= {("unknown", "adopt"), ("unknown", "off")}
    assert {r[6] for r in rows} == {f"was already in force in {two.run} when cudaenvd started"}


def test_show_marks_a_toolkit_that_is_not_here(two):
    two.profile("cuda", f"[toolkit]\nroot = {two.root}/cuda\n[env]\nA = b\n")
    wait_until(lambda: [p for p in two.json("list")["profiles"] if p["name"] == "cuda"], "it is seen")
    shown = two.json("show", "cuda")
    assert shown["toolkit_root"] == f"{two.root}/cuda" and shown["toolkit_here"] is False
    notes = {r[0]: r[4] for r in (line.split("\t") for line in two.ctl("show", "cuda").stdout.splitlines())}
    assert notes.pop("A") == "-" and notes["CUDA_HOME"] and set(notes.values()) == {"not on this node"}
    (two.root / "cuda").mkdir()
    assert "not on this node" not in two.ctl("show", "cuda").stdout
    assert two.json("show", "cuda")["toolkit_here"] is True
    assert two.json("show", "base")["toolkit_here"] is None


def test_modes(two):
    for mode, before in ("observe", "on"), ("off", "observe"), ("on", "off"):
        dry = two.json(mode, "--dry-run")
        assert (dry["from"], dry["to"], dry["dry_run"]) == (before, mode, True)
        assert two.json("status")["mode"] == before
        done = two.json(mode, "--reason", "a test")
        assert (done["from"], done["to"], done["mode"]) == (before, mode, mode)
        assert two.json("status")["mode"] == mode
    assert two.json("history")["entries"][-1]["reason"] == "a test"
    assert "as before" in two.ctl("on").stdout


# --- check


def test_check_files_names_and_stdin(two):
    nothing = two.json("check")
    assert {k: nothing[k] for k in ("errors", "warnings", "findings")} == {"errors": 0, "warnings": 0, "findings": []}
    assert "0 errors, 0 warnings, 0 advices in 2 profiles." in two.ctl("check").stdout
    two.ctl("check", "base", "pcie8")

    bad = two.root / "bad.ini"
    bad.write_text("[profile]\ncolour = blue\n[env]\nA=b\nA=c\nHF_TOKEN=hf_not_a_real_token\n")
    done = two.json("check", bad, ok=1)
    assert done["errors"] == 3 and len(done["findings"]) == 3
    for finding in done["findings"]:
        assert finding.keys() == {"file", "line", "column", "severity", "rule", "variable", "message", "fix"}
        assert finding["file"] == str(bad)
    assert [f["line"] for f in done["findings"]] == [2, 5, 6]
    text = two.ctl("check", bad, ok=1).stdout
    assert f"{bad}:5:1: error: " in text and "\n  fix: " in text
    assert "hf_not_a_real_token" not in text + json.dumps(done)

    with bad.open() as f:
        done = subprocess.run([CTL, "check", "-"], stdin=f, env=two.environ(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "<stdin>:5:1: error: " in done.stdout

    two.variables("warn", NCCL_DEBUG='"INFO"')
    done = two.json("check", "warn")
    assert (done["errors"], done["warnings"]) == (0, 1)


def test_check_what_is_not_there(two):
    for argument in "nothere", "nothere.ini", "/nonexistent/x.ini":
        done = two.json("check", argument, ok=1)
        assert done["findings"][0]["rule"] == "unreadable" and done["findings"][0]["line"] is None
        assert argument in two.ctl("check", argument, ok=1).stdout


def test_check_sums_advices(two):
    two.variables("late", LD_PRELOAD="/usr/lib/libx.so", PYTHONHASHSEED="7")
    assert two.ctl("check", "late").stdout.endswith("\n0 errors, 0 warnings, 2 advices in 1 profile.\n")
    assert two.json("check", "late")["advices"] == 2


def test_check_with_nothing_to_check(node):
    assert node.ctl("check", ok=1).stdout == f"No profile to check in {node.profiles}.\n"
    assert node.json("check", ok=1)["findings"] == []
    (node.profiles / "masked.ini").symlink_to("/dev/null")
    node.ctl("check", ok=1)


def test_an_unknown_profile(two):
    """Where was looked, and the way out: the list, without .ini, without a directory."""
    looked = f"no profile nothere in {two.profiles}"
    finding, = two.json("check", "nothere", ok=1)["findings"]
    assert (finding["message"], finding["fix"]) == (looked, "cudaenvctl list shows what there is")
    for arguments in ["use", "nothere"], ["use", "nothere", "--dry-run"], ["show", "nothere"]:
        done = two.ctl(*arguments, ok=1)
        assert done.stderr == f"cudaenvctl: {looked}; cudaenvctl list shows what there is\n"
    for name in "pcie", "pcei8", "PCIE8":
        for arguments in ["use", name], ["use", name, "--dry-run"], ["show", name]:
            done = two.ctl(*arguments, ok=1)
            assert done.stderr == f"cudaenvctl: no profile {name} in {two.profiles}; did you mean pcie8?\n"
    for name, way in ("base.ini", "leave out .ini: "), (f"{two.profiles}/base.ini", "leave out .ini: "), \
            ("./base", "leave out the directory: "):
        assert two.ctl("use", name, ok=1).stderr.endswith(f"; {way}cudaenvctl use base\n")
    finding, = two.json("check", "base.ini", ok=1)["findings"]
    assert finding["message"].startswith("there is no such file, and no profile base.ini in ")
    assert finding["fix"] == "leave out .ini: cudaenvctl check base"
    assert two.ctl("exec", "-p", "base.ini", "true", ok=1).stderr.endswith("; leave out .ini: cudaenvctl exec -p base\n")


def test_a_profile_that_ones_own_cudaenvd_has(tmp_path):
    """The system is meant, and --user would find it."""
    profiles = tmp_path / "config/cudaenv/profiles.d"
    profiles.mkdir(parents=True)
    (profiles / "mine-alone.ini").write_text("[env]\nA=b\n")
    env = clean_environ(XDG_CONFIG_HOME=tmp_path / "config", XDG_STATE_HOME=tmp_path, XDG_RUNTIME_DIR=tmp_path)
    done = subprocess.run([CTL, "check", "mine-alone"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "/etc/cudaenv/profiles.d, /run/cudaenv/profiles.d, /usr/lib/cudaenv/profiles.d" in done.stdout
    assert "fix: yours: --user\n" in done.stdout
    done = subprocess.run([CTL, "--user", "check", "mine-alone"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    done = subprocess.run([CTL, "--user", "check", "mine-alone.ini"], env=env, capture_output=True, text=True, timeout=60,
                          cwd="/")
    assert done.returncode == 1 and "fix: leave out .ini: cudaenvctl --user check mine-alone\n" in done.stdout


def test_no_login_session(tmp_path):
    uid = 54321
    assert not os.path.exists(f"/run/user/{uid}")
    way = f"/run/user/{uid} does not exist (no login session): export XDG_RUNTIME_DIR=DIR, a directory of your own with mode 0700, " \
        "in this and every later shell"
    for command in [MANAGER, "--user"], [MANAGER]:
        done = subprocess.run(command, env=clean_environ(HOME="/tmp/nobody-has-this"), user=uid, group=uid, extra_groups=[],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and way in done.stderr and "Permission denied" not in done.stderr
    for verb in "status", "list", "workers", "on":
        done = subprocess.run([CTL, "--user", verb], env=clean_environ(HOME="/tmp/nobody-has-this"), user=uid,
                              group=uid, extra_groups=[], capture_output=True, text=True, timeout=60)
        assert done.returncode == (1 if verb == "status" else 3) and way in done.stdout + done.stderr


def test_status_on_a_terminal_says_where(two):
    done = subprocess.run(["script", "-qec", f"{CTL} status", "/dev/null"], env=two.environ(TERM="dumb"), capture_output=True,
                          text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert [line.split() for line in done.stdout.splitlines()][-1] == ["Directory", str(two.run)]
    assert "Directory" not in two.ctl("status").stdout


def test_check_needs_no_daemon(node):
    node.variables("base", A="b")
    assert node.json("check", "base")["errors"] == 0
    node.profile("bad", "A=b\n")
    assert node.json("check", ok=1)["errors"] == 1


# --- workers


def test_workers(two):
    with program(two) as (main, start):
        pids = {method: start(method) for method in ("spawn", "fork", "forkserver")}
        workers = by_pid(two)
        assert workers.keys() == {main, *pids.values()}
        assert all(w.keys() == {"pid", "parent", "uid", "exe", "started_as", "job", "snapshot", "profile", "stale", "unit", "cgroup", "required",
                               "required_met", "verdict"}
                   for w in workers.values())
        assert workers[main]["started_as"] == "main"
        assert {m: workers[p]["started_as"] for m, p in pids.items()} == {m: m for m in pids}
        assert len({w["job"] for w in workers.values()}) == 1
        assert {w["profile"] for w in workers.values()} == {"base"}
        assert {w["stale"] for w in workers.values()} == {False}
        assert {w["verdict"] for w in workers.values()} == {None}
        assert os.path.samefile(workers[main]["exe"], f"/proc/{main}/exe")

        job, = two.json("workers")["jobs"]
        assert job.keys() == {"id", "kind", "root_pid", "snapshot", "members", "split"}
        assert (job["id"], job["members"], job["split"]) == (workers[main]["job"], 4, None)
        assert job["snapshot"] == two.json("status")["digest"]
        assert two.json("workers", "--stale") == {"processes": [], "jobs": []}

        tree = two.ctl("workers", "--tree").stdout.splitlines()
        assert tree[0].split("\t")[0] == str(main)
        assert f"  {pids['spawn']}" in [line.split("\t")[0] for line in tree]
        assert (workers[main]["parent"], workers[pids["spawn"]]["parent"]) == (None, main)
        two.ctl("use", "pcie8")
        assert two.ctl("workers", "--tree", "--stale").stdout.splitlines() == [line.replace("\tcurrent\t", "\tstale\t") for line in tree]
        assert {p["pid"]: p["parent"] for p in two.json("workers", "--tree", "--stale")["processes"]} == {
            p: w["parent"] for p, w in workers.items()}


def test_who_stays_on_an_older_snapshot(two):
    with program(two) as (main, start):
        spawned = start("spawn")
        done = two.json("use", "pcie8")
        stays, = done["stays"]
        assert stays["pids"] == sorted([main, spawned]) and stays["profile"] == "base"
        assert stays["id"] == by_pid(two)[main]["job"]
        # A later child stays with its job, a new job is on the new one.
        later = start("spawn")
        with program(two) as (other, _):
            workers = by_pid(two)
            assert workers[later]["profile"] == "base" and workers[later]["stale"] is True
            assert workers[other]["profile"] == "pcie8" and workers[other]["stale"] is False
            assert by_pid(two, "--stale").keys() == {main, spawned, later}
        text = two.ctl("use", "pcie8").stdout
        assert str(main) in text and "on base" in text and "start it again" in text
        assert "stay" not in two.ctl("rollback").stdout


def in_a_script(node, *commands):
    """Runs the commands one after the other in one script, a job of its own; gives its pid and the output of the last."""
    script = 'echo $$; for c in "$@"; do $c >"$OUT"; done; cat "$OUT"'
    # The program's stdin is empty: it starts as the hook would, and ends.
    done = subprocess.run(node.new_job(["/bin/bash", "-c", script, "bash", *commands]), stdin=subprocess.DEVNULL, timeout=60,
                          env=node.environ(LIBRARY=LIBRARY, OUT=node.root / "out"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pid, text = done.stdout.split("\n", 1)
    return int(pid), text


def test_the_job_that_cudaenvctl_runs_in(two):
    (two.root / "program.py").write_text(PROGRAM)
    start = f"{sys.executable} {two.root}/program.py"
    digests = {p["name"]: p["digest"] for p in two.json("list")["profiles"]}
    line = "This shell's own job (below bash, process {}) {} on base " + digests["base"][:12] + \
        ": open a new login, or start commands with cudaenvctl exec --.\n"

    # Nobody of the job is alive, but its pin is.
    pid, text = in_a_script(two, start, f"{CTL} use pcie8 --dry-run")
    assert text.endswith(line.format(pid, "would stay"))
    pid, text = in_a_script(two, start, f"{CTL} use pcie8")
    assert text.endswith(line.format(pid, "stays")) and "These jobs" not in text
    _, text = in_a_script(two, start, f"{CTL} use base --json")
    own = json.loads(text)["own_job"]
    assert own.keys() == {"id", "snapshot", "profile"} and own["profile"] == "pcie8" and own["snapshot"] == digests["pcie8"]
    _, text = in_a_script(two, start, f"{CTL} rollback --dry-run --json")
    assert json.loads(text)["own_job"]["profile"] == "base"
    _, text = in_a_script(two, start, f"{CTL} rollback")
    assert "own job" in text

    # Its own snapshot, no pin at all, or a job of exec's.
    for commands in [start, f"{CTL} use pcie8"], [f"{CTL} use base"], [start, f"{CTL} exec -p pcie8 -- {CTL} use pcie8"]:
        assert "own job" not in in_a_script(two, *commands)[1], commands
        assert json.loads(in_a_script(two, *commands[:-1], commands[-1] + " --json")[1])["own_job"] is None
    assert two.json("use", "base")["own_job"] is None

    # Turned on: it began without.
    for on in "on --dry-run", "on":
        two.ctl("observe")
        pid, text = in_a_script(two, start, f"{CTL} {on}")
        stays = "would stay" if "dry" in on else "stays"
        assert f"This shell's own job (below bash, process {pid}) {stays} on nothing: open a new login" in text
        two.ctl("observe")
        _, text = in_a_script(two, start, f"{CTL} {on} --json")
        assert json.loads(text)["own_job"] == {"id": json.loads(text)["own_job"]["id"], "snapshot": None, "profile": None}
    # Only read: a job without a pin has none afterwards.
    two.ctl("on")
    before = sorted(os.listdir(two.run / "jobs"))
    in_a_script(two, f"{CTL} use pcie8")
    assert set(os.listdir(two.run / "jobs")) <= set(before)


def test_nobody_is_told_to_end_the_own_shell(two):
    (two.root / "program.py").write_text(PROGRAM)
    # A worker that lives on below the shell that runs cudaenvctl.
    command = f'{sys.executable} {two.root}/program.py <"$FIFO" >"$OUT" & exec 3>"$FIFO"; ' \
        f'until [ -s "$OUT" ]; do :; done; {CTL} use pcie8; exit $?'
    os.mkfifo(two.root / "fifo")
    done = subprocess.run(two.new_job(["/bin/bash", "-c", command]), capture_output=True, text=True, timeout=60,
                          env=two.environ(LIBRARY=LIBRARY, FIFO=two.root / "fifo", OUT=two.root / "out"))
    assert done.returncode == 0, done.stderr
    job, own = done.stdout.splitlines()[-2:]
    assert job.endswith(": open a new shell, this one is part of it") and own.startswith("This shell's own job (below bash, ")
    with program(two) as (main, _):
        line, = [line for line in two.ctl("use", "base").stdout.splitlines() if line.startswith("  job ")]
        comm = open(f"/proc/{main}/comm").read().strip()
        assert line.endswith(f": end {comm} (process {main}) and start it again")


def test_on_says_who_began_without(two):
    two.ctl("observe")
    with program(two) as (main, _):
        worker = by_pid(two)[main]
        assert worker["snapshot"] is None and worker["profile"] is None and worker["stale"] is False
        stays, = two.json("on")["stays"]
        assert stays["pids"] == [main] and stays["snapshot"] is None
        assert by_pid(two)[main]["stale"] is True
        assert two.json("status")["verdict"] == "0 of 1 workers on base yet, 1 on another snapshot"


def test_a_process_that_is_gone_is_not_listed(two):
    with program(two) as (main, _):
        assert main in by_pid(two)
    two.broker_pid()
    assert main not in by_pid(two)
    assert two.json("status")["processes"] == 0


def test_ordinary_users_see_their_own(two):
    def others_note(*options):
        return subprocess.run([CTL, "workers", *options], env=two.environ(), user=65534, group=65534, extra_groups=[],
                              capture_output=True, text=True, timeout=60).stderr

    assert others_note() == "cudaenvctl: note: no process has registered here\n"
    with program(two) as (main, _):
        assert others_note() == "cudaenvctl: note: none of yours has registered here; root sees all\n"
        assert others_note("--stale") == "cudaenvctl: note: none of yours is on another snapshot than a new job would get; root sees all\n"
        done = subprocess.run([CTL, "workers", "--json"], env=two.environ(), user=65534, group=65534, extra_groups=[],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"processes": [], "jobs": []}
        done = subprocess.run([CTL, "status", "--json"], env=two.environ(), user=65534, group=65534, extra_groups=[],
                              capture_output=True, text=True, timeout=60)
        assert json.loads(done.stdout)["processes"] == 1
        for arguments in ["use", "pcie8"], ["off"], ["rollback"]:
            done = subprocess.run([CTL, *arguments], env=two.environ(), user=65534, group=65534, extra_groups=[],
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and done.stdout == "", (arguments, done.stderr)
            assert done.stderr == f"cudaenvctl: {arguments[0]}: only root and who runs this cudaenvd may do this\n"
        s = two.json("status")
        assert s["mode"] == "on" and s["active"] == "base"


# --- jobs that run on the GPU already


@contextlib.contextmanager
def holder(node):
    """A process without a start hook that has a library of the name libcuda.so.1 mapped."""
    library = node.root / "libcuda.so.1"
    subprocess.run([os.environ.get("CC", "cc").split()[0], "-shared", "-o", library, "-x", "c", "/dev/null"], check=True,
                   timeout=60)
    code = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1]); print(os.getpid(), flush=True); sys.stdin.read()"
    p = subprocess.Popen(node.new_job([sys.executable, "-c", code, library]), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, env=node.environ(), start_new_session=True)
    try:
        yield int(p.stdout.readline())
    finally:
        p.stdin.close()
        p.wait(20)


def test_on_keeps_jobs_that_hold_a_gpu_library(two):
    two.ctl("off")
    with holder(two) as pid:
        dry = two.json("on", "--dry-run")
        assert pid in [p for job in dry["kept"] for p in job["pids"]]
        assert not list((two.run / "jobs").glob("tree-*"))
        kept = [job for job in two.json("on")["kept"] if pid in job["pids"]]
        assert len(kept) == 1
        assert os.readlink(two.run / "jobs" / kept[0]["id"]) == "none"
        two.ctl("off")
        # It has its pin now.
        assert pid not in [p for job in two.json("on")["kept"] for p in job["pids"]]


def test_on_says_which_it_keeps(two):
    two.ctl("observe")
    with holder(two) as pid:
        text = two.ctl("on").stdout
        line, = [line for line in text.splitlines() if line.startswith("Kept as it is")]
        assert f" {pid}" in line


# --- exec


def test_exec(two):
    def env_of(*options, **more):
        done = two.ctl("exec", *options, "--", "/usr/bin/env", "-0", **more)
        return dict(v.split("=", 1) for v in done.stdout.split("\0") if v)

    assert env_of()["NCCL_DEBUG"] == "WARN"
    got = env_of("-p", "pcie8")
    assert {k: got[k] for k in PCIE8} == PCIE8 and got["CUDAENV_PROFILE"] == "pcie8" and "NCCL_DEBUG" not in got
    digest = got["CUDAENV_SNAPSHOT"]
    assert env_of("-p", digest)["NCCL_PROTO"] == "LL"
    # One's own setting stays; an inherited snapshot's is taken back.
    assert env_of("-p", "pcie8", NCCL_PROTO="Simple")["NCCL_PROTO"] == "Simple"
    inherited = {k: v for k, v in got.items() if k.startswith(("NCCL_", "CUDAENV_", "CUDA_", "TRITON_"))}
    inherited.pop("CUDAENV_RUNTIME_DIR")
    again = env_of("-p", "base", **inherited)
    assert again["NCCL_DEBUG"] == "WARN" and "NCCL_PROTO" not in again and again["CUDAENV_SNAPSHOT"] != digest


def test_exec_sets_what_the_hook_cannot(two):
    two.variables("paths", LD_LIBRARY_PATH="/opt/x/lib", PYTHONHASHSEED="7")
    wait_until(lambda: [p for p in two.json("list")["profiles"] if p["name"] == "paths"], "the profile is published")
    done = two.ctl("exec", "-p", "paths", "/bin/sh", "-c", "echo $LD_LIBRARY_PATH $PYTHONHASHSEED")
    assert done.stdout == "/opt/x/lib 7\n"


# With a cleaned environment, told only where to look.
CHILD = """
import ctypes, os, sys
os.environ["CUDAENV_RUNTIME_DIR"] = sys.argv[2]
ctypes.CDLL(sys.argv[1]).cudaenv_start(None, ctypes.byref(ctypes.c_void_p()))
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print((getenv(b"NCCL_PROTO") or b"-").decode())
"""


def test_exec_is_a_job_of_its_own(two):
    script = two.root / "child.py"
    script.write_text(CHILD)
    p = subprocess.Popen([CTL, "exec", "-p", "pcie8", "/bin/sh", "-c",
                          'echo up; read x; env -i "$@"; :', "sh", sys.executable, script, LIBRARY, two.run],
                         env=two.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "up\n"
    worker = by_pid(two)[p.pid]
    assert worker["profile"] == "pcie8" and worker["started_as"] == "main"
    # A process below finds the job by its ancestor.
    out, _ = p.communicate("\n", timeout=60)
    assert out == "LL\n"


def test_exec_ends_as_env_does(two):
    assert two.ctl("exec", "--", "/bin/sh", "-c", "exit 7", ok=7).stderr == ""
    assert "cannot run" in two.ctl("exec", "/nonexistent/x", ok=127).stderr
    assert "cannot run" in two.ctl("exec", "no-such-command-here", ok=127).stderr
    assert "cannot run" in two.ctl("exec", "/etc/passwd", ok=126).stderr
    # Options after the command are the command's.
    assert two.ctl("exec", "/bin/echo", "--help", "-p").stdout == "--help -p\n"


def test_exec_applies_in_every_mode(two):
    for mode in "observe", "off":
        two.ctl(mode)
        assert two.ctl("exec", "/bin/sh", "-c", "echo $NCCL_DEBUG").stdout == "WARN\n"


def test_exec_refuses_a_damaged_snapshot(two):
    digest = two.json("status")["digest"]
    path = two.run / "snapshots" / digest
    two.stop()
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"WARN", b"INFO"))
    path.chmod(0o444)
    done = two.ctl("exec", "true", ok=3)
    assert digest[:12] in done.stderr and "damaged" in done.stderr


# --- the daemon dead


def test_nothing_published(node):
    for verb in "status", "list", "on", "off":
        done = node.ctl(verb, ok=1 if verb == "status" else 3)
        assert "cudaenvd --user" in done.stdout + done.stderr
    node.ctl("workers", ok=3)
    node.ctl("exec", "true", ok=3)


def test_dead_daemon(two):
    digest = two.json("status")["digest"]
    with program(two) as (main, start):
        two.stop(signal.SIGKILL)
        for arguments in NEEDS_MANAGER:
            done = two.ctl(*arguments, ok=3)
            assert "cudaenvd is not running" in done.stderr and "cudaenvd --user" in done.stderr and done.stdout == ""
        done = two.ctl("status", ok=1)
        assert done.stdout.startswith("cudaenvd is not running: its last word is of ")
        s = two.json("status", ok=1)
        assert s["running"] is False and s["digest"] == digest and s["processes"] == 1 and s["mode"] == "on"
        assert main in by_pid(two)
        assert start("spawn") in by_pid(two)
        assert two.ctl("exec", "/bin/sh", "-c", "echo $NCCL_DEBUG").stdout == "WARN\n"
        two.ctl("check")


def test_off_with_the_daemon_dead(two):
    rules = (two.run / "assign").read_text()
    two.stop(signal.SIGKILL)
    done = two.json("off")
    assert (done["from"], done["to"], done["direct"]) == ("on", "off", True)
    now = (two.run / "assign").read_text()
    assert "\nmode off\n" in now and now.endswith("\nend\n")
    assert [line for line in now.splitlines() if not line.startswith(("mode", "generation"))] == \
        [line for line in rules.splitlines() if not line.startswith(("mode", "generation"))]
    assert not list(two.run.glob(".*off*"))
    with program(two) as (main, _):
        assert main not in by_pid(two)
    two.start()
    assert two.json("status")["mode"] == "off"
    two.ctl("on")
    assert two.json("status")["verdict"].startswith("OK: ")


def test_off_with_the_daemon_dead_survives_the_loss_of_run(two):
    two.stop(signal.SIGKILL)
    two.ctl("off")
    for path in sorted(two.run.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    two.start()
    s = two.json("status")
    assert s["mode"] == "off" and s["active"] == "base"


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_off_with_the_daemon_dead_and_no_rules(two, damage):
    path = two.run / "assign"
    two.stop(signal.SIGKILL)
    if damage == "gone":
        path.unlink()
    else:
        text = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(text[:len(text) // 2])
        path.chmod(0o444)
    done = two.ctl("off")
    assert "no rules" in done.stderr
    assert two.json("status", ok=1)["mode"] == "off"
    two.start()
    assert two.json("status")["mode"] == "off" and two.json("status")["active"] == "base"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
@pytest.mark.parametrize("alive", [True, False])
def test_off_with_the_runtime_directory_full(node, alive):
    """jobs/ takes files of every user, so any user can fill what it lies on."""
    node.run.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", node.run], check=False).returncode != 0:
        pytest.skip("cannot mount")
    try:
        node.variables("a", NCCL_PROTO="LL")
        node.start()
        node.ctl("use", "a")
        node.ctl("on")
        if not alive:
            node.stop()
        with open(node.run / "full", "wb", 0) as f, pytest.raises(OSError):
            while True:
                f.write(bytes(4096))
        assert os.statvfs(node.run).f_bavail == 0
        node.ctl("off")
        assert "mode off" in (node.run / "assign").read_text()
        assert node.json("status", ok=None)["mode"] == "off"
        (node.run / "full").unlink()
        if not alive:
            node.start()
        node.ctl("observe")
        assert node.json("status")["mode"] == "observe"
    finally:
        node.stop()
        subprocess.run(["umount", "-l", node.run], check=True)


def test_off_is_the_owners_alone(two):
    two.stop(signal.SIGKILL)
    done = subprocess.run([CTL, "off"], env=two.environ(), user=65534, group=65534, extra_groups=[], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 3 and "root" in done.stderr
    assert "\nmode on\n" in (two.run / "assign").read_text()


# --- the daemon frozen


def test_frozen_daemon(two):
    with program(two) as (main, _):
        two.process.send_signal(signal.SIGSTOP)
        advice = f"; it was stopped by a signal: kill -CONT {two.process.pid} wakes it"
        verbs = [*NEEDS_MANAGER, ["list"], ["show"], ["status"], ["workers"], ["check"], ["exec", "true"]]
        running = [(v, subprocess.Popen([CTL, *v], env=two.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)) for v in verbs]
        for arguments, p in running:
            out, err = p.communicate(timeout=15)  # each gives up after 1.5 s
            if arguments in NEEDS_MANAGER:
                assert p.returncode == 3, (arguments, out, err)
                assert f"cudaenvd (pid {two.process.pid}) does not answer" in err and advice in err
                assert out == ""
            elif arguments == ["status"]:
                assert p.returncode == 1 and out.startswith(f"cudaenvd (pid {two.process.pid}) does not answer")
                assert out.split("\n")[0].endswith(advice)
            else:
                assert p.returncode == 0, (arguments, out, err)
                assert (arguments[0] in ("list", "show")) == err.startswith("cudaenvctl: note: cudaenvd does not answer: ")
        assert two.json("off")["direct"] is True
        assert "\nmode off\n" in (two.run / "assign").read_text()
        two.process.send_signal(signal.SIGCONT)
        assert main in by_pid(two)
    # The thawed manager takes over what another hand has put in force.
    two.ctl("use", "pcie8")
    s = two.json("status")
    assert s["mode"] == "off" and s["active"] == "pcie8"
