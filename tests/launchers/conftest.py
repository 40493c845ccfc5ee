# SPDX-License-Identifier: MIT
"""Real launchers: a job whose workers start before and after a switch, then the same job anew. `./dev launchers [-k name]`.

CUDAENV_LAUNCHERS_PYTHON is the interpreter of a venv that has what PyPI has of them; its hook is installed for the session's node.
"""
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "integration"))

from node import CTL, Node, wait_until  # noqa: E402: found by the line above

PYTHON = os.environ["CUDAENV_LAUNCHERS_PYTHON"]
Line = collections.namedtuple("Line", "pid phase profile algo snapshot")


class Place(Node):
    """A node with two profiles that ranks must agree on, and a directory for the launcher's files."""

    def begin(self):
        self.variables("ring", NCCL_ALGO="Ring")
        self.variables("tree", NCCL_ALGO="Tree")
        self.start()
        self.ctl("use", "ring")
        self.ctl("on")
        return self

    def again(self):
        """Where ring is in use, and nothing has been reported."""
        self.ctl("use", "ring")
        self.work = pathlib.Path(tempfile.mkdtemp(dir=self.root))
        self.work.chmod(0o777)
        (self.work / "log").touch()
        return self

    def variables_for(self, **more):
        return self.environ(DIR=self.work, HERE=HERE, PYTHON=PYTHON, PYTHONPATH=HERE, CTL=CTL, PATH=os.environ["PATH"], HOME=self.work,
                            LC_ALL="C.UTF-8", TMPDIR=self.work, **more)

    def lines(self):
        report = self.work / "report"
        return [Line(*line.split()) for line in report.read_text().splitlines()] if report.exists() else []

    def launch(self, command, **env):
        """Starts COMMAND as if it was typed at a prompt."""
        log = open(self.work / "log", "ab")
        return subprocess.Popen(self.new_job(command), env=self.variables_for(**env), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                cwd=self.work, start_new_session=True)

    def reported(self, phase, n, process=None):
        def enough():
            found = [line for line in self.lines() if line.phase == phase]
            assert process is None or process.poll() in (None, 0), (self.work / "log").read_text()[-3000:]
            return len(found) >= n and found
        return wait_until(enough, f"{n} workers of phase {phase}: {self.lines()} {(self.work / 'log').read_text()[-3000:]}", 60)

    def switch(self):
        self.ctl("use", "tree")
        (self.work / "switched").touch()

    def both(self, command, before, after, **env):
        """The job with a switch between its workers, and a new one: BEFORE and AFTER are how many workers each phase has."""
        for in_use in "ring", "tree":
            if in_use == "tree":
                shutil.move(self.work / "report", self.work / "report.first")
                self.last = first
            p = self.launch(command, **env)
            try:
                self.reported("before", before, p)
                if in_use == "ring":
                    self.switch()
                self.reported("after", after, p)
                p.wait(60)
            finally:
                end(p)
            first = self.lines()
            assert {line.profile for line in first} == {in_use}, first
            assert len({line.snapshot for line in first}) == 1
            assert {line.algo for line in first} == {{"ring": "Ring", "tree": "Tree"}[in_use]}
        return first


def end(process):
    try:
        os.killpg(process.pid, 15)
        process.wait(20)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass


@pytest.fixture(scope="session")
def session():
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-"))
    root.chmod(0o755)
    n = Place(root).begin()
    n.ctl("python", "install", "--python", PYTHON)
    yield n
    n.ctl("python", "remove", "--python", PYTHON)
    n.stop()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def place(session):
    return session.again()


def needs(*commands):
    for command in commands:
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed")


def needs_module(name):
    if subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True).returncode != 0:
        pytest.skip(f"{name} is not in the venv")
