# SPDX-License-Identifier: MIT
"""What is a job at a terminal: each command that a shell's user types, and all of a script, also one that leads its session there."""
import os
import pathlib
import pty
import shutil

import pytest

from conftest import CTL, wait_until

CLIENT = pathlib.Path(os.environ["BUILDDIR"]) / "tests/start-client"


@pytest.fixture
def two(node):
    node.variables("ring", NCCL_ALGO="Ring")
    node.variables("tree", NCCL_ALGO="Tree")
    node.start()
    node.ctl("use", "ring")
    node.ctl("on")
    return node


# In the place of sshd, which gives a terminal to what it starts.
SSHD = "import pty, sys; open('/proc/self/comm', 'w').write('sshd'); pty.spawn(sys.argv[1:])"


class Terminal:
    """COMMAND as the leader of a session with a terminal."""

    def __init__(self, node, command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                env = node.environ(TERM="dumb", HOME=node.root, PATH=os.environ["PATH"])
                os.execvpe(command[0], list(map(str, command)), env)
            finally:
                os._exit(127)

    def type(self, line):
        os.write(self.fd, line.encode() + b"\n")

    def done(self):
        os.close(self.fd)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def starts(path, n):
    """digest and job of each start in PATH, when there are N."""
    def enough():
        lines = path.read_text().splitlines() if path.exists() else []
        return len(lines) >= n and [(line.split()[0], line.split()[2]) for line in lines]
    return wait_until(enough, f"{n} starts")


@pytest.mark.parametrize("shell", ["bash -i", "dash -i", "zsh -fi", "fish -i"])
def test_each_command_typed_is_a_job(two, shell):
    if not shutil.which(shell.split()[0]):
        pytest.skip(f"{shell} is not installed")
    out, t = two.root / "out", Terminal(two, shell.split())
    try:
        t.type(f"{CLIENT} >>{out}")
        first = starts(out, 1)
        two.ctl("use", "tree")
        t.type(f"{CLIENT} >>{out}")
        second = starts(out, 2)
    finally:
        t.done()
    digests = {p["name"]: p["digest"] for p in two.json("list")["profiles"]}
    assert [d for d, _ in second] == [digests["ring"], digests["tree"]] and first[0] == second[0]
    assert second[0][1] != second[1][1]


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh"])
@pytest.mark.parametrize("start", ["{client}", "setsid -w {client}", "env -i CUDAENV_RUNTIME_DIR={run} {client}"])
def test_a_script_that_leads_a_session_is_one(two, shell, start):
    """ssh -t node 'sh run.sh', a window of tmux, docker run -it."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    out, script = two.root / "out", two.root / "run.sh"
    start = start.format(client=CLIENT, run=two.run)
    script.write_text(f"echo $$ >{two.root}/pid\n{CLIENT} >>{out}\n{CTL} use tree >>{two.root}/log\n{start} >>{out}\n{start} >>{out} & wait\n")
    t = Terminal(two, ["/usr/bin/python3", "-ISc", SSHD, shell, script])
    try:
        found = starts(out, 3)
    finally:
        t.done()
    assert len(set(found)) == 1 and f"-{(two.root / 'pid').read_text().strip()}-" in found[0][1], found
