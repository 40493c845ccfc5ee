# SPDX-License-Identifier: MIT
"""check --expect: is this snapshot, or rank digest, what new jobs get here, in mode on? One line, with the daemon dead too."""
import json
import signal
import subprocess
import time

import pytest
from conftest import CTL, clean_environ
from published import Published


@pytest.fixture
def two(node):
    node.variables("a", NCCL_ALGO="Ring", NCCL_SOCKET_IFNAME="eth0")
    node.variables("b", NCCL_ALGO="Ring", NCCL_SOCKET_IFNAME="eth1")
    node.variables("c", NCCL_ALGO="Tree")
    node.start()
    node.ctl("use", "a")
    node.ctl("on")
    node.profiles_by_name = {p["name"]: p for p in node.json("list")["profiles"]}
    return node


def line(node, digest, ok):
    done = node.ctl("check", "--expect", digest, ok=ok)
    assert done.stderr == "" and done.stdout.count("\n") == 1
    document = node.json("check", "--expect", digest, ok=ok)
    assert document["in_force"] is (ok == 0) and document["errors"] == ok == len(document["findings"])
    if ok:
        assert document["findings"][0]["message"] + "\n" == done.stdout
    return done.stdout


def test_snapshot_and_rank_digest(two):
    a, b, c = (two.profiles_by_name[n] for n in "abc")
    assert a["rank_digest"] == b["rank_digest"] != c["rank_digest"]
    assert line(two, a["digest"], 0) == f"in force: a {a['digest'][:12]}, mode on\n"
    assert line(two, a["rank_digest"], 0) == f"in force: a {a['digest'][:12]} by its rank digest, mode on\n"
    for other in b["digest"], c["digest"], c["rank_digest"], "0" * 64:
        assert line(two, other, 1) == f"not in force: a {a['digest'][:12]} is, mode on\n"
    two.ctl("use", "b")
    assert line(two, a["digest"], 1).startswith("not in force: b ")
    assert line(two, a["rank_digest"], 0).startswith("in force: b ")


def test_modes(two):
    digest = two.profiles_by_name["a"]["digest"]
    for mode in "observe", "off":
        two.ctl(mode)
        assert line(two, digest, 1) == f"nothing is set, would be in force: a {digest[:12]}, mode {mode}\n"
        assert two.json("check", "--expect", digest, ok=1)["findings"][0]["fix"] == "cudaenvctl on"
    two.ctl("on")
    line(two, digest, 0)


def test_dead_damaged_and_nothing(two, node):
    digest, rank = two.profiles_by_name["a"]["digest"], two.profiles_by_name["a"]["rank_digest"]
    two.stop(signal.SIGKILL)
    line(two, digest, 0)
    line(two, rank, 0)
    # What no client would apply is not in force.
    file = two.run / "snapshots" / digest
    data = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(data.replace(b"Ring", b"Tree"))
    file.chmod(0o444)
    assert line(two, digest, 1) == f"not in force: the snapshot in use, {digest[:12]}, cannot be read: it is damaged\n"
    file.unlink()
    assert "cannot be read" in line(two, rank, 1)
    (two.run / "assign").unlink()
    done = two.ctl("check", "--expect", digest, ok=3)
    assert done.stdout == "" and "assign" in done.stderr


def test_nothing_in_use(node):
    node.start()
    node.ctl("on")
    assert line(node, "0" * 64, 1) == "not in force: no profile is in use, mode on\n"


@pytest.mark.parametrize("arguments", [["--expect", "abc"], ["--expect=" + "A" * 64], ["--expect", "0" * 63], ["--expect", "0" * 64, "a"],
                                       ["--expect"]])
def test_wrong_usage(node, arguments):
    done = node.ctl("check", *arguments, ok=2)
    assert done.stdout == "" and done.stderr.count("\n") == 1


def test_nothing_published(node):
    assert "cudaenvd has not run" in node.ctl("check", "--expect", "0" * 64, ok=3).stderr


@pytest.mark.parametrize("seconds", [3600, -1, None])
def test_an_override_of_the_whole_node(tmp_path, seconds):
    """A rule without conditions stands for the default until it ends; expect, export and diff go by it."""
    tmp_path.chmod(0o755)
    published = Published(tmp_path / "run")
    below, above = published.variables({"A": "below"}, "below"), published.variables({"A": "above"}, "above")
    other = published.variables({"A": "other"}, "other")
    until = [] if seconds is None else [f"until {int(time.time()) + seconds}"]
    published.assign(below, rules=[f"rule one {other}", "when uid 4294967294", f"rule two {above}", *until])
    now, then = (below, above) if seconds == -1 else (above, below)

    def ctl(*arguments):
        return subprocess.run([CTL, *arguments], env=clean_environ(CUDAENV_RUNTIME_DIR=tmp_path / "run", XDG_CONFIG_HOME=tmp_path),
                              capture_output=True, text=True, timeout=60)

    assert [ctl("check", "--expect", d).returncode for d in (now, then, other)] == [0, 1, 1]
    assert json.loads(ctl("export", "--format", "json").stdout) == {"A": "below" if seconds == -1 else "above"}
    assert json.loads(ctl("diff", then, "--json").stdout)["from"]["digest"] == now
