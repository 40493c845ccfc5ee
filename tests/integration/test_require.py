# SPDX-License-Identifier: MIT
"""CUDAENV_REQUIRE: a launcher asks for one digest on all nodes; on_mismatch; who shows what is not met."""
import json
import os
import pathlib
import subprocess

import pytest

from conftest import CTL, wait_until
from schemas import fits
from test_ctl import program
from test_python_reader import DRIVER, interpreters

CLIENT = pathlib.Path(os.environ["BUILDDIR"]) / "tests/start-client"


@pytest.fixture
def two(node):
    """In use: ring. tree differs for ranks, quiet only in what they need not agree on."""
    node.variables("ring", NCCL_ALGO="Ring")
    node.variables("tree", NCCL_ALGO="Tree")
    node.variables("quiet", NCCL_ALGO="Ring", NCCL_DEBUG="WARN")
    node.start()
    node.ctl("use", "ring")
    node.ctl("on")
    return node


def shown(node, name):
    return node.json("show", name)


def digest_of(node, required, **more):
    done = subprocess.run(node.new_job([CLIENT]), env=node.environ(CUDAENV_REQUIRE=required, **more), capture_output=True, text=True,
                          timeout=30)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.split()[0]


def test_ranks_follow_the_snapshots(two):
    for name in "ring", "tree", "quiet":
        assert os.readlink(two.run / "ranks" / shown(two, name)["digest"]) == shown(two, name)["rank_digest"]
    ring, quiet = shown(two, "ring"), shown(two, "quiet")
    assert ring["rank_digest"] == quiet["rank_digest"] != shown(two, "tree")["rank_digest"]
    assert os.readlink(two.run / "ranks" / ring["rank_digest"]) == ring["digest"], "the node's choice stands for it"
    two.ctl("use", "quiet")
    assert os.readlink(two.run / "ranks" / ring["rank_digest"]) == quiet["digest"]
    # What a damaged tree says is put right.
    (two.run / "ranks" / quiet["digest"]).unlink()
    (two.run / "ranks" / ring["rank_digest"]).unlink()
    (two.run / "ranks" / ("0" * 64)).symlink_to("1" * 64)
    two.stop()
    two.start()
    assert os.readlink(two.run / "ranks" / quiet["digest"]) == ring["rank_digest"]
    assert os.readlink(two.run / "ranks" / ring["rank_digest"]) == quiet["digest"]
    assert not (two.run / "ranks" / ("0" * 64)).is_symlink()


def test_which_of_several_stands_for_a_rank_digest(two):
    """Not which was first: the same on all nodes that have the same profiles."""
    ring = shown(two, "ring")
    rank = two.run / "ranks" / ring["rank_digest"]
    two.ctl("use", "tree")
    quiet = shown(two, "quiet")
    assert os.readlink(rank) == quiet["digest"], "quiet is before ring"
    # An edit, although the former version is still published.
    two.variables("quiet", NCCL_ALGO="Ring", NCCL_DEBUG="INFO")
    wait_until(lambda: b"NCCL_DEBUG=INFO" in (two.run / "snapshots" / os.readlink(rank)).read_bytes(), "the edit is published")
    assert (two.run / "snapshots" / quiet["digest"]).exists()
    two.variables("quiet", NCCL_ALGO="Tree")
    wait_until(lambda: os.readlink(rank) == ring["digest"], "what a profile says now goes before what one said")
    two.ctl("use", "ring")
    two.variables("aring", NCCL_ALGO="Ring", NCCL_DEBUG="TRACE")
    wait_until(lambda: "aring" in {p["name"] for p in two.json("list")["profiles"]}, "it is read")
    assert os.readlink(rank) == ring["digest"], "the node's choice"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("way", ["extension", "reader"])
def test_root_takes_none_that_others_could_change(two, way, tmp_path):
    """Asked for or not."""
    own = tmp_path / "toolkit"
    own.mkdir()
    os.chown(own, 12345, 12345)
    two.variables("theirs", CUDA_HOME=own)
    wait_until(lambda: "theirs" in {p["name"] for p in two.json("list")["profiles"]}, "it is read")
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    theirs = shown(two, "theirs")["digest"]
    command = two.new_job([interpreters()[1], "-S", driver, way, two.run])
    done = subprocess.run(command, env=two.environ(CUDAENV_REQUIRE=theirs), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and str(own) not in done.stdout and '"NCCL_ALGO": "Ring"' in done.stdout
    fail(two)
    done = subprocess.run(command, env=two.environ(CUDAENV_REQUIRE=theirs), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (78, "") and f"this job has snapshot {shown(two, 'ring')['digest'][:12]}" in done.stderr


@pytest.mark.parametrize("alone", [False, True])
def test_who_asks_gets_it(two, alone):
    ring, tree, quiet = (shown(two, n) for n in ("ring", "tree", "quiet"))
    if alone:
        os.kill(two.broker_pid(), 19)
    try:
        assert digest_of(two, tree["digest"]) == tree["digest"]
        assert digest_of(two, tree["rank_digest"]) == tree["digest"]
        assert digest_of(two, ring["rank_digest"]) == ring["digest"]
        assert digest_of(two, quiet["digest"]) == quiet["digest"]
        assert digest_of(two, "f" * 64) == digest_of(two, "nonsense") == ring["digest"]
        # An inherited token that makes equal ranks is as good as the node's own; another is not.
        assert digest_of(two, ring["rank_digest"], CUDAENV_SNAPSHOT=quiet["digest"]) == quiet["digest"]
        assert digest_of(two, tree["rank_digest"], CUDAENV_SNAPSHOT=quiet["digest"]) == tree["digest"]
    finally:
        if alone:
            os.kill(two.broker_pid(), 18)


def test_a_job_of_several_processes_is_one(two):
    """All ranks below one launcher, also over a switch."""
    tree = shown(two, "tree")
    script = f'{CLIENT}; {CTL} use quiet >/dev/null; {CLIENT}; env -u CUDAENV_SNAPSHOT {CLIENT}'
    done = subprocess.run(two.new_job(["/bin/sh", "-c", script + "; exit 0"]), env=two.environ(CUDAENV_REQUIRE=tree["rank_digest"]),
                          capture_output=True, text=True, timeout=60)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 3 and {line[0] for line in lines} == {tree["digest"]} and len({line[2] for line in lines}) == 1, done


def fail(node):
    node.config.joinpath("cudaenvd.conf").write_text("[cudaenvd]\non_mismatch = fail\n")
    node.process.send_signal(1)
    wait_until(lambda: "\non_mismatch fail\n" in (node.run / "assign").read_text(), "the settings are in force")


@pytest.mark.parametrize("way", ["extension", "reader"])
def test_fail_ends_a_python_before_user_code(two, way, tmp_path):
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    tree, ring = shown(two, "tree"), shown(two, "ring")

    def start(required):
        env = {} if required is None else {"CUDAENV_REQUIRE": required}
        return subprocess.run(two.new_job([interpreters()[1], "-S", driver, way, two.run]), env=two.environ(**env),
                              capture_output=True, text=True, timeout=60)

    for required in None, tree["digest"], tree["rank_digest"], "f" * 64:
        done = start(required)
        assert (done.returncode, done.stderr) == (0, ""), "mark: it runs"
    fail(two)
    for required in None, tree["digest"], tree["rank_digest"], ring["rank_digest"]:
        done = start(required)
        assert (done.returncode, done.stderr) == (0, "")
    for required in "f" * 64, "nonsense", "":
        done = start(required)
        assert (done.returncode, done.stdout) == (78, "")
        assert done.stderr == (f"cudaenv: CUDAENV_REQUIRE={required} is not to be had here: this job has snapshot {ring['digest'][:12]}, "
                               "and on_mismatch = fail\n")
    for mode in "observe", "off":
        two.ctl(mode)
        assert start("f" * 64).returncode == 0, "who sets nothing promises nothing"


def test_exec(two):
    tree, ring = shown(two, "tree"), shown(two, "ring")

    def run(*arguments, required):
        return subprocess.run([CTL, "exec", *arguments, "--", "printenv", "NCCL_ALGO"], env=two.environ(CUDAENV_REQUIRE=required),
                              capture_output=True, text=True, timeout=60)

    assert run(required=tree["rank_digest"]).stdout == "Tree\n"
    assert run(required=ring["rank_digest"]).stdout == "Ring\n"
    done = run("-p", "ring", required=tree["digest"])
    assert (done.stdout, done.returncode) == ("Ring\n", 0) and "is not to be had here" in done.stderr
    fail(two)
    done = run("-p", "ring", required=tree["digest"])
    assert (done.stdout, done.returncode) == ("", 78) and "on_mismatch = fail" in done.stderr
    assert run(required="f" * 64).returncode == run("--dry-run", required="f" * 64).returncode == 78
    assert run(required=tree["rank_digest"]).returncode == 0


def test_workers_and_why_show_it(two):
    tree = shown(two, "tree")
    with program(two, env={"CUDAENV_REQUIRE": "f" * 64}) as (main, _), \
            program(two, env={"CUDAENV_REQUIRE": tree["rank_digest"]}) as (good, _):
        found = {w["pid"]: (w["required"], w["required_met"]) for w in two.json("workers")["processes"]}
        assert found[main] == ("f" * 64, False) and found[good] == (tree["rank_digest"], True)
        assert two.json("status")["unmet"] == 1
        line = two.ctl("status").stdout.splitlines()[0]
        assert line.endswith(" workers on ring, 1 not as their launcher requires") and not line.startswith("OK")
        row = next(line for line in two.ctl("workers").stdout.splitlines() if line.startswith(f"{main}\t"))
        assert row.split("\t")[5] == "unmet"
        document = fits("why", two.ctl("why", main, "--json", ok=1).stdout)
        assert document["verdict"].startswith("NOT AS REQUIRED: its launcher asks for ffffffffffff by CUDAENV_REQUIRE, and it has ring ")
        assert document["required_met"] is False
        wait_until(lambda: json.loads(two.ctl("why", good, "--json", ok=None).stdout)["ok"], "its report")
        # A new job in its place would ask for the same, whatever is in use.
        two.ctl("use", "quiet")
        assert {w["pid"]: w["stale"] for w in two.json("workers")["processes"]} == {main: True, good: False}
    with program(two) as (main, _):
        assert two.json("workers")["processes"][0]["required"] is None
