# SPDX-License-Identifier: MIT
"""diff: what two profiles, or what is in force and a profile, have different."""
import signal
import subprocess

import pytest
from conftest import CTL, wait_until

A = """[env]
KEPT = same
GONE = x
VALUE = old
NCCL_ALGO = Ring
NCCL_SOCKET_IFNAME = eth0
[env.force]
WAS_FORCE = 1
[env.unset]
DELETED =
[env.prepend]
LIST = /a
"""
B = """[env]
KEPT = same
VALUE = new
NCCL_ALGO = Tree
NCCL_SOCKET_IFNAME = eth1
WAS_FORCE = 1
DELETED = 1
[env.prepend]
LIST = /a
[env.append]
LIST = /b
[together g]
NEW = 1
"""


@pytest.fixture
def two(node):
    node.profile("a", A)
    node.profile("b", B)
    node.start()
    node.ctl("use", "a")
    node.ctl("on")
    return node


def by_name(document):
    return {(v["name"], (v["to"] or v["from"])["rule"] in ("prepend", "append") and (v["to"] or v["from"])["rule"]): v
            for v in document["variables"]}


def test_each_kind_of_difference(two):
    d = two.json("diff", "a", "b", ok=1)
    rows = {n: v for (n, _), v in by_name(d).items()}
    assert {n: v["change"] for n, v in rows.items()} == {
        "GONE": "removed", "VALUE": "changed", "NCCL_ALGO": "changed", "NCCL_SOCKET_IFNAME": "changed", "WAS_FORCE": "rule",
        "DELETED": "changed", "LIST": "added", "NEW": "added"}
    assert rows["VALUE"]["from"]["value"] == "old" and rows["VALUE"]["to"]["value"] == "new"
    assert rows["GONE"]["to"] is None and rows["NEW"]["from"] is None and rows["NEW"]["to"]["group"] == "g"
    assert rows["DELETED"]["from"] == {"rule": "unset", "group": None, "force": False, "value": None}
    assert rows["LIST"]["to"]["rule"] == "append"
    # Ranks need not have the interface alike.
    assert [n for n, v in rows.items() if v["must_match"]] == ["NCCL_ALGO"] and d["rank_digest_same"] is False
    assert d["from"]["source"] == d["to"]["source"] == "file" and d["same"] is False
    text = two.ctl("diff", "a", "b", ok=1).stdout
    assert "VALUE\tchanged\tdefault\told\tdefault\tnew\t-\n" in text
    assert "NCCL_ALGO\tchanged\tdefault\tRing\tdefault\tTree\tmust-match\n" in text
    assert "WAS_FORCE\trule\tforce\t1\tdefault\t1\t-\n" in text and "NEW\tadded\t-\t-\ttogether g\t1\t-\n" in text
    back = two.json("diff", "b", "a", ok=1)
    assert {v["name"] for v in back["variables"]} == set(rows)
    assert {v["name"]: v["change"] for v in back["variables"]}["NEW"] == "removed"


def test_equal_ranks(two):
    two.profile("c", A.replace("eth0", "eth7"))
    d = two.json("diff", "a", "c", ok=1)
    assert d["rank_digest_same"] is True and d["from"]["rank_digest"] == d["to"]["rank_digest"] and not d["same"]
    assert d["facts_version"] and [v["must_match"] for v in d["variables"]] == [False]


def test_against_what_is_in_force(two):
    d = two.json("diff", "b", ok=1)
    assert (d["from"]["profile"], d["from"]["source"], d["to"]["profile"], d["to"]["source"]) == ("a", "in force", "b", "file")
    assert d["from"]["digest"] == two.json("status")["digest"]
    assert two.json("diff", "a")["same"] is True
    done = two.ctl("diff", "a")
    assert done.stdout == "" and done.stderr == "cudaenvctl: note: no variable differs\n"
    # use makes it so.
    two.ctl("use", "b")
    assert two.json("diff", "b")["same"] is True


def test_an_edited_profile(two):
    """Its file against the version that was applied: what use would change."""
    applied = two.json("status")["digest"]
    two.profile("a", A.replace("same", "edited"))
    d = two.json("diff", "a", ok=1)
    assert d["from"]["digest"] == applied and d["from"]["profile"] == d["to"]["profile"] == "a"
    assert [(v["name"], v["from"]["value"], v["to"]["value"]) for v in d["variables"]] == [("KEPT", "same", "edited")]
    assert two.json("diff", applied, "a", ok=1)["variables"] == d["variables"]
    # One that a rule has put in force, while another is the node's.
    (two.config / "cudaenvd.conf").write_text("[assign r]\nprofile = a\nuser = nobody\n")
    two.stop()
    two.profile("a", A)
    two.start()
    two.ctl("use", "b")
    two.profile("a", A.replace("same", "again"))
    wait_until(lambda: "a" in two.json("status")["edited"], "it is seen")
    d = two.json("diff", "a", ok=1)
    assert d["from"]["profile"] == "a" and [v["name"] for v in d["variables"]] == ["KEPT"]


def test_files_and_digests(two):
    other = two.root / "other.ini"
    other.write_text(A.replace("same", "other"))
    d = two.json("diff", "a", other, ok=1)
    assert [v["name"] for v in d["variables"]] == ["KEPT"] and d["to"]["profile"] == "other"
    assert two.json("diff", other, ok=1)["from"]["source"] == "in force"
    digest = two.json("status")["digest"]
    assert two.json("diff", digest, "a")["same"] is True
    (two.profiles / "a.ini").unlink()
    assert two.json("diff", "a", digest)["from"]["source"] == "published"


def test_toolkits(two):
    for name, text in ("t1", "root = /opt/one\n"), ("t2", "root = /opt/one\nrule = force\n"), ("t3", "root = /opt/two\n"):
        two.profile(name, f"[toolkit]\n{text}")
    d = two.json("diff", "t1", "t2", ok=1)
    assert {v["change"] for v in d["variables"]} == {"rule"} and {v["to"]["force"] for v in d["variables"]} == {True}
    assert "CUDA_HOME\trule\ttogether toolkit\t/opt/one\ttogether toolkit (force)\t/opt/one\t-\n" in two.ctl("diff", "t1", "t2", ok=1).stdout
    assert two.ctl("diff", "t1", "t3", ok=1).stdout.startswith("[toolkit]\tchanged\troot\t/opt/one\troot\t/opt/two\t-\n")
    assert two.ctl("diff", "a", "t3", ok=1).stdout.startswith("[toolkit]\tadded\t-\t-\troot\t/opt/two\t-\n")


def test_bad_news(two):
    two.profile("bad", "[env]\nA=b\nA=c\n")
    for arguments in ["nothere"], ["a", "nothere"], ["bad"], ["a", "bad"], ["/nonexistent/x.ini"]:
        done = two.ctl("diff", *arguments, ok=1)
        assert done.stdout == "" and done.stderr.startswith("cudaenvctl: ") and done.stderr.count("\n") == 1
    assert "bad.ini:3:1: error: " in two.ctl("diff", "bad", ok=1).stderr
    assert "not published here" in two.ctl("diff", "a", "0" * 64, ok=3).stderr


def test_nothing_in_use_and_nothing_published(node):
    node.profile("a", A)
    node.profile("b", B)
    # Two files need no cudaenvd at all.
    assert node.json("diff", "a", "b", ok=1)["same"] is False
    assert "cudaenvd has not run" in node.ctl("diff", "a", ok=3).stderr
    node.start()
    assert "no profile is in use" in node.ctl("diff", "a", ok=1).stderr


def test_dead_and_damaged(two):
    two.stop(signal.SIGKILL)
    assert two.json("diff", "b", ok=1)["from"]["source"] == "in force"
    assign = two.run / "assign"
    assign.unlink()
    assert "does not exist" in two.ctl("diff", "b", ok=3).stderr
    assert two.json("diff", "a", "b", ok=1)["same"] is False


def test_on_a_terminal(two):
    def shown(*arguments):
        return subprocess.run(["script", "-qec", " ".join([str(CTL), "diff", *arguments]), "/dev/null"], timeout=60, text=True,
                              env=two.environ(TERM="dumb"), capture_output=True, stdin=subprocess.DEVNULL).stdout

    text = shown("b")
    assert text.splitlines()[0].startswith("From a (in force) ") and ", to b (file) " in text.splitlines()[0]
    assert "VARIABLE" in text and "Rank digest: differs; " in text
    assert "no variable differs" in shown("a")
