# SPDX-License-Identifier: MIT
"""why PID [VARIABLE] and list --why: verdicts, where values come from, what the process reported, who may ask."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest
from conftest import CTL, SRC, Node, wait_until
from schemas import fits
from test_ctl import LIBRARY, program

USER, OTHER = 12345, 54321
PCIE8 = (SRC / "tests/data/profiles/pcie8.ini").read_text()
CONF = """
[assign batch]
profile = base
unit = batch@*.service
user = nobody

[assign trainer]
profile = base
exe = /opt/trainer/*
"""


@pytest.fixture(scope="module")
def shared():
    """One node for all that leave it as they found it: mode on, pcie8 in use, two rules."""
    n = Node(tempfile.mkdtemp(prefix="cudaenv-"))
    n.root.chmod(0o755)
    n.profile("pcie8", PCIE8)
    n.variables("base", NCCL_DEBUG="WARN")
    (n.config / "cudaenvd.conf").write_text(CONF)
    n.start()
    n.ctl("use", "pcie8")
    n.ctl("on")
    yield n
    n.stop()
    shutil.rmtree(n.root, ignore_errors=True)


def why(node, *arguments, ok=None, **more):
    done = node.ctl("why", *arguments, "--json", ok=ok, **more)
    return fits("why", done.stdout), done.returncode


def reported(node, pid):
    """The document once the report, for which no start waits, has come."""
    def ask():
        document, status = why(node, pid)
        return document["report"] and (document, status)
    return wait_until(ask, f"the report of {pid}")


def variable(document, name):
    found = [v for v in document["variables"] if v["name"] == name]
    assert len(found) == 1, (name, document["variables"])
    return found[0]


def lines(node, *arguments, ok=0):
    return node.ctl("why", *arguments, ok=ok).stdout.splitlines()


def sleeping(node, command=("sleep", "3600"), **env):
    """A program that knows nothing of cudaenv, in a job of its own; its pid is that of the sleep."""
    p = subprocess.Popen(node.new_job(["/bin/sh", "-c", 'echo $$; exec "$@"', "sh", *command]), stdout=subprocess.PIPE, text=True,
                         env=node.environ(**env), start_new_session=True)
    pid, shell = int(p.stdout.readline()), os.path.realpath("/bin/sh")
    wait_until(lambda: os.readlink(f"/proc/{pid}/exe") != shell, "the shell has become it")
    return p, pid


def end(p):
    os.killpg(p.pid, signal.SIGKILL)
    p.wait(20)


# --- good


def test_all_as_intended(shared):
    with program(shared) as (main, start):
        child = start("spawn")
        document, status = reported(shared, main)
        assert status == 0 and document["ok"] and document["verdict"] == "OK: all 8 variables of pcie8 are as intended"
        assert document["registered"] and document["stale"] is False and document["intended_by"] == "job"
        assert document["members"] == sorted([main, child]) and document["snapshot"] == document["intended"]
        assert document["rule"]["name"] is None and document["rule"]["profile"] == "pcie8"
        assert document["report"]["snapshot"] == document["snapshot"] and document["report"]["error"] is None
        # It started without them, and the hook set them: the block does not show it.
        v = variable(document, "NCCL_PROTO")
        line = PCIE8.splitlines().index("NCCL_PROTO = LL") + 1
        assert v == {"name": "NCCL_PROTO", "verdict": "ok", "rule": "default", "group": None, "intended": "LL",
                     "file": str(shared.profiles / "pcie8.ini"), "line": line, "override": None, "reported": "set", "exec_block": None,
                     "because": None, "live": None}
        # The child was handed them.
        document, status = reported(shared, child)
        assert status == 0 and variable(document, "NCCL_PROTO")["reported"] == "already"
        assert variable(document, "NCCL_PROTO")["exec_block"] == "LL" and document["exec_snapshot"] == document["snapshot"]
        text = lines(shared, main)
        assert text[0].startswith("OK: ") and text[-1] == "Nothing to do."
        assert any(row.startswith("NCCL_PROTO\tok\tdefault\tLL\t") for row in text)


def test_a_fork_has_what_its_parent_reported(shared):
    with program(shared) as (main, start):
        child = start("fork")
        reported(shared, main)
        document, status = why(shared, child)
        assert status == 0 and document["forked_off"] == main and not document["registered"]
        assert variable(document, "NCCL_PROTO")["reported"] == "set"


def test_one_variable(shared):
    with program(shared) as (main, _):
        reported(shared, main)
        document, status = why(shared, main, "NCCL_ALGO")
        assert status == 0 and [v["name"] for v in document["variables"]] == ["NCCL_ALGO"]
        assert document["verdict"] == "OK: NCCL_ALGO is as pcie8 intends"
        done = shared.ctl("why", main, "NCCL_DEBUG", ok=1)
        assert done.stdout == "" and done.stderr == "cudaenvctl: NCCL_DEBUG is not in profile pcie8: cudaenv does not set it there\n"


def test_completion_offers_what_is_registered(shared):
    with program(shared) as (main, _):
        job = shared.json("workers")["jobs"][0]["id"]
        offered = {a: shared.ctl("__complete", "--", a, "").stdout for a in ("why", "release")}
        assert f"{main}\t" in offered["why"] and offered["release"].startswith(f"{job}\t")
        assert shared.ctl("__complete", "--", "why", str(main), "").stdout == ""


def test_in_a_container(shared):
    """A pid namespace of its own: asked from inside by the number that it has there, from outside by the other one."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-pfm", "--mount-proc", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs pid namespaces")
    inside = f"{CTL} exec sleep 3600 & for i in $(seq 500); do {CTL} why $! --json >$0 && break; sleep 0.01; done; cat $0; echo; wait"
    p = subprocess.Popen(shared.new_job(["unshare", "-pfm", "--mount-proc", "/bin/sh", "-c", inside, shared.root / "inside"]),
                         stdout=subprocess.PIPE, text=True, env=shared.environ(), start_new_session=True)
    try:
        document = fits("why", "".join(iter(p.stdout.readline, "\n")))
        assert document["ok"] and document["pid"] < 100 and document["exec_block"] == "read"
        pid = [w["pid"] for w in shared.json("workers")["processes"] if w["exe"].endswith("sleep") and w["job"] == document["job"]]
        other, status = why(shared, pid[0])
        assert status == 0 and other["pid"] != document["pid"] and other["job"] == document["job"]
    finally:
        end(p)


# --- bad news


def test_a_value_of_its_own_is_shown_and_no_other(shared):
    with program(shared, env={"NCCL_PROTO": "Simple", "MY_TOKEN": "hunter2", "NCCL_DEBUG": "nobody-asked"}) as (main, _):
        document, status = reported(shared, main)
        v = variable(document, "NCCL_PROTO")
        assert status == 1 and (v["verdict"], v["reported"], v["exec_block"]) == ("overridden", "kept", "Simple")
        assert document["verdict"] == "NOT AS INTENDED: 1 of 8 variables: NCCL_PROTO is overridden"
        assert document["advice"].startswith("To do: take NCCL_PROTO out of what starts it")
        assert f"pcie8.ini:{v['line']}" in document["advice"]
        text = shared.ctl("why", main, ok=1).stdout
        for word in "hunter2", "MY_TOKEN", "nobody-asked":
            assert word not in json.dumps(document) + text
        assert why(shared, main, "NCCL_ALGO")[1] == 0


def test_one_of_a_group_keeps_out_the_others(node):
    """The one that differs is to blame, not those that go with it."""
    node.profile("group", "[together nccl]\nNCCL_ALGO = Ring\nNCCL_NTHREADS = 512\nNCCL_PROTO = LL\n[env]\nNCCL_DEBUG = WARN\n")
    node.start()
    node.ctl("use", "group")
    node.ctl("on")
    with program(node, env={"NCCL_PROTO": "Simple", "NCCL_ALGO": "Ring"}) as (main, _):
        document, status = reported(node, main)
        assert status == 1 and document["verdict"] == \
            "NOT AS INTENDED: 2 of 4 variables: NCCL_PROTO is overridden, which keeps out 1 more of its group"
        assert document["advice"].startswith("To do: take NCCL_PROTO out of what starts it")
        assert {v["name"]: v["because"] for v in document["variables"]} == {
            "NCCL_ALGO": None, "NCCL_NTHREADS": "NCCL_PROTO", "NCCL_PROTO": None, "NCCL_DEBUG": None}
        assert "\tkept, NCCL_PROTO differs\t" in node.ctl("why", main, ok=1).stdout
        document, status = why(node, main, "NCCL_NTHREADS")
        assert document["verdict"] == "NOT AS INTENDED: 1 of 1 variable: NCCL_NTHREADS is kept out, for NCCL_PROTO differs"
        assert document["advice"] == "To do: take NCCL_PROTO out of what starts it."


def test_under_a_filter(shared):
    """Docker, DynamicUser= and others bring one: such a process has its snapshot and reports nothing."""
    code = ("import ctypes, os, signal\n"
            "b = ctypes.create_string_buffer(bytes.fromhex('060000000000ff7f'), 8)\n"  # return ALLOW
            "class P(ctypes.Structure): _fields_ = [('n', ctypes.c_ushort), ('f', ctypes.c_void_p)]\n"
            "libc = ctypes.CDLL(None)\n"
            "assert libc.prctl(38, 1, 0, 0, 0) == 0\n"
            "assert libc.prctl(22, 2, ctypes.byref(P(1, ctypes.cast(b, ctypes.c_void_p))), 0, 0) == 0\n"
            "ctypes.CDLL(os.environ['LIBRARY']).cudaenv_start(None, ctypes.byref(ctypes.c_void_p()))\n"
            "print(os.getpid(), flush=True); signal.pause()\n")
    p = subprocess.Popen(shared.new_job([sys.executable, "-c", code]), text=True, stdout=subprocess.PIPE,
                         env=shared.environ(LIBRARY=LIBRARY), start_new_session=True)
    try:
        document, status = why(shared, int(p.stdout.readline()))
        assert status == 1 and document["verdict"] == \
            "NOT KNOWN: under a system call filter it decides by the published files and reports nothing"
        assert document["advice"] == "To do: ask the program itself, or start it without the filter."
    finally:
        end(p)


def test_what_no_hook_started(shared):
    p, pid = sleeping(shared)
    try:
        document, status = why(shared, pid)
        assert status == 1 and document["verdict"] == f"NOT COVERED: process {pid} has not registered"
        assert not document["registered"] and document["members"] is None and document["intended_by"] == "rules"
        assert document["report_missing"] == "the broker does not know it" and document["exec_block"] == "read"
        assert variable(document, "NCCL_PROTO")["verdict"] == "missing"
        assert lines(shared, pid, ok=1)[-1] == "To do: start it with cudaenvctl exec -- COMMAND; only Python has a hook (what it starts in Python, too)."
    finally:
        end(p)
    p, pid = sleeping(shared, command=("/usr/bin/python3", "-I", "-S", "-c", "import signal; signal.pause()"))
    try:
        assert "python status --python /usr/bin/python3" in why(shared, pid)[0]["advice"]
    finally:
        end(p)
    p, pid = sleeping(shared, CUDAENV_DISABLE=1)
    try:
        document, status = why(shared, pid)
        assert status == 1 and document["verdict"].endswith("it was started with CUDAENV_DISABLE=1")
        assert document["advice"] == "To do: start it without CUDAENV_DISABLE=1."
    finally:
        end(p)


def test_by_the_block_alone(shared):
    p, pid = sleeping(shared, NCCL_PROTO="LL", NCCL_ALGO="Tree")
    try:
        document, status = why(shared, pid)
        assert status == 1
        assert [variable(document, n)["verdict"] for n in ("NCCL_PROTO", "NCCL_ALGO", "NCCL_NTHREADS")] == \
            ["ok", "overridden", "missing"]
    finally:
        end(p)
    # Handed down from a job that has another snapshot.
    p, pid = sleeping(shared, NCCL_PROTO="LL", NCCL_ALGO="Tree", CUDAENV_SNAPSHOT="1" * 64)
    try:
        document, status = why(shared, pid)
        assert [variable(document, n)["verdict"] for n in ("NCCL_PROTO", "NCCL_ALGO")] == ["ok", "stale"]
        assert document["exec_snapshot"] == "1" * 64
    finally:
        end(p)


def test_a_program_without_a_hook_in_a_job(two):
    """It has what it was handed, which is what its job has, whatever the rules give by now."""
    with program(two) as (main, start):
        pid = start("sleep")
        two.ctl("use", "pcie8")
        document, status = why(two, pid)
        assert status == 1 and document["registered_ancestor"] == main and document["intended_by"] == "job"
        assert document["verdict"] == f"NOT COVERED: process {pid} has not registered, but was handed all variables of base"


def test_gone_and_nonsense(shared):
    p = subprocess.Popen(["true"])
    p.wait()
    done = shared.ctl("why", p.pid, ok=1)
    assert done.stdout == "" and done.stderr == f"cudaenvctl: there is no process {p.pid} to be seen here\n"
    # Nor is a thread one.
    code = "import threading, sys; e = threading.Event(); t = threading.Thread(target=e.wait); t.start(); " \
        "print(t.native_id, flush=True); sys.stdin.read(); e.set()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        assert "there is no process" in shared.ctl("why", int(p.stdout.readline()), ok=1).stderr
    for arguments in ["x"], ["0"], ["-1"], ["01"], ["99999999999"], ["1", "A=B"], ["1", "1A"], ["1", ""], []:
        done = shared.ctl("why", *arguments, ok=2)
        assert done.stdout == "" and done.stderr.count("\n") == 1, arguments


def test_another_users_process(shared):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    code = "import signal; signal.pause()"
    p = subprocess.Popen(shared.new_job([CTL, "exec", "/usr/bin/python3", "-I", "-S", "-c", code]), env=shared.environ(), user=USER,
                         group=USER, extra_groups=[], start_new_session=True)

    def ask(uid, *arguments):
        return subprocess.run([CTL, *map(str, arguments)], env=shared.environ(), user=uid, group=uid, extra_groups=[],
                              capture_output=True, text=True, timeout=60)
    try:
        pid = wait_until(lambda: [w["pid"] for w in shared.json("workers")["processes"] if w["uid"] == USER], "it registers")[0]
        for arguments in ["why", pid], ["list", "--why", "--pid", pid]:
            done = ask(OTHER, *arguments)
            assert done.returncode == 1 and done.stdout == "" and "of another user" in done.stderr, done.stderr
        for uid in 0, USER:
            done = ask(uid, "why", pid, "--json")
            document = fits("why", done.stdout)
            assert done.returncode == 0 and document["uid"] == USER and variable(document, "NCCL_PROTO")["exec_block"] == "LL"
            assert variable(document, "NCCL_PROTO")["file"] == str(shared.profiles / "pcie8.ini")
            assert json.loads(ask(uid, "list", "--why", "--pid", pid, "--json").stdout)["decides"]["profile"] == "pcie8"
    finally:
        end(p)


@contextlib.contextmanager
def started(node, uid=None):
    """A process of UID that has started as the hook would, in a job of its own."""
    code = "import ctypes, os, sys\nctypes.CDLL(os.environ['LIBRARY']).cudaenv_start(None, None)\n" \
        "print(os.getpid(), flush=True)\nsys.stdin.read()"
    p = subprocess.Popen(node.new_job(["/usr/bin/python3", "-I", "-S", "-c", code]), env=node.environ(LIBRARY=LIBRARY), user=uid,
                         group=uid, extra_groups=[] if uid else None, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         start_new_session=True)
    try:
        yield int(p.stdout.readline())
    finally:
        p.stdin.close()
        p.wait(20)


def test_the_owner_gets_the_report(shared):
    """Real uids on both sides of the socket."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with started(shared, USER) as pid:
        def ask():
            done = subprocess.run([CTL, "why", str(pid), "--json"], env=shared.environ(), user=USER, group=USER, extra_groups=[],
                                  capture_output=True, text=True, timeout=60)
            document = json.loads(done.stdout)
            return document if document["report"] else None
        assert variable(wait_until(ask, "its report"), "NCCL_PROTO")["reported"] == "set"


def test_a_mount_namespace_of_its_own(shared):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs mount namespaces")
    p, pid = sleeping(shared, command=("unshare", "-m", "sleep", "3600"))
    try:
        wait_until(lambda: os.readlink(f"/proc/{pid}/exe").endswith("sleep"), "unshare has become sleep")
        document, status = why(shared, pid)
        assert status == 1 and document["same_mounts"] is False
        assert f"mount {shared.run} into it" in document["advice"]
    finally:
        end(p)


# --- on a node of one's own


@pytest.fixture
def two(node):
    node.profile("pcie8", PCIE8)
    node.variables("base", NCCL_DEBUG="WARN")
    node.start()
    node.ctl("use", "base")
    node.ctl("on")
    return node


def test_modes_and_stale_jobs(two):
    with program(two) as (main, start):
        child = start("spawn")
        reported(two, main)
        reported(two, child)
        two.ctl("use", "pcie8")
        document, status = why(two, child)
        assert status == 1 and document["stale"] and document["verdict"].startswith("OLDER: it has all of its job's base, ")
        assert document["rule"]["profile"] == "pcie8" and variable(document, "NCCL_DEBUG")["verdict"] == "ok"
        assert f"cudaenvctl release {document['job']}" in document["advice"]
        two.ctl("release", main)
        document, status = why(two, child)
        assert status == 1 and document["verdict"].startswith("NOT AS INTENDED: 8 of 8 variables: ")
        assert {v["verdict"] for v in document["variables"]} == {"stale"} and document["profile"] == "pcie8"
        assert document["report"]["snapshot"] != document["snapshot"]
        assert "released since" in document["advice"]
        two.ctl("observe")
        assert why(two, child)[1] == 1
        two.ctl("off")
        document, status = why(two, child)
        assert status == 1 and document["verdict"] == "NOTHING IS SET: the mode is off"
        assert document["advice"].startswith("To do: cudaenvctl on; then ")


def test_a_job_that_is_pinned_to_none(two):
    two.ctl("observe")
    with program(two) as (main, start):
        document, status = reported(two, main)
        assert status == 1 and document["verdict"] == "NOTHING IS SET: the mode is observe" and document["snapshot"] is None
        two.ctl("on")
        child = start("spawn")
        document, status = reported(two, child)
        assert status == 1 and document["verdict"].startswith("NOTHING IS SET in its job")
        assert document["intended_by"] == "rules" and variable(document, "NCCL_DEBUG")["verdict"] == "missing"
        assert f"release {document['job']}" in document["advice"]


def test_lists_and_what_is_not_here(two):
    two.profile("lists", "[env.prepend]\nPATH = /opt/tools/sbin:/opt/tools/bin\n[env.unset]\nNCCL_MAX_NRINGS =\n"
                "[env.force]\nCUDA_CACHE_PATH = /opt/x\n")
    two.ctl("use", "lists")
    with program(two, env={"NCCL_MAX_NRINGS": "3", "CUDA_CACHE_PATH": "/mine"}) as (main, start):
        child = start("spawn")
        document, status = reported(two, main)
        states = {(v["name"], v["rule"]): (v["verdict"], v["reported"]) for v in document["variables"]}
        assert states["PATH", "prepend"] == ("ok", "replaced") and states["NCCL_MAX_NRINGS", "unset"] == ("ok", "removed")
        assert states["CUDA_CACHE_PATH", "force"] == ("ok", "replaced") and status == 0
        assert variable(document, "NCCL_MAX_NRINGS")["intended"] is None
        assert variable(document, "NCCL_MAX_NRINGS")["exec_block"] == "3"
        # By the block alone: what the child was handed holds ours, with more around it.
        two.stop(signal.SIGKILL)
        document, status = why(two, child)
        assert status == 0 and document["report"] is None and variable(document, "PATH")["verdict"] == "ok"
        assert variable(document, "PATH")["exec_block"] != variable(document, "PATH")["intended"]
        assert variable(document, "PATH")["file"] is None


def test_a_toolkit_that_went_away(two):
    """And below a directory that all may write, so root does not take it at all."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    (two.root / "cuda/bin").mkdir(parents=True)
    two.profile("toolkit", f"[toolkit]\nroot = {two.root}/cuda\n")
    two.ctl("use", "toolkit")
    (two.root / "cuda").rename(two.root / "elsewhere")
    with started(two, USER) as pid:
        document, status = reported(two, pid)
        v = variable(document, "CUDA_HOME")
        assert status == 1 and (v["verdict"], v["reported"]) == ("missing", "absent-here")
        assert document["advice"].startswith(f"To do: {two.root}/cuda does not exist where it runs")
    with started(two) as pid:
        document, status = reported(two, pid)
        assert status == 1 and document["verdict"].startswith("NOTHING WAS SET: its start met an error: ")
        assert "cudaenvctl check toolkit names it" in document["advice"] and document["report"]["error"]


def test_with_everything_dead(two):
    with program(two) as (main, start):
        child = start("spawn")
        reported(two, child)
        two.stop(signal.SIGKILL)
        document, status = why(two, child)
        assert status == 0 and document["report"] is None and document["report_missing"] == "the broker is not running"
        v = variable(document, "NCCL_DEBUG")
        assert (v["verdict"], v["intended"], v["file"], v["line"]) == ("ok", "WARN", None, None)
        # Its variables were set after it was executed: nobody is left who knows.
        document, status = why(two, main)
        assert status == 1 and document["verdict"].startswith("NOT KNOWN: ") and document["variables"][0]["verdict"] == "unknown"
        assert lines(two, main, ok=1)[-1].startswith("To do: ask again: of its report, the broker is not running")


def test_who_decided_alone_reports_late(two):
    broker = two.broker_pid()
    os.kill(broker, signal.SIGSTOP)
    try:
        with program(two) as (main, _):
            document, status = why(two, main)
            assert status == 1 and document["registered"] and document["report_missing"] == "the broker does not answer"
            os.kill(broker, signal.SIGCONT)
            document, status = reported(two, main)
            assert status == 0 and document["report"]["alone"]
            assert "report\tdecided alone" in lines(two, main)
    finally:
        os.kill(broker, signal.SIGCONT)


def test_who_decided_alone_and_could_not_report(two):
    (two.run / "socket").rename(two.run / "away")
    with program(two) as (main, start):
        child = start("spawn")
        assert why(two, main)[0]["report_missing"] == "the broker is not running"
        (two.run / "away").rename(two.run / "socket")
        document, status = why(two, main)
        assert status == 1 and document["report_missing"] == "it has sent none" and document["verdict"].startswith("NOT KNOWN: ")
        # It was handed what its parent set.
        assert why(two, child)[1] == 0
        # Of a job that was released meanwhile it has what its link says.
        two.ctl("use", "pcie8")
        two.ctl("release", main)
        document, status = why(two, child)
        assert status == 1 and {v["verdict"] for v in document["variables"]} == {"stale"}


def test_a_frozen_manager_costs_file_and_line_alone(two):
    with program(two) as (main, _):
        reported(two, main)
        two.process.send_signal(signal.SIGSTOP)
        document, status = why(two, main)
        assert status == 0 and variable(document, "NCCL_DEBUG")["file"] is None


def test_what_was_set_for_a_user(two):
    """Its value stands in no file: for whom it was set is told, and by whom the rule is."""
    two.ctl("set", "NCCL_DEBUG=TRACE", "--user", str(os.geteuid()), "--for", "1h")
    with program(two) as (main, _):
        document, status = reported(two, main)
        v = variable(document, "NCCL_DEBUG")
        assert status == 0 and (v["intended"], v["file"], v["line"]) == ("TRACE", None, None)
        assert v["override"].startswith("user ") and document["rule"]["override"].startswith("set user ")
        assert any(f"\tset for {v['override']}\t" in row for row in lines(two, main))
        assert document["rule"]["until"] > 0 and not document["rule"]["ended"]
        text = two.ctl("list", "--why", "--pid", main).stdout.splitlines()
        assert "\tdecides\tbase\t" in text[0] and ", until " in text[0] and "set user " in text[0]
        two.ctl("use", "--reset", "--user", str(os.geteuid()))
        document, status = why(two, main)
        assert status == 1 and document["stale"] and variable(document, "NCCL_DEBUG")["verdict"] == "ok"


# --- list --why


def rules(node, *arguments, ok=0):
    return node.json("list", "--why", *arguments, ok=ok)


def answers(document):
    return {r["name"]: r["answer"] for r in document["rules"]}


def test_rules_without_a_subject(shared):
    document = rules(shared)
    assert [r["name"] for r in document["rules"]] == ["batch", "trainer", None] and document["subject"] is None
    batch = document["rules"][0]
    assert batch["file"] == str(shared.config / "cudaenvd.conf") and batch["line"] == 2 and batch["profile"] == "base"
    assert batch["conditions"] == [{"kind": "unit", "value": "batch@*.service", "holds": None, "found": None},
                                   {"kind": "uid", "value": "65534", "holds": None, "found": None}]
    text = shared.ctl("list", "--why").stdout.splitlines()
    assert text[0].split("\t")[0] == "batch" and "unit batch@*.service, uid 65534 (nobody)" in text[0]
    assert text[2].startswith("default\tpcie8\t") and text[2].endswith("\teverything\tchosen by root")


def test_rules_of_a_process(shared):
    document = rules(shared, "--pid", os.getpid())
    assert answers(document) == {"batch": "miss", "trainer": "miss", None: "hit"}
    assert document["decides"]["name"] is None and document["decides"]["profile"] == "pcie8"
    assert document["subject"]["exe"] == os.readlink("/proc/self/exe") and document["subject"]["uid"] == str(os.geteuid())
    condition = document["rules"][1]["conditions"][0]
    assert condition["holds"] is False and condition["found"] == os.readlink("/proc/self/exe")
    text = shared.ctl("list", "--why", "--pid", os.getpid()).stdout.splitlines()
    assert "asks for exe /opt/trainer/*; it is " in text[1] and text[2].startswith("default\tdecides\tpcie8\t")


def test_rules_of_what_is_given(shared):
    document = rules(shared, "--exe", "/opt/trainer/bin/run")
    assert answers(document) == {"batch": "unknown", "trainer": "hit", None: "hit"} and document["decides"] is None
    document = rules(shared, "--exe", "/opt/trainer/bin/run", "--user", "root")
    assert answers(document) == {"batch": "miss", "trainer": "hit", None: "hit"} and document["decides"]["name"] == "trainer"
    document = rules(shared, "--unit", "batch@7.service", "--user", "65534")
    assert answers(document)["batch"] == "hit" and document["decides"]["name"] == "batch"
    text = shared.ctl("list", "--why", "--unit", "batch@7.service", "--user", "nobody").stdout
    assert [row.split("\t")[1] for row in text.splitlines()] == ["decides", "unknown", "behind"]
    assert "its exe is not known" in text


def test_rules_bad_news(shared):
    p = subprocess.Popen(["true"])
    p.wait()
    for arguments in ["--pid", p.pid], ["--user", "no-such-user"], ["--user", "7x"]:
        done = shared.ctl("list", "--why", *arguments, ok=1)
        assert done.stdout == "" and done.stderr.count("\n") == 1
    for arguments in (["--pid", "x"], ["--pid", "1", "--user", "root"], ["--pid"], ["--user"]):
        assert shared.ctl("list", "--why", *arguments, ok=2).stdout == ""
    assert "cudaenvctl --user list" in shared.ctl("list", "--user", "root", ok=2).stderr


def test_rules_with_everything_dead(two):
    before = rules(two)
    two.stop(signal.SIGKILL)
    assert rules(two) == before
    assert answers(rules(two, "--pid", os.getpid())) == {None: "hit"}


def test_no_row_is_wrong_on_a_terminal(shared):
    """Columns, headers and a conclusion, in a pseudo-terminal."""
    script = shutil.which("script")
    if not script:
        pytest.skip("needs script(1)")

    def terminal(*arguments):
        command = " ".join([str(CTL), *map(str, arguments)])
        return subprocess.run([script, "-qec", command, "/dev/null"], env=shared.environ(TERM="dumb"), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60).stdout
    text = terminal("list", "--why", "--pid", os.getpid())
    assert text.startswith("RULE") and f"A new job of process {os.getpid()} gets pcie8 " in text
    with program(shared) as (main, _):
        reported(shared, main)
        text = terminal("why", main)
        assert text.startswith("OK: ") and "VARIABLE" in text and text.rstrip().endswith("Nothing to do.")

