# SPDX-License-Identifier: MIT
"""An installed tree (CUDAENV_TEST_PREFIX) and a node of its own for each test or benchmark.

A node is one runtime directory with its own configuration and state; its pieces run as `cudaenvd --user`, so that a test
needs no systemd and touches nothing outside its temporary directory.
"""
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import time

PREFIX = pathlib.Path(os.environ["CUDAENV_TEST_PREFIX"])
SRC = pathlib.Path(os.environ["SRCDIR"])
CTL = PREFIX / "bin/cudaenvctl"
MANAGER = PREFIX / "sbin/cudaenvd"
LIBEXEC = PREFIX / "libexec/cudaenv"
BROKER = LIBEXEC / "cudaenv-broker"

PCIE8 = {
    "CUDA_HOME": "/usr/local/cuda-13.0",
    "TRITON_PTXAS_PATH": "/usr/local/cuda-13.0/bin/ptxas",
    "NCCL_PROTO": "LL",
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_BUFFSIZE": "16777216",
    "NCCL_NTHREADS": "512",
}


def wait_until(condition, what, seconds=20):
    """Polls a condition that another process makes true; the deadline only ends a failed test."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        select.select([], [], [], 0.01)
    raise AssertionError(f"never happened: {what}")


def clean_environ(**more):
    """The caller's environment without what would decide the outcome of a test."""
    ours = ("CUDAENV_", "NCCL_", "CUDA_", "TRITON_", "LD_", "XDG_", "PYTHON", "PYENV")
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    env.update({k: str(v) for k, v in more.items()})
    return env


class Node:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.run = self.root / "run"
        self.config = self.root / "config/cudaenv"
        self.state = self.root / "state/cudaenv"
        self.profiles = self.config / "profiles.d"
        self.profiles.mkdir(parents=True)
        (self.root / "state").mkdir()
        self.process = None

    def environ(self, **more):
        return clean_environ(CUDAENV_RUNTIME_DIR=self.run, XDG_CONFIG_HOME=self.root / "config",
                             XDG_STATE_HOME=self.root / "state", **more)

    def profile(self, name, text):
        """Writes a profile as an editor does: beside, then rename."""
        temporary = self.profiles / f".{name}.tmp"
        temporary.write_text(text)
        temporary.rename(self.profiles / f"{name}.ini")

    def variables(self, name, **variables):
        self.profile(name, "[env]\n" + "".join(f"{k} = {v}\n" for k, v in variables.items()))

    def new_job(self, command):
        """The command line that starts COMMAND as a job of its own: below a process named cron, where every job ends."""
        boundary = self.root / "cron"
        if not boundary.is_symlink():
            boundary.symlink_to("/bin/sh")
        return [str(boundary), "-c", '"$@"; exit $?', "cron", *map(str, command)]

    def start(self):
        """Starts the manager (which starts the broker) and waits for its READY=1 and the socket."""
        path = self.root / "notify"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(path))
            notify.settimeout(20)
            self.log = open(self.root / "manager.log", "ab")
            self.process = subprocess.Popen([MANAGER, "--user"], env=self.environ(NOTIFY_SOCKET=path),
                                            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                            start_new_session=True)
            while b"READY=1" not in notify.recv(4096):
                assert self.process.poll() is None, (self.root / "manager.log").read_text()
        wait_until((self.run / "socket").exists, "the broker's socket")
        return self

    def broker_pid(self):
        def find():
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            for child in children.read_text().split():
                try:
                    if pathlib.Path(f"/proc/{child}/comm").read_text().startswith("cudaenv-broker"):
                        return int(child)
                except OSError:
                    pass
            return None
        return wait_until(find, "a broker below the manager")

    def stop(self, how=signal.SIGTERM):
        if not self.process:
            return
        try:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(how)
            self.process.wait(20)
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process = None
            self.log.close()

    def ctl(self, *arguments, ok=0, **more):
        """Runs cudaenvctl; ok is the exit status it must have, None: any."""
        done = subprocess.run([CTL, *map(str, arguments)], env=self.environ(**more), capture_output=True,
                              text=True, timeout=60)
        if ok is not None:
            assert done.returncode == ok, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def json(self, *arguments, ok=0):
        return json.loads(self.ctl(*arguments, "--json", ok=ok).stdout)
