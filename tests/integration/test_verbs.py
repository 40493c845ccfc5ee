# SPDX-License-Identifier: MIT
"""Every verb that `cudaenvctl --help` lists, by one table: good, bad news, wrong usage, a dead daemon; --help and --json against its schema.

A verb without a row fails, and so does a row without all four. To add one: a row in ROWS, its schema in tests/schemas/VERB.json
(draft-07, what it must have under "required"), and the tests of what it does in a file of its own. In a row

    good    command lines with status 0 on a running node: mode on, profile base in use, profiles pcie8 (ready) and bad (has
            errors) beside it, one process registered ($SLEEP is its pid). `cudaenvctl COMMAND --json` must fit the schema, and
            without --json it says something. --dry-run of a changing verb belongs here as well.
    bad     command lines that are answered with a document of bad news, which must fit the schema; status 1
    refused command lines that are answered with a line on stderr alone, with --json as well; status 1
    wrong   command lines with status 2, besides an unknown option and an unknown verb's own, which each verb gets
    dead    (command line, status, text) after cudaenvd and broker were killed: the text stands on stdout or stderr, and a
            document fits where the status is not 3

Command lines are one string, cut at blanks; $SLEEP, $DIR (the node's directory), $VENV (a venv's interpreter) and $DIGEST (the
snapshot in use) are filled in. Options of the frame (--json, --user, ...) need no row. Bad news of another node than that of
`good` are Case(line, where=...), see PLACES.
"""
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile

import pytest
from conftest import CTL, SRC, Node, clean_environ, wait_until
from schemas import SCHEMAS, fits

jsonschema = pytest.importorskip("jsonschema")
NOT_RUNNING = "cudaenvd is not running"


# Where bad news are had: the node of `good`; the same as somebody who may change nothing; one that was turned on,
# has no profile, and lost its state.
PLACES = "running", "stranger", "forgot"


@dataclasses.dataclass
class Case:
    line: str
    where: str = "running"
    status: int = 1


@dataclasses.dataclass
class Row:
    good: list
    dead: tuple
    wrong: list
    bad: list = dataclasses.field(default_factory=list)
    refused: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.bad, self.refused = ([c if isinstance(c, Case) else Case(c) for c in cell] for cell in (self.bad, self.refused))


ROWS = {
    "status": Row(good=["status"], bad=[Case("status", "forgot")], wrong=["status extra"],
                  dead=("status", 1, NOT_RUNNING)),
    "list": Row(good=["list", "list --why", "list --why --pid $SLEEP", "list --why --unit a.service --user root"],
                # The profile with errors stands in the list; a list of nothing is one as well.
                bad=[Case("list", status=0), Case("list", "forgot", 0)], refused=["list --why --pid 999999999", "list --why --user no-such-user"],
                wrong=["list extra", "list --pid 1", "list --why --pid x"], dead=("list", 0, "base\tin use\t")),
    "show": Row(good=["show", "show pcie8"], refused=["show nothere", "show bad"], wrong=["show a b"], dead=("show pcie8", 0, NOT_RUNNING)),
    "diff": Row(good=["diff base", "diff $DIGEST base"], bad=["diff pcie8", "diff base pcie8"], refused=["diff nothere", "diff base bad"],
                wrong=["diff", "diff a b c"], dead=("diff base", 0, "no variable differs")),
    "check": Row(good=["check base", "check $DIR/config/cudaenv/profiles.d/pcie8.ini", "check --expect $DIGEST"],
                 bad=["check", "check bad", "check nothere", "check --expect " + "0" * 64],
                 wrong=["check --dry-run", "check --expect abc", "check --expect $DIGEST base"], dead=("check base", 0, "0 errors")),
    "on": Row(good=["on --dry-run", "on --reason why", "on"], refused=[Case("on", "stranger"), Case("on --dry-run", "stranger")],
              wrong=["on extra", "on --reason"], dead=("on", 3, NOT_RUNNING)),
    "observe": Row(good=["observe --dry-run", "observe --reason why"], refused=[Case("observe", "stranger")],
                   wrong=["observe extra"], dead=("observe", 3, NOT_RUNNING)),
    "off": Row(good=["off --dry-run", "off --reason why"], refused=[Case("off", "stranger")],
               wrong=["off extra"], dead=("off", 0, "Mode is now off")),
    "use": Row(good=["use pcie8 --dry-run", "use pcie8 --reason why", "use base", "use pcie8 --user root --for 2h --dry-run",
                     "use pcie8 --user 0 --for 2h", "use pcie8 --for 1d", "use --reset --user root --dry-run",
                     "use --reset --user root", "use --reset --dry-run", "use --reset", "use --reset --node"],
               refused=[Case("use base", "stranger"), "use nothere", "use bad", "use bad --dry-run", "use bad --user root", "use nothere --for 1h --dry-run"],
               wrong=["use", "use a b", "use a --reason", "use a --for 0", "use a --for soon", "use a --for 11000d",
                      "use a --user no-such-user", "use a --user 4294967295", "use a --unit v*", "use a --unit a --user root",
                      "use --reset a", "use --reset --for 1h", "use --user root", "use --node pcie8"],
               dead=("use base", 3, NOT_RUNNING)),
    "set": Row(good=["set NCCL_DEBUG=INFO --user 0 --for 2h --dry-run", "set NCCL_DEBUG= --unit vllm --reason why",
                     "set A=1 B=2 --user root --for 90min"],
               refused=[Case("set A=1 --user root", "stranger")],
               wrong=["set", "set A=1", "set A --user root", "set RANK=1 --user root", "set A=1 A=2 --user root",
                      "set A=1 --user no-such-user", "set A=1 --user root --for 0", "set A=1 --user root --unit a"],
               dead=("set A=1 --user root", 3, NOT_RUNNING)),
    "rollback": Row(good=["rollback --dry-run", "rollback --reason why", "rollback"],
                    refused=[Case("rollback", "forgot"), Case("rollback --dry-run", "forgot")], wrong=["rollback extra"],
                    dead=("rollback", 3, NOT_RUNNING)),
    "history": Row(good=["history"], bad=[Case("history", "forgot", 0)], wrong=["history extra"],
                   dead=("history", 3, NOT_RUNNING)),
    "workers": Row(good=["workers", "workers --tree"], bad=[Case("workers", "forgot", 0), Case("workers", "stranger", 0)],
                   wrong=["workers extra", "workers --dry-run"], dead=("workers", 0, "sleep")),
    # Status 0 only for a process that has all: $SLEEP was handed its variables.
    "why": Row(good=["why $SLEEP", "why $SLEEP NCCL_DEBUG"], bad=["why 1"], refused=["why 999999999", "why $SLEEP NCCL_NOT_THERE"],
               wrong=["why", "why x", "why 1 A B", "why 1 A=B"], dead=("why $SLEEP", 0, "OK: ")),
    "release": Row(good=["release $SLEEP --dry-run", "release $SLEEP --reason why"], refused=["release nothere", "release nothere --dry-run"],
                   wrong=["release", "release a b"], dead=("release $SLEEP", 3, NOT_RUNNING)),
    # Options end at the command; a command's own status is tested in test_ctl.py.
    "exec": Row(good=["exec --dry-run true", "exec --dry-run -p pcie8 -- true", "exec --dry-run -p $DIGEST true"],
                refused=["exec -p nothere true", "exec -p bad true"], wrong=["exec", "exec -p", "exec -p base", "exec --json true"],
                dead=("exec /bin/echo it runs", 0, "it runs")),
    "export": Row(good=["export --format sh", "export -p pcie8 --format=nccl-conf", "export -p $DIGEST --format json"],
                  refused=["export -p nothere --format sh", "export -p bad --format sh"],
                  wrong=["export", "export --format tcsh", "export extra --format sh"],
                  dead=("export -p pcie8 --format sh", 0, "export NCCL_PROTO='LL'")),
    "import": Row(good=["import $SLEEP", "import $DIR/config/cudaenv/profiles.d/../a.env --as x"],
                  refused=["import 999999999", "import $DIR/nothere", "import $DIR", "import nothere.service"],
                  wrong=["import", "import a b", "import $SLEEP --from nonsense", "import $SLEEP --as .x", "import a --reason x"],
                  dead=("import $DIR/config/cudaenv/a.env", 0, "NCCL_DEBUG = WARN")),
    "doctor": Row(good=["doctor --root $DIR/image"], bad=[Case("doctor", "forgot")],
                  wrong=["doctor extra", "doctor --root", "doctor --user --root /", "doctor --reason x"],
                  dead=("doctor", 1, NOT_RUNNING)),
    "python": Row(good=["python install --dry-run --python $VENV", "python install --python $VENV", "python status --python $VENV",
                        "python remove --dry-run --python $VENV", "python remove --python $VENV --reason why", "python install",
                        "python install --all --dry-run", "python remove --all --dry-run"],
                  bad=["python status --python $VENV"],
                  wrong=["python", "python nonsense", "python status extra", "python install --method=magic", "python install --all --python $VENV",
                         "python install --python /nonexistent/python",
                         "python install --reason " + "x" * 1025, "python status --reason x"],
                  dead=("python remove --python $VENV", 0, "No hook")),
    "help": Row(good=["help", "help status"], refused=[Case("help statsu", status=2)], wrong=["help statsu", "help a b"],
                dead=("help", 0, "Usage: cudaenvctl")),
}


def run(*arguments, **more):
    return subprocess.run([CTL, *arguments], capture_output=True, text=True, timeout=60, env=clean_environ(**more))


VERBS = [line.split()[0] for line in re.search(r"\nVerbs:\n(.*?)\n\n", run("--help").stdout, re.S)[1].splitlines()]


def test_the_table_is_whole():
    assert sorted(VERBS) == sorted(ROWS), "each verb of --help has a row in ROWS, see the head of this file"
    assert sorted(p.stem for p in SCHEMAS.glob("*.json")) == sorted(VERBS)
    for verb, row in ROWS.items():
        assert row.good and (row.bad or row.refused) and row.wrong and row.dead, verb
        lines = [*row.good, *row.wrong, row.dead[0], *(c.line for c in row.bad + row.refused)]
        assert {line.split()[0] for line in lines} == {verb} and {c.where for c in row.bad + row.refused} <= set(PLACES)


def test_the_shells_offer_the_same_verbs():
    assert [line.split("\t")[0] for line in run("__complete", "").stdout.splitlines()] == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_schema(verb):
    schema = json.loads((SCHEMAS / f"{verb}.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#" and schema["additionalProperties"] is True
    for form in schema.get("oneOf", [schema]):
        assert form["required"] and set(form["required"]) <= form["properties"].keys()


def usage(done):
    """Wrong usage: one line on stderr, nothing on stdout, status 2."""
    assert done.returncode == 2 and done.stdout == "", (done.args, done.returncode, done.stdout)
    assert done.stderr.startswith("cudaenvctl: ") and done.stderr.count("\n") == 1, (done.args, done.stderr)


@pytest.mark.parametrize("verb", VERBS)
def test_help(verb):
    done = run(verb, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(f"Usage: cudaenvctl {verb} ")
    for option in "--json", "--user", "--help":
        assert re.search(rf" {option}[ =]", done.stdout)
    assert ("--reason" in done.stdout) <= ("--dry-run" in done.stdout)
    assert run("help", verb).stdout == run(verb, "-h").stdout == done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_help_lists_every_verb():
    done = run("--help")
    assert done.returncode == 0 and done.stderr == "" and len(VERBS) == len(set(VERBS)) and "status" in VERBS
    assert run("help").stdout == done.stdout
    assert run("--version").stdout.startswith("cudaenvctl ")


def test_help_as_a_document():
    """The tables themselves: what --help says in words."""
    document = fits("help", run("help", "--json").stdout)
    assert [v["name"] for v in document["verbs"]] == VERBS
    for verb in document["verbs"]:
        text = run(verb["name"], "--help").stdout
        assert text.endswith("\nExamples:\n" + "".join(f"  {example}\n" for example in verb["examples"]))
        assert text.startswith(f"Usage: cudaenvctl {verb['name']} [OPTION...] {verb['arguments']}".rstrip())
        assert verb["summary"] in text and (verb["help"] or "") in text
        assert [o["name"] for o in verb["options"]] == re.findall(r"^  (?:-\w, |    )--([a-z-]+)", text, re.M)
    assert fits("help", run("help", "use", "--json").stdout)["verbs"] == [v for v in document["verbs"] if v["name"] == "use"]


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["--nonsense"], ["--json"], ["--reason", "x", "use", "base"]])
def test_wrong_usage_before_a_verb(arguments):
    usage(run(*arguments))


def test_an_unknown_verb():
    for arguments in ["statsu"], ["help", "statsu"], ["statsu", "--json"]:
        assert "unknown verb" in run(*arguments).stderr


class Running:
    """One node for all rows."""

    def __init__(self):
        self.node = Node(tempfile.mkdtemp(prefix="cudaenv-"))
        self.node.root.chmod(0o755)
        self.node.variables("base", NCCL_DEBUG="WARN")
        self.node.profile("pcie8", (SRC / "tests/data/profiles/pcie8.ini").read_text())
        self.node.profile("bad", "[env]\nA=b\nA=c\n")
        (self.node.config / "a.env").write_text("NCCL_DEBUG=WARN\n")
        (self.node.root / "image").mkdir()
        self.venv = self.node.root / "venv"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", self.venv], check=True, timeout=60)
        self.node.start()
        self.node.ctl("use", "base")
        self.node.ctl("on")
        self.digest = self.node.json("status")["digest"]
        self.sleep = subprocess.Popen([CTL, "exec", "sleep", "3600"], env=self.node.environ())
        wait_until(lambda: self.node.json("workers")["processes"], "it is registered")

    def reset(self):
        self.node.ctl("use", "--reset")
        self.node.ctl("use", "base")
        self.node.ctl("on")

    def __call__(self, line, *more, **how):
        words = line.replace("$SLEEP", str(self.sleep.pid)).replace("$DIR", str(self.node.root)) \
            .replace("$VENV", str(self.venv / "bin/python")).replace("$DIGEST", self.digest).split()
        # Before the arguments: a verb that runs a command takes none after it.
        return subprocess.run([CTL, words[0], *more, *words[1:]], env=self.node.environ(), capture_output=True, text=True, timeout=60, **how)

    def close(self):
        self.sleep.kill()
        self.sleep.wait()
        self.node.stop()
        shutil.rmtree(self.node.root, ignore_errors=True)


@pytest.fixture(scope="module")
def running():
    r = Running()
    yield r
    r.close()


@pytest.mark.parametrize("verb", VERBS)
def test_good(running, verb):
    running.reset()
    for line in ROWS[verb].good:
        plain = running(line)
        assert plain.returncode == 0 and plain.stdout + plain.stderr, (line, plain)
        if "--dry-run" not in line:
            running.reset()
        document = running(line, "--json")
        assert document.returncode == 0, (line, document)
        fits(verb, document.stdout)


@pytest.mark.parametrize("verb", VERBS)
def test_examples(running, tmp_path, verb):
    """Those of --help, as a shell runs them; diff's two differ."""
    running.reset()
    (tmp_path / "mine.ini").write_text("[env]\nNCCL_DEBUG = INFO\n")
    (tmp_path / "nccl.conf").write_text("NCCL_DEBUG=INFO\n")
    (tmp_path / "serve.py").write_text("")
    for example in fits("help", run("help", verb, "--json").stdout)["verbs"][0]["examples"]:
        line = example.replace("4711", str(running.sleep.pid)).replace("alice", "root")
        done = subprocess.run(["/bin/sh", "-ec", line], cwd=tmp_path, env=running.node.environ(PATH=f"{CTL.parent}:{os.environ['PATH']}"),
                              capture_output=True, text=True, timeout=60)
        assert done.returncode in ((0, 1) if verb in ("diff", "doctor") else (0,)), (example, done)


@pytest.fixture(scope="module")
def forgot():
    n = Node(tempfile.mkdtemp(prefix="cudaenv-"))
    n.start()
    n.ctl("on")
    n.stop(signal.SIGKILL)
    shutil.rmtree(n.state)
    yield n.start()
    n.stop()
    shutil.rmtree(n.root, ignore_errors=True)


def bad_news(running, forgot, case, *more):
    if case.where == "forgot":
        return forgot.ctl(*case.line.split(), *more, ok=None)
    if case.where == "stranger" and os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    return running(case.line, *more, **{"user": 65534, "group": 65534, "extra_groups": []} if case.where == "stranger" else {})


@pytest.mark.parametrize("verb", VERBS)
def test_bad_news(running, forgot, verb):
    running.reset()
    for case in ROWS[verb].bad:
        plain = bad_news(running, forgot, case)
        assert plain.returncode == case.status and plain.stdout + plain.stderr, (case, plain)
        document = bad_news(running, forgot, case, "--json")
        assert document.returncode == case.status, (case, document)
        fits(verb, document.stdout)
    for case in ROWS[verb].refused:
        for more in [[], [] if verb == "exec" else ["--json"]]:  # exec: its --json is of --dry-run alone
            done = bad_news(running, forgot, case, *more)
            assert done.returncode == case.status and done.stdout == "", (case, done)
            assert done.stderr.startswith("cudaenvctl: ") and done.stderr.count("\n") == 1, (case, done)


@pytest.mark.parametrize("verb", VERBS)
def test_wrong_usage(running, verb):
    for line in [*ROWS[verb].wrong, f"{verb} --nonsense", f"{verb} -%"]:
        usage(running(line))
        if verb != "exec":
            usage(running(line, "--json"))


@pytest.fixture(scope="module")
def dead():
    """Another one: killed with all its pieces, its files as they were."""
    r = Running()
    r.node.stop(signal.SIGKILL)
    r.assign = (r.node.run / "assign").read_text()
    yield r
    r.close()


@pytest.mark.parametrize("verb", VERBS)
def test_dead_daemon(dead, verb):
    line, status, text = ROWS[verb].dead
    # off works there too: each verb finds the mode as it was.
    (dead.node.run / "assign").unlink()
    (dead.node.run / "assign").write_text(dead.assign)
    assert status in (0, 1, 3)
    done = dead(line)
    assert done.returncode == status and text in done.stdout + done.stderr, (done.returncode, done.stdout, done.stderr)
    if status == 3:
        assert done.stdout == "" and done.stderr.count("\n") == 1
        done = dead(line, "--json")
        assert (done.returncode, done.stdout) == (3, "")
    elif verb != "exec":
        done = dead(line, "--json")
        assert done.returncode == status
        fits(verb, done.stdout)


CHANGES = ["use pcie8", "use pcie8 --user root --for 1h", "use --reset", "use --reset --user root", "set A=1 --user root", "rollback",
           "on", "observe", "off", "release $SLEEP"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("line", CHANGES)
def test_a_dry_run_says_who_may_not(running, line):
    """In the words of the denial of the change itself, and with its status."""
    running.reset()
    words = line.replace("$SLEEP", str(running.sleep.pid)).split()

    def stranger(*more):
        return subprocess.run([CTL, *words, *more], env=running.node.environ(), user=65534, group=65534, extra_groups=[],
                              capture_output=True, text=True, timeout=60)

    dry, done = stranger("--dry-run"), stranger()
    assert dry.returncode == done.returncode == 1 and dry.stdout == stranger("--dry-run", "--json").stdout == ""
    assert dry.stderr.splitlines()[-1] == done.stderr.splitlines()[-1]
    if words[0] != "release":  # of a job that is not theirs: they do not even see it
        assert dry.stderr == f"cudaenvctl: {words[0]}: only root and who runs this cudaenvd may do this\n"
    assert running(line, "--dry-run").returncode == 0
    assert {verb for verb, row in ROWS.items() if "--dry-run" in " ".join(row.good)} - {"python", "exec"} == {c.split()[0] for c in CHANGES}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_dry_run_of_off_without_cudaenvd(dead):
    (dead.node.run / "assign").unlink()
    (dead.node.run / "assign").write_text(dead.assign)
    assert dead("off --dry-run").returncode == 0
    done = subprocess.run([CTL, "off", "--dry-run"], env=dead.node.environ(), user=65534, group=65534, extra_groups=[],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and done.stdout == "" and "without it only root may turn it off" in done.stderr
    assert NOT_RUNNING in dead("on --dry-run").stderr


def test_what_was_published_last(dead):
    """list and show with the daemon dead: the same fields, and null for what only it knows."""
    (dead.node.run / "assign").unlink()
    (dead.node.run / "assign").write_text(dead.assign)
    done = dead("list", "--json")
    profiles = {p["name"]: p for p in fits("list", done.stdout)["profiles"]}
    assert profiles.keys() == {"base", "pcie8"} and profiles["base"]["active"] and profiles["base"]["digest"] == dead.digest
    assert {profiles["base"][k] for k in ("path", "valid", "edited", "description", "applied", "file_digest", "error")} == {None}
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("cudaenvctl: note: cudaenvd is not running: ")
    assert "pcie8\tpublished\t" in dead("list").stdout
    for line in "show", "show base":
        shown = fits("show", dead(line, "--json").stdout)
        assert (shown["profile"], shown["digest"], shown["edited"]) == ("base", dead.digest, None)
        assert shown["variables"] == [
            {"name": "NCCL_DEBUG", "rule": "default", "value": "WARN", "group": None, "file": None, "line": None}]
    assert dead("show").stdout == "NCCL_DEBUG\tdefault\tWARN\t-\t-\n"
    for line in "show bad", "show nothere", f"show {dead.digest}":
        done = dead(line)
        assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr


def test_exec_says_what_a_command_would_get(running):
    running.reset()
    node, before = running.node, sorted(os.listdir(running.node.run / "jobs"))
    document = json.loads(node.ctl("exec", "--dry-run", "--json", "-p", "pcie8", "--", "true", NCCL_PROTO="Simple").stdout)
    states = {v["name"]: (v["state"], v["value"]) for v in document["variables"]}
    assert document["profile"] == "pcie8" and states["NCCL_ALGO"] == ("set", "Ring") and states["NCCL_PROTO"] == ("kept", "Simple")
    assert "NCCL_ALGO\tset\tRing\n" in node.ctl("exec", "--dry-run", "-p", "pcie8", "true").stdout
    assert sorted(os.listdir(node.run / "jobs")) == before

