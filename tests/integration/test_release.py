# SPDX-License-Identifier: MIT
"""release JOB: a running job gets another snapshot from its next start on; who may, and what a broker that is not there does."""
import ctypes
import json
import os
import signal
import subprocess

import pytest
from conftest import CTL, wait_until
from test_ctl import LIBRARY, holder, program

USER = 12345


@pytest.fixture
def two(node):
    """A running node, mode on, with base in use, and other beside it."""
    node.variables("base", NCCL_DEBUG="WARN")
    node.variables("other", NCCL_DEBUG="INFO", NCCL_ALGO="Ring")
    node.start()
    node.ctl("use", "base")
    node.ctl("on")
    return node


def release(node, *arguments, ok=0):
    return node.json("release", *arguments, ok=ok)


def pin(node, key):
    return os.readlink(node.run / "jobs" / key)


def snapshot_of(node, pid):
    return {w["pid"]: w["snapshot"] for w in node.json("workers")["processes"]}[pid]


def variable(pid, name):
    """What the process has now is not in its exec block; a child that starts below shows what it was handed and set."""
    for entry in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"):
        if entry.startswith(name.encode() + b"="):
            return entry.split(b"=", 1)[1].decode()
    return None


def test_the_next_process_gets_what_the_rules_give(two):
    base = two.json("status")["digest"]
    with program(two) as (main, start):
        first = start("spawn")
        key = two.json("workers")["jobs"][0]["id"]
        two.ctl("use", "other")
        other = two.json("status")["digest"]
        dry = release(two, main, "--dry-run")
        assert dry["dry_run"] and (dry["from"], dry["to"], dry["profile"]) == (base, other, "other")
        assert dry["members"] == sorted([main, first]) and dry["ranks_equal"] is False and pin(two, key) == base
        assert two.ctl("release", main, "--dry-run").stderr.startswith(
            "cudaenvctl: note: 2 live processes hold the old one, and the new one differs in what the ranks of one communicator must agree on")
        text = two.ctl("release", key, "--reason", "moved by hand")
        assert text.stdout.startswith(f"Released job {key}: what starts in it from now on gets other {other[:12]}; these stay on base")
        assert f"\n{first}\t" in text.stdout and "hang or die" in text.stderr
        assert pin(two, key) == f"{other} {base}"
        # A child is handed the old token and the old values; it is of the same job and has the new ones.
        second = start("spawn")
        assert {w["pid"]: w["job"] for w in two.json("workers")["processes"]}[second] == key
        document = wait_until(lambda: (d := json.loads(two.ctl("why", second, "--json", ok=None).stdout))["report"] and d, "a report")
        assert document["ok"] and document["report"]["snapshot"] == other
        assert {v["name"]: v["reported"] for v in document["variables"]} == {"NCCL_DEBUG": "replaced", "NCCL_ALGO": "set"}
        assert variable(second, "CUDAENV_SNAPSHOT") == base
        entry = two.json("history")["entries"][-1]
        assert {k: entry[k] for k in ("action", "scope", "from", "to", "profile", "reason")} == {
            "action": "release", "scope": f"job {key}", "from": base, "to": other, "profile": "other", "reason": "moved by hand"}
        # Once more changes nothing, and is not in the history.
        again = release(two, main)
        assert again["from"] == again["to"] == other and two.json("history")["entries"][-1]["time"] == entry["time"]
        assert "nothing has changed" in two.ctl("release", main).stdout
        # A rollback of the node is not one of the job.
        two.ctl("rollback")
        assert pin(two, key) == f"{other} {base}" and two.json("status")["digest"] == base
        release(two, key[:-1])
        assert pin(two, key) == f"{base} {other}"


def test_one_that_makes_equal_ranks(two):
    with program(two) as (main, _):
        two.variables("base", NCCL_DEBUG="TRACE")
        wait_until(lambda: two.json("status")["edited"] == ["base"], "the edit is seen")
        two.ctl("use", "base")
        assert release(two, main, "--dry-run")["ranks_equal"] is True
        done = two.ctl("release", main)
        assert "hang" not in done.stderr and done.stderr.startswith("cudaenvctl: note: 1 live process holds the old one; both have the same rank")


def test_a_restarted_broker_knows_it(two):
    with program(two) as (main, start):
        two.ctl("use", "other")
        release(two, main)
        other = two.json("status")["digest"]
        os.kill(two.broker_pid(), signal.SIGKILL)
        two.broker_pid()
        assert snapshot_of(two, start("spawn")) == other


def test_a_job_that_has_none(two):
    two.ctl("observe")
    with program(two) as (main, start):
        two.ctl("on")
        assert snapshot_of(two, start("spawn")) is None
        document = release(two, main)
        assert document["from"] is None and document["profile"] == "base" and document["ranks_equal"] is None
        assert snapshot_of(two, start("spawn")) == two.json("status")["digest"]
        two.ctl("observe")
        document = release(two, main)
        assert document["to"] is None and snapshot_of(two, start("spawn")) is None


def test_a_job_that_was_kept_as_it_was(two):
    """It held a GPU library when the mode was turned on; none of its processes is registered."""
    two.ctl("off")
    with holder(two) as pid:
        two.ctl("on")
        why = json.loads(two.ctl("why", pid, "--json", ok=1).stdout)
        assert "began without variables before the mode was on" in why["verdict"]
        assert f"cudaenvctl release {why['job']}" in why["advice"]
        document = release(two, why["job"])
        assert pid in document["members"] and document["from"] is None and document["profile"] == "base"
        assert pin(two, why["job"]) == document["to"]


def test_bad_news(two):
    with program(two) as (main, _), program(two) as (second, _):
        for name in "tree-1-2-3-4", "nonsense", "1", "../jobs":
            done = two.ctl("release", name, ok=1)
            assert done.stdout == "" and f"there is no job {name}" in done.stderr
        assert "2 jobs begin with tree-" in two.ctl("release", "tree-", ok=1).stderr
        two.ctl("off")
        assert "the mode is off" in two.ctl("release", main, ok=1).stderr
        assert "the mode is off" in two.ctl("release", second, "--dry-run", ok=1).stderr
    for arguments in [], ["a", "b"], ["a", "--reason"], ["a", "--nonsense"]:
        done = two.ctl("release", *arguments, ok=2)
        assert done.stdout == "" and done.stderr.count("\n") == 1
    two.ctl("on")
    with program(two) as (main, _):
        done = two.ctl("release", main, "--reason", "x" * 1025, ok=2)
        assert "a reason has at most 1024 bytes" in done.stderr


class BusError(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("message", ctypes.c_char_p), ("need_free", ctypes.c_int)]


def call(node, *arguments):
    """Release over the control socket, without the tool's own checks: the error's name, None for success."""
    bus, error, lib = ctypes.c_void_p(), BusError(), ctypes.CDLL("libsystemd.so.0")
    assert lib.sd_bus_new(ctypes.byref(bus)) >= 0
    assert lib.sd_bus_set_address(bus, f"unix:path={node.run}/control".encode()) >= 0 and lib.sd_bus_start(bus) >= 0
    r = lib.sd_bus_call_method(bus, None, b"/org/cudaenv/Manager1", b"org.cudaenv.Manager1", b"Release", ctypes.byref(error), None,
                               b"sss", *(a.encode() for a in arguments))
    lib.sd_bus_flush_close_unref(bus)
    return None if r >= 0 else error.name.decode()


def test_what_the_manager_refuses(two):
    base = two.json("status")["digest"]
    with program(two) as (main, _):
        two.ctl("use", "other")
        other = two.json("status")["digest"]
        key = two.json("workers")["jobs"][0]["id"]
        # Published, but no rule gives it now.
        for digest in base, "none":
            assert call(two, key, digest, "") == "org.cudaenv.Error.Refused"
        for wrong in (key, "x", ""), (key, other[1:], ""), ("../x", other, ""), (f"{key}~1", other, ""), (key, other, "x" * 1025):
            assert call(two, *wrong) == "org.freedesktop.DBus.Error.InvalidArgs", wrong
        assert call(two, "tree-0-1-2-3", other, "") == "org.cudaenv.Error.NoSuchJob"
        assert pin(two, key) == base and main
        two.ctl("off")
        assert call(two, key, other, "") == "org.cudaenv.Error.Refused"
        two.ctl("observe")
        assert call(two, key, other, "") == "org.cudaenv.Error.Refused"
        assert call(two, key, "none", "") is None and pin(two, key) == f"none {base}"
        two.ctl("on")
        assert call(two, key, other, "") is None and pin(two, key) == f"{other} {base}"


def test_other_users(two):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with program(two) as (main, _):
        key = two.json("workers")["jobs"][0]["id"]
        two.ctl("use", "other")
        before = pin(two, key)
        done = subprocess.run([CTL, "release", key], env=two.environ(), user=USER, group=USER, extra_groups=[], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 1 and done.stdout == "" and "only root" in done.stderr
        assert main and pin(two, key) == before


# --- a manager or a broker that is not there


def test_a_dead_manager(two):
    with program(two) as (main, _):
        two.stop(signal.SIGKILL)
        done = two.ctl("release", main, ok=3)
        assert done.stdout == "" and "cudaenvd is not running" in done.stderr


def test_a_frozen_broker(two):
    """An error in time, the manager answers others meanwhile, and what was refused does not happen later."""
    with program(two) as (main, start):
        key = two.json("workers")["jobs"][0]["id"]
        two.ctl("use", "other")
        before, entries = pin(two, key), two.json("history")["entries"]
        broker = two.broker_pid()
        os.kill(broker, signal.SIGSTOP)
        try:
            # The deadline is a second, an answer takes milliseconds: one of a few tries is quick enough.
            for _ in range(5):
                p = subprocess.Popen([CTL, "release", str(main)], env=two.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True)
                two.ctl("list")
                quick = p.poll() is None
                out, err = p.communicate(timeout=60)
                assert p.returncode == 3 and out == "" and "the broker does not answer, nothing has changed" in err
                if quick:
                    break
            assert quick, "the manager answered nobody while it waited"
        finally:
            os.kill(broker, signal.SIGCONT)
        start("spawn")  # the broker has read all that was sent before
        assert pin(two, key) == before and two.json("history")["entries"] == entries
        assert release(two, main)["to"] == two.json("status")["digest"]


def test_a_broker_that_is_away(two):
    with program(two) as (main, _):
        two.ctl("use", "other")
        (two.run / "socket").rename(two.run / "away")
        done = two.ctl("release", main, ok=3)
        assert done.stdout == "" and "the broker is not running" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_a_stranger_is_no_member(two):
    """By a link of its own a process names a job of another user as its own: the broker takes it away, but it may be frozen."""
    with program(two) as (main, _):
        key = two.json("workers")["jobs"][0]["id"]
        two.ctl("use", "other", "--user", str(USER))
        broker = two.broker_pid()
        os.kill(broker, signal.SIGSTOP)
        claim = f"""
import os, sys
os.setgid({USER}); os.setuid({USER})
start = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]
os.symlink({key!r}, f"{two.run}/procs/{{os.stat('/proc/self/ns/pid').st_ino}}-{{os.getpid()}}-{{start}}")
print(flush=True)
sys.stdin.read()
"""
        try:
            stranger = subprocess.Popen(["/usr/bin/python3", "-I", "-S", "-c", claim], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert stranger.stdout.readline()
            assert stranger.pid not in {w["pid"] for w in two.json("workers")["processes"]}
            assert release(two, key, "--dry-run")["members"] == [main]
        finally:
            os.kill(broker, signal.SIGCONT)
            stranger.communicate()


def states(node):
    """pid: snapshot and whether a new job in its place would get something else."""
    return {w["pid"]: (w["snapshot"], w["stale"]) for w in node.json("workers")["processes"]}


@pytest.mark.parametrize("alone", [False, True])
def test_workers_of_a_released_job(two, alone):
    """Each process is shown with what it was answered with itself, whoever answered, and after a broker's end as well."""
    base = two.json("status")["digest"]
    with program(two) as (main, start):
        first = start("spawn")
        two.ctl("use", "other")
        other = two.json("status")["digest"]
        release(two, main)
        if alone:
            os.kill(two.broker_pid(), signal.SIGSTOP)
        second, forked = start("spawn"), start("fork")
        if alone:
            os.kill(two.broker_pid(), signal.SIGCONT)
        expected = {main: (base, True), first: (base, True), second: (other, False), forked: (base, True)}
        assert states(two) == expected
        assert two.json("workers")["jobs"][0]["snapshot"] == other, "that of its next process"
        assert "1 of 4 workers on other, 3 on another snapshot" in two.json("status")["verdict"]
        os.kill(two.broker_pid(), signal.SIGKILL)
        assert states(two) == expected
        document = json.loads(two.ctl("why", first, "--json", ok=1).stdout)
        assert {v["verdict"] for v in document["variables"]} == {"stale"}, "its report went with the broker, the link tells"
        # It is not a job that stays behind: its next process has what is in use.
        assert two.json("use", "other")["stays"] == []


@pytest.mark.parametrize("alone", [False, True])
def test_a_program_executed_anew_after_a_release(two, alone, tmp_path):
    """The same process, answered again: the link follows."""
    script = f"""
import os, sys, ctypes
ctypes.CDLL({str(LIBRARY)!r}).cudaenv_start(None, ctypes.byref(ctypes.c_void_p()))
print(os.getpid(), flush=True)
sys.stdin.readline()
os.execv(sys.executable, [sys.executable, {str(tmp_path / "again.py")!r}])
"""
    (tmp_path / "again.py").write_text(script)
    p = subprocess.Popen(two.new_job([os.path.realpath("/usr/bin/python3"), tmp_path / "again.py"]), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, env=two.environ())
    try:
        pid = int(p.stdout.readline())
        base = two.json("status")["digest"]
        assert states(two) == {pid: (base, False)}
        two.ctl("use", "other")
        release(two, pid)
        assert states(two) == {pid: (base, True)}
        if alone:
            os.kill(two.broker_pid(), signal.SIGSTOP)
        p.stdin.write("\n")
        p.stdin.flush()
        assert int(p.stdout.readline()) == pid
        if not alone:
            assert states(two) == {pid: (two.json("status")["digest"], False)}
    finally:
        if alone:
            os.kill(two.broker_pid(), signal.SIGCONT)
        p.stdin.close()
        p.kill()
        subprocess.run(["pkill", "-9", "-f", str(tmp_path / "again.py")])
        p.wait()
