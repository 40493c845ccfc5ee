# SPDX-License-Identifier: MIT
"""Every verb that `cudaenvctl --help` lists, by one table: --help, wrong usage, --json against its schema, bad news, a dead daemon.

A verb without a row fails. To add one: a row in ROWS, its schema in tests/schemas/VERB.json (draft-07, what it must have under
"required"), and the tests of what it does in a file of its own. In a row

    good    command lines with status 0 on a running node: mode on, profile base in use, profiles pcie8 (ready) and bad (has
            errors) beside it, one process registered ($SLEEP is its pid). `cudaenvctl COMMAND --json` must fit the schema, and
            without --json it says something. --dry-run of a changing verb belongs here as well.
    bad     command lines with status 1 there: with --json a document that fits the schema, or none and a line on stderr.
            Where bad news needs another node: the test that has it, as "test_file.py::test_name".
    wrong   command lines with status 2, besides an unknown option and an unknown verb's own, which each verb gets.
    dead    (command line, status, text) after cudaenvd and broker were killed: the text stands on stdout or stderr.

Command lines are one string, cut at blanks; $SLEEP, $DIR (the node's directory), $VENV (a venv's interpreter) and $DIGEST (the
snapshot in use) are filled in. Options of the frame (--json, --user, ...) need no row.
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

jsonschema = pytest.importorskip("jsonschema")
SCHEMAS = SRC / "tests/schemas"
NOT_RUNNING = "cudaenvd is not running"


@dataclasses.dataclass
class Row:
    good: list
    dead: tuple
    bad: list = dataclasses.field(default_factory=list)
    wrong: list = dataclasses.field(default_factory=list)


ROWS = {
    "status": Row(good=["status"], bad=["test_ctl.py::test_status_when_nothing_is_in_use"], wrong=["status extra"],
                  dead=("status", 1, NOT_RUNNING)),
    "list": Row(good=["list", "list --why", "list --why --pid $SLEEP", "list --why --unit a.service --user root"],
                bad=["test_ctl.py::test_list_says_what_is_wrong", "list --why --pid 999999999", "list --why --user no-such-user"],
                wrong=["list extra", "list --pid 1", "list --why --pid x"], dead=("list", 0, "base\tin use\t")),
    "show": Row(good=["show", "show pcie8"], bad=["show nothere", "show bad"], wrong=["show a b"], dead=("show pcie8", 0, NOT_RUNNING)),
    "diff": Row(good=["diff base", "diff $DIGEST base"], bad=["diff pcie8", "diff base pcie8", "diff nothere", "diff base bad"],
                wrong=["diff", "diff a b c"], dead=("diff base", 0, "no variable differs")),
    "check": Row(good=["check base", "check $DIR/config/cudaenv/profiles.d/pcie8.ini", "check --expect $DIGEST"],
                 bad=["check", "check bad", "check nothere", "check --expect " + "0" * 64],
                 wrong=["check --dry-run", "check --expect abc", "check --expect $DIGEST base"], dead=("check base", 0, "0 errors")),
    "on": Row(good=["on --dry-run", "on --reason why", "on"], bad=["test_ctl.py::test_ordinary_users_see_their_own"],
              wrong=["on extra", "on --reason"], dead=("on", 3, NOT_RUNNING)),
    "observe": Row(good=["observe --dry-run", "observe --reason why"], bad=["test_ctl.py::test_ordinary_users_see_their_own"],
                   wrong=["observe extra"], dead=("observe", 3, NOT_RUNNING)),
    "off": Row(good=["off --dry-run", "off --reason why"], bad=["test_ctl.py::test_ordinary_users_see_their_own"],
               wrong=["off extra"], dead=("off", 0, "Mode is now off")),
    "use": Row(good=["use pcie8 --dry-run", "use pcie8 --reason why", "use base", "use pcie8 --user root --for 2h --dry-run",
                     "use pcie8 --user 0 --for 2h", "use pcie8 --for 1d", "use --reset --user root --dry-run",
                     "use --reset --user root", "use --reset --dry-run", "use --reset"],
               bad=["use nothere", "use bad", "use bad --dry-run", "use bad --user root", "use nothere --for 1h --dry-run"],
               wrong=["use", "use a b", "use a --reason", "use a --for 0", "use a --for soon", "use a --for 11000d",
                      "use a --user no-such-user", "use a --user 4294967295", "use a --unit v*", "use a --unit a --user root",
                      "use --reset a", "use --reset --for 1h", "use --user root"],
               dead=("use base", 3, NOT_RUNNING)),
    "set": Row(good=["set NCCL_DEBUG=INFO --user 0 --for 2h --dry-run", "set NCCL_DEBUG= --unit vllm --reason why",
                     "set A=1 B=2 --user root --for 90min"],
               bad=["test_override.py::test_there_is_a_bound"],
               wrong=["set", "set A=1", "set A --user root", "set RANK=1 --user root", "set A=1 A=2 --user root",
                      "set A=1 --user no-such-user", "set A=1 --user root --for 0", "set A=1 --user root --unit a"],
               dead=("set A=1 --user root", 3, NOT_RUNNING)),
    "rollback": Row(good=["rollback --dry-run", "rollback --reason why", "rollback"],
                    bad=["test_verbs.py::test_nothing_to_roll_back_to"], wrong=["rollback extra"],
                    dead=("rollback", 3, NOT_RUNNING)),
    "history": Row(good=["history"], bad=["test_ctl.py::test_history_of_what_nobody_saw"], wrong=["history extra"],
                   dead=("history", 3, NOT_RUNNING)),
    "workers": Row(good=["workers", "workers --tree"], bad=["test_ctl.py::test_a_process_that_is_gone_is_not_listed"],
                   wrong=["workers extra", "workers --dry-run"], dead=("workers", 0, "sleep")),
    # Status 0 only for a process that has all: $SLEEP was handed its variables.
    "why": Row(good=["why $SLEEP", "why $SLEEP NCCL_DEBUG"], bad=["why 999999999", "why $SLEEP NCCL_NOT_THERE", "why 1"],
               wrong=["why", "why x", "why 1 A B", "why 1 A=B"], dead=("why $SLEEP", 0, "OK: ")),
    "release": Row(good=["release $SLEEP --dry-run", "release $SLEEP --reason why"], bad=["release nothere", "release nothere --dry-run"],
                   wrong=["release", "release a b"], dead=("release $SLEEP", 3, NOT_RUNNING)),
    # Options end at the command; a command's own status is tested in test_ctl.py.
    "exec": Row(good=["exec --dry-run true", "exec --dry-run -p pcie8 -- true", "exec --dry-run -p $DIGEST true"],
                bad=["exec -p nothere true", "exec -p bad true"], wrong=["exec", "exec -p", "exec -p base", "exec --json true"],
                dead=("exec /bin/echo it runs", 0, "it runs")),
    "export": Row(good=["export --format sh", "export -p pcie8 --format=nccl-conf", "export -p $DIGEST --format json"],
                  bad=["export -p nothere --format sh", "export -p bad --format sh"],
                  wrong=["export", "export --format tcsh", "export extra --format sh"],
                  dead=("export -p pcie8 --format sh", 0, "export NCCL_PROTO='LL'")),
    "import": Row(good=["import $SLEEP", "import $DIR/config/cudaenv/profiles.d/../a.env --as x"],
                  bad=["import 999999999", "import $DIR/nothere", "import $DIR", "import nothere.service"],
                  wrong=["import", "import a b", "import $SLEEP --from nonsense", "import $SLEEP --as .x", "import a --reason x"],
                  dead=("import $DIR/config/cudaenv/a.env", 0, "NCCL_DEBUG = WARN")),
    "doctor": Row(good=["doctor --root $DIR/image"], bad=["test_doctor.py::test_daemons_that_are_dead_or_frozen"],
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
    "help": Row(good=["help", "help status"], bad=["test_verbs.py::test_an_unknown_verb"], wrong=["help statsu", "help a b"],
                dead=("help", 0, "Usage: cudaenvctl")),
}


def run(*arguments, **more):
    return subprocess.run([CTL, *arguments], capture_output=True, text=True, timeout=60, env=clean_environ(**more))


VERBS = [line.split()[0] for line in re.search(r"\nVerbs:\n(.*?)\n\n", run("--help").stdout, re.S)[1].splitlines()]


def test_the_table_is_whole():
    assert sorted(VERBS) == sorted(ROWS), "each verb of --help has a row in ROWS, see the head of this file"
    assert sorted(p.stem for p in SCHEMAS.glob("*.json")) == sorted(VERBS)
    for verb, row in ROWS.items():
        assert row.good and row.bad and row.wrong and row.dead, verb
        for line in row.bad:
            if "::" in line:
                file, _, name = line.partition("::")
                assert f"\ndef {name}(" in (SRC / "tests/integration" / file).read_text(), line


@pytest.mark.parametrize("verb", VERBS)
def test_schema(verb):
    schema = json.loads((SCHEMAS / f"{verb}.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#" and schema["additionalProperties"] is True
    for form in schema.get("oneOf", [schema]):
        assert form["required"] and set(form["required"]) <= form["properties"].keys()


def fits(verb, text):
    document = json.loads(text)
    jsonschema.Draft7Validator(json.loads((SCHEMAS / f"{verb}.json").read_text())).validate(document)
    return document


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

    def __call__(self, line, *more):
        words = line.replace("$SLEEP", str(self.sleep.pid)).replace("$DIR", str(self.node.root)) \
            .replace("$VENV", str(self.venv / "bin/python")).replace("$DIGEST", self.digest).split()
        # Before the arguments: a verb that runs a command takes none after it.
        return self.node.ctl(words[0], *more, *words[1:], ok=None)

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
        assert line.split()[0] == verb
        plain = running(line)
        assert plain.returncode == 0 and plain.stdout + plain.stderr, (line, plain)
        if "--dry-run" not in line:
            running.reset()
        document = running(line, "--json")
        assert document.returncode == 0, (line, document)
        fits(verb, document.stdout)


@pytest.mark.parametrize("verb", VERBS)
def test_bad_news(running, verb):
    running.reset()
    for line in ROWS[verb].bad:
        if "::" in line:
            continue
        plain = running(line)
        assert plain.returncode == 1 and plain.stdout + plain.stderr, (line, plain)
        document = running(line, *([] if verb == "exec" else ["--json"]))
        assert document.returncode == 1, (line, document)
        if document.stdout:
            fits(verb, document.stdout)
        else:
            assert document.stderr.startswith("cudaenvctl: ") and document.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", VERBS)
def test_wrong_usage(running, verb):
    for line in [*ROWS[verb].wrong, f"{verb} --nonsense", f"{verb} -%"]:
        assert line.split()[0] == verb
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
    assert line.split()[0] == verb and status in (0, 1, 3)
    done = dead(line)
    assert done.returncode == status and text in done.stdout + done.stderr, (done.returncode, done.stdout, done.stderr)
    if status == 3:
        assert done.stdout == "" and done.stderr.count("\n") == 1
        assert dead(line, "--json").stdout == ""
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


def test_nothing_to_roll_back_to(node):
    node.start()
    for arguments in ["rollback"], ["rollback", "--dry-run"], ["rollback", "--json"]:
        done = node.ctl(*arguments, ok=1)
        assert done.stdout == "" and done.stderr.startswith("cudaenvctl: ") and done.stderr.count("\n") == 1


def test_exec_says_what_a_command_would_get(running):
    running.reset()
    node, before = running.node, sorted(os.listdir(running.node.run / "jobs"))
    document = json.loads(node.ctl("exec", "--dry-run", "--json", "-p", "pcie8", "--", "true", NCCL_PROTO="Simple").stdout)
    states = {v["name"]: (v["state"], v["value"]) for v in document["variables"]}
    assert document["profile"] == "pcie8" and states["NCCL_ALGO"] == ("set", "Ring") and states["NCCL_PROTO"] == ("kept", "Simple")
    assert "NCCL_ALGO\tset\tRing\n" in node.ctl("exec", "--dry-run", "-p", "pcie8", "true").stdout
    assert sorted(os.listdir(node.run / "jobs")) == before

