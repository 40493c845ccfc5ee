# SPDX-License-Identifier: MIT
"""Completions in the real shells: what is offered is what the program's own tables say, in bash, zsh and fish alike."""
import json
import os
import pty
import select
import shutil
import subprocess

import pytest
from conftest import CTL, PREFIX, SRC, Node, clean_environ, wait_until

BASH = PREFIX / "share/bash-completion/completions/cudaenvctl"
ZSH = PREFIX / "share/zsh/site-functions/_cudaenvctl"
FISH = PREFIX / "share/fish/vendor_completions.d/cudaenvctl.fish"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Files alone: nothing here asks a daemon."""
    n = Node(tmp_path_factory.mktemp("completion"))
    n.variables("base", NCCL_DEBUG="WARN")
    n.profile("pcie8", (SRC / "tests/data/profiles/pcie8.ini").read_text())
    n.profile("with@sign", "[profile]\ndescription = an odd name\n[env]\nA=b\n")
    n.profile("bad", "[env]\nA=b\nA=c\n")
    (n.root / "bin").mkdir()
    (n.root / "bin/cudaenvctl").symlink_to(CTL)
    (n.root / "bin/completecommand").symlink_to("/bin/true")
    (n.root / "files").mkdir()
    (n.root / "files/some file.ini").touch()
    (n.root / "files/other.ini").touch()
    return n


def environ(node, **more):
    return node.environ(PATH=f"{node.root}/bin:{os.environ['PATH']}", HOME=node.root, TERM="dumb", LC_ALL="C.UTF-8", **more)


def offered(node, *words):
    done = subprocess.run([CTL, "__complete", "--", *words], env=environ(node), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
    return dict(line.split("\t") if "\t" in line else (line, None) for line in done.stdout.splitlines())


def test_every_verb_and_option_is_offered(node):
    document = json.loads(node.ctl("help", "--json").stdout)
    assert offered(node, "") == {v["name"]: v["summary"] for v in document["verbs"]}
    assert "__complete" not in node.ctl("--help").stdout
    for verb in document["verbs"]:
        for start in [verb["name"]], ["--json", verb["name"]]:
            got = offered(node, *start, "--")
            assert got == {"--" + o["name"] + ("=" if o["argument"] else ""): o["help"] for o in verb["options"]}
        got = offered(node, verb["name"], "-")
        assert {"-" + o["letter"] for o in verb["options"] if o["letter"]} <= got.keys()
    assert "--version=" not in offered(node, "--") and "--version" in offered(node, "--")


@pytest.mark.parametrize("words, wanted", [
    (["use", ""], ["base", "pcie8", "with@sign"]), (["check", "b"], ["bad", "base", ":file"]), (["diff", "b"], ["base", ":file"]), (["use", "p"], ["pcie8"]), (["use", "pcie8", ""], []),
    (["show", "b"], ["bad", "base"]), (["diff", "base", "p"], ["pcie8", ":file"]), (["check", "base", "p"], ["pcie8", ":file"]),
    (["export", "-p", "p"], ["pcie8"]), (["export", "--profile=p"], ["--profile=pcie8"]), (["export", "--profile", "p"], ["pcie8"]),
    (["export", "--format=s"], ["--format=sh", "--format=systemd"]), (["export", "--format", "k"], ["k8s"]), (["export", "x"], []),
    (["exec", "-p", "ba"], ["base"]), (["exec", "--", "x"], [":command 2"]), (["exec", "-p", "base", "l"], [":command 3"]),
    (["exec", "-p", "base", "--", "ls", "-"], [":command 4"]), (["--user", "exec", "ls", ""], [":command 2"]),
    (["help", "st"], ["status"]), (["python", "re"], ["remove"]), (["python", "install", "--runtime-dir", ""], [":directory"]),
    (["python", "install", "--python=/x"], [":file"]), (["use", "--reason", ""], []), (["use", "--reason", "x", "p"], ["pcie8"]),
    (["nonsense", ""], []), (["status", ""], []), (["use", "--", "-"], []), (["--nonsense", "sta"], ["status"]), (["list", "--", ""], []),
    (["__compl"], []), (["__complete", ""], []),
])
def test_what_may_stand_there(node, words, wanted):
    assert sorted(offered(node, *words)) == sorted(wanted)


def test_descriptions(node):
    assert offered(node, "use", "")["with@sign"] == "an odd name" and offered(node, "show", "")["bad"] == "has errors"
    node.profile("trap", "[profile]\ndescription = \u202e\tturned\n[env]\nA=b\n")
    try:
        assert offered(node, "use", "tr") == {"trap": "\\u{202e}\\tturned"}
    finally:
        (node.profiles / "trap.ini").unlink()


def test_what_is_published_can_be_used(tmp_path):
    """A version that is published: for exec whatever became of the file, for use the file alone."""
    n = Node(tmp_path)
    for name in "edited", "removed", "good":
        n.variables(name, NCCL_DEBUG="WARN")
    try:
        n.start()
        n.ctl("use", "removed")
        n.ctl("use", "edited")
        n.profile("edited", "[env]\nA=b\nA=c\n")
        (n.profiles / "removed.ini").unlink()
        wait_until(lambda: {p["name"]: p["valid"] for p in n.json("list")["profiles"]}.get("edited") is False, "the fault is seen")
        published = {p["name"] for p in json.loads((n.run / "status").read_text())["profiles"]}
        assert offered(n, "use", "").keys() == {"good"} and offered(n, "check", "").keys() == {"good", "edited", ":file"}
        assert offered(n, "exec", "-p", "").keys() == published | {"good"} and "edited" in published
        assert offered(n, "show", "").keys() == published | {"good"}
        for name in published:
            n.ctl("exec", "-p", name, "true")
    finally:
        n.stop()


def test_it_never_complains():
    for env in {}, {"CUDAENV_RUNTIME_DIR": "relative"}, {"XDG_CONFIG_HOME": "/nonexistent"}:
        done = subprocess.run([CTL, "__complete", "--", "use", ""], env=clean_environ(HOME="/nonexistent", **env), capture_output=True,
                              timeout=60)
        assert done.returncode == 0 and done.stderr == b""


# --- the shells: what stands on the line after one TAB. {dir}: a directory with other.ini and 'some file.ini'.

LINES = [
    ("expo", "export "),
    ("use pc", "use pcie8 "),
    ("use with", "use with@sign "),
    ("use with@s", "use with@sign "),
    ("exec -p pc", "exec -p pcie8 "),
    ("export --profile=pc", "export --profile=pcie8 "),
    ("export --profile=with@", "export --profile=with@sign "),
    ("export --form", "export --format="),
    ("export --format=sy", "export --format=systemd "),
    ("export --format sy", "export --format systemd "),
    ("--user expo", "--user export "),
    ("check {dir}/oth", "check {dir}/other.ini "),
    ("check {dir}/some", "check {dir}/some\\ file.ini "),
    ("python install --runtime-dir={root}/fil", "python install --runtime-dir={root}/files/"),
    ("python install --python={dir}/oth", "python install --python={dir}/other.ini "),
    ("exec completecomm", "exec completecommand "),
    ("exec -p base -- completecomm", "exec -p base -- completecommand "),
    ("exec -- cat {dir}/oth", "exec -- cat {dir}/other.ini "),
    ("rollback --re", "rollback --reason="),
]


def need(shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")


def typed(node, command, setup, key, lines):
    """Types each line and TAB, then KEY, which writes the line as it stands to the file $OUT. Returns what was written."""
    out = node.root / "line"
    out.unlink(missing_ok=True)
    master, slave = pty.openpty()
    p = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environ(node, OUT=out, INPUTRC="/dev/null"),
                         start_new_session=True, cwd=node.root)
    os.close(slave)
    screen = b""

    def type_in(text):
        os.write(master, text.encode())

    def written():
        nonlocal screen
        if select.select([master], [], [], 0)[0]:
            screen += os.read(master, 65536)
        return out.exists() and out.read_text().endswith("\n")

    results = []
    try:
        type_in(f"{setup}\rprintf 'ready\\n' >$OUT\r")
        wait_until(written, "the shell is ready")
        for line in lines:
            out.unlink()
            type_in(f"cudaenvctl {line}\t{key}")
            wait_until(written, f"an answer to {line!r}: {screen[-2000:]!r}")
            results.append(out.read_text().removesuffix("\n").removeprefix("cudaenvctl "))
            type_in("\x15")
    finally:
        p.kill()
        p.wait()
        os.close(master)
    return results


def fill(node, text):
    return text.replace("{dir}", f"{node.root}/files").replace("{root}", str(node.root))


def check(node, results):
    assert dict(zip((a for a, _ in LINES), results)) == {a: fill(node, b) for a, b in LINES}


@pytest.mark.parametrize("before", ["", ". /usr/share/bash-completion/bash_completion;", "COMP_WORDBREAKS=$' \\t\\n';"],
                         ids=["alone", "with bash-completion", "few breaks"])
def test_bash(node, before):
    need("bash")
    if "/usr" in before and not os.path.exists(before.strip(". ;")):
        pytest.skip("no bash-completion here")
    setup = f"set +o history; {before} . {BASH}; bind -x '\"\\C-g\": printf \"%s\\n\" \"$READLINE_LINE\" >$OUT'; " \
        "bind 'set enable-bracketed-paste off'"
    check(node, typed(node, ["bash", "--norc", "--noprofile", "-i"], setup, "\x07", [fill(node, a) for a, _ in LINES]))


def test_zsh(node):
    need("zsh")
    setup = f"fpath=({ZSH.parent} $fpath); autoload -Uz compinit; compinit -u -D; zmodload zsh/zle; " \
        "show() {{ print -r -- $BUFFER >$OUT }}; zle -N show; bindkey '^G' show; unset zle_bracketed_paste".replace("{{", "{").replace("}}", "}")
    check(node, typed(node, ["zsh", "-f", "-i"], setup, "\x07", [fill(node, a) for a, _ in LINES]))


def test_fish(node):
    """fish tells what it would offer; the line is what stands before the word, and the one word that is offered."""
    need("fish")
    results = []
    for line, _ in LINES:
        line = fill(node, line)
        done = subprocess.run(["fish", "--no-config", "-c", f"source {FISH}; complete --escape -C $argv[1]", f"cudaenvctl {line}"],
                              env=environ(node), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, cwd=node.root)
        assert done.stderr == ""
        words = {text.split("\t")[0] for text in done.stdout.splitlines()}
        assert len(words) == 1, (line, words)
        word, = words
        results.append(line[:line.rindex(" ") + 1 if " " in line else 0] + word + ("" if word[-1] in "=/" else " "))
    check(node, results)


@pytest.mark.parametrize("shell, file", [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_they_are_sound(shell, file):
    need(shell)
    subprocess.run([shell, "-n", file], check=True, timeout=60)
    assert file.stat().st_mode & 0o777 == 0o644
