# SPDX-License-Identifier: MIT
"""README's node section and docs/OPERATIONS.md: every command in them, in their order, in one booted container."""
import os
import re
import shlex
import shutil

import pytest

import box
import documents
from node import SRC

DOCUMENT = SRC / "docs/OPERATIONS.md"
SECTIONS = documents.read_document(DOCUMENT)

ACCOUNTS = {f"/etc/{name}{old}" for name in ("passwd", "shadow", "group", "gshadow") for old in ("", "-")} | {"/etc/.pwd.lock"}
# What the page has its reader write, for the engine and as a site's own files.
OPERATORS = re.compile(r"/etc/systemd/system/(multi-user\.target\.wants/)?engine\.service|/etc/cudaenv-site(/.*)?")

# An engine: two workers, of which one inherits nothing; it is ready when they are.
SERVE = """\
import os, socket, subprocess, sys, time
WORKER = "import time; print(flush=True); time.sleep(1e6)"
children = [subprocess.Popen([sys.executable, "-c", WORKER], env=env, stdout=subprocess.PIPE) for env in (None, {})]
for child in children:
    child.stdout.readline()
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
    s.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
time.sleep(1e6)
"""


def run_readme(booted, build, before):
    """The commands of a block of README. Its build is the fixture's; what needs the network was run before."""
    for line in documents.indented_commands(SRC / "README.md", before):
        if line.startswith("./dev deps &&"):
            continue
        command = re.sub(r"^\.\./configure .*? && ", "", line)
        done = booted.run(command, directory=build if "make" in command else "/root")
        assert done.status == 0, (line, done)


def leftovers(booted, before):
    """What the overlay has now, beyond BEFORE and what a running system writes."""
    system = re.compile(r"/(var/log|var/lib/systemd|var/cache|var/tmp|run|tmp|root|usr/local/bin|opt)(/|$)")
    now = {path: how for path, how in box.manifest(booted.upper).items() if not system.match(path)}
    return {path for path, how in now.items() if before.get(path) != how and not path.startswith(str(SRC.resolve()))}


def variables(booted):
    """What a unit's Python in the venv has."""
    return booted.sh("systemd-run --quiet --wait --pipe /opt/engine/venv/bin/python3 -c "
                     "'import os; print(os.environ.get(\"NCCL_PROTO\"))'").strip()


@pytest.fixture(scope="module")
def node(booted, node_build):
    booted.sh("mkdir -p /opt/engine && python3 -m venv --without-pip /opt/engine/venv")
    booted.write("/opt/engine/serve.py", SERVE)
    for version in ("12.8", "13.0"):
        for name in ("ptxas", "nvcc"):
            booted.write(f"/usr/local/cuda-{version}/bin/{name}", "#!/bin/sh\n", 0o755)
    # A reader is slower than we: the page's restarts are no loop.
    booted.write("/etc/systemd/system.conf.d/test.conf", "[Manager]\nDefaultStartLimitBurst=1000\n")
    booted.sh("systemctl daemon-reexec")
    # The machine's index of manual pages takes seconds and is nobody's concern here.
    booted.path("/var/lib/man-db/auto-update").unlink(missing_ok=True)
    # The clone's package directory: what this build has compiled for /usr.
    booted.link(SRC / "build-package", node_build)
    booted.sh("useradd -m alice")
    booted.before = box.manifest(booted.upper)
    return booted


def test_readme_node_section(node, node_build):
    run_readme(node, node_build, "For a node, as root:")
    assert "new jobs get pcie8" in node.sh("cudaenvctl status")
    assert variables(node) == "LL"


def test_readme_off_the_node_again(node, node_build):
    """Nothing is left."""
    run_readme(node, node_build, "And off the node again:")
    assert variables(node) == "None"
    assert leftovers(node, node.before) - ACCOUNTS == set()


# What a section's text says of the node.
def ansible(node):
    shutil.copytree(node.path("/etc/cudaenv/profiles.d"), node.path("/etc/cudaenv-site/profiles.d"))


PREPARE = {"Many nodes": ansible}


def run_command(node, command):
    directory = str(SRC) if command.user == "clone" or "build-package" in command.text else "/root"
    user = None if command.user in (None, "clone") else command.user
    more = {}
    if user:
        directory = more["HOME"] = f"/home/{user}"
    text = command.text
    if text.startswith("ansible-playbook"):
        found = shutil.which("ansible-playbook") or shutil.which("ansible-playbook", path=box.BUILD / "ansible/bin")
        if not found:
            return node.run(playbook_commands(text), directory=directory, **more)
        more["PATH"] = f"{os.path.dirname(found)}:/usr/sbin:/usr/bin:/sbin:/bin"
    if text.startswith("cudaenvctl") and "|" not in text:
        # On a terminal, as it is pasted.
        text = f"stty cols 200 2>/dev/null; {text}"
        done = node.run(f"TERM=dumb NO_COLOR=1 script -qec {shlex.quote(text)} /dev/null", user=user, directory=directory, **more)
        done.out = done.out.replace("\r\n", "\n")
        return done
    return node.run(text, user=user, directory=directory, **more)


def playbook_commands(call):
    """Without Ansible: the commands of its tasks one after the other."""
    values = dict(re.findall(r"-e (\w+)=(\S+)", call), item="/opt/engine/venv/bin/python3", mode="on", reason="playbook")
    lines = re.findall(r"ansible\.builtin\.command: (.*)", (SRC / "docs/ansible/cudaenv.yml").read_text())
    assert len(lines) >= 6
    filled = [re.sub(r"\{\{ (\w+).*?\}\}", lambda m: values[m[1]], line) for line in lines]
    return "set -e; dpkg -i %s; cp /etc/cudaenv-site/profiles.d/* /etc/cudaenv/profiles.d/; %s" % (
        values["package"], "; ".join(filled))


@pytest.mark.parametrize("section", SECTIONS, ids=[s.title or "start" for s in SECTIONS])
def test_operations(node, section):
    if section.title in PREPARE:
        PREPARE[section.title](node)
    for item in section.items:
        where = f"docs/OPERATIONS.md:{item.line}"
        if isinstance(item, documents.File):
            node.write(item.path, item.text)
            continue
        done = run_command(node, item)
        print(f"{where}: {item.text}\n{done}")
        if done.status != item.status:
            print(node.run("journalctl -b -q -n 60 --no-pager").out)
        assert done.status == item.status, (where, item.text, done)
        if item.text.startswith("ansible-playbook") and "PLAY RECAP" not in done.out:
            continue
        wrong = documents.same_shape(item.output, (done.out + done.err).splitlines())
        assert wrong is None, (where, item.text, wrong, done)


def test_operations_leave_nothing(node):
    """After the last section what it names: the journal, the accounts' backup files, and what the operator wrote beside."""
    left = {path for path in leftovers(node, node.before) - ACCOUNTS if not OPERATORS.fullmatch(path)}
    assert left - {f"/var/lib/dpkg/{name}" for name in ("status", "status-old", "lock", "lock-frontend", "triggers/Lock")} == set()
    assert node.run("getent passwd cudaenv || getent group cudaenv cudaenv-admin").out == ""
    assert node.sh("ls -d /run/cudaenv* /etc/cudaenv /var/lib/cudaenv /usr/lib/cudaenv 2>/dev/null || true") == ""


@pytest.mark.parametrize("pasted, printed, right", [
    ("OK: 3 of 3 workers", "OK: 12 of 12 workers", True),
    ("OK: 3 of 3 workers", "OK: 3 of 3 jobs", False),
    ("a  1\n...\nz 9", "a 2\nb\nc\nz 1", True),
    ("a 1\n...", "b 1", False),
    ("a", "a\nb", False),
    ("a\n...\nz", "a\nb", False),
    ("pcie8 49f67f02f19e at 2026-12-01 04:08", "pcie8 f83da982b8ed at 2027-01-02 14:18", True),
    ("NCCL_NTHREADS=512", "NCCL_NTHREADS=256", False),
    ("", "something", False),
])
def test_pasted_output_is_compared(pasted, printed, right):
    assert (documents.same_shape(pasted.splitlines(), printed.splitlines()) is None) == right


def test_the_page_has_commands_to_run():
    commands = [i for s in SECTIONS for i in s.items if isinstance(i, documents.Command)]
    assert len(commands) > 60 and {c.user for c in commands} == {None, "clone", "alice"}
    fenced = DOCUMENT.read_text().count("```console")
    assert fenced >= 15 and all("\nroot# " in b or "\n$ " in b for b in DOCUMENT.read_text().split("```console")[1:])
