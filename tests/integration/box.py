# SPDX-License-Identifier: MIT
"""A node with systemd as Debian ships it: booted in a container over an overlay of /, with commands run in it one by one.

What is put in goes to the overlay; the machine itself stays as it is. A boot takes about a second.
"""
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import uuid

import pytest

from node import SRC, clean_environ, wait_until

BUILD = pathlib.Path(os.environ["BUILDDIR"])
NODE_BUILD = BUILD / "node"  # configured for /usr, as README says it


class Done:
    """What a command did."""

    def __init__(self, process):
        self.status, self.out, self.err = process.returncode, process.stdout, process.stderr

    def __repr__(self):
        return f"exit status {self.status}\n{self.out}{self.err}"


class Box:
    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-box-"))
        self.root.chmod(0o755)
        for name in ("upper", "work", "tree"):
            (self.root / name).mkdir()
        self.upper, self.tree = self.root / "upper", self.root / "tree"
        self.console = self.root / "console"
        self.nspawn = self.pid = None
        self.boots = 0
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir=/,upperdir={self.upper},workdir={self.root}/work", self.tree], check=True)
        self.write("/etc/machine-id", uuid.uuid4().hex + "\n")
        # What this machine happens to have enabled is not what is tested.
        for wants in ("multi-user.target.wants", "sockets.target.wants", "timers.target.wants"):
            shutil.rmtree(self.tree / "etc/systemd/system" / wants, ignore_errors=True)
        for unit in ("systemd-networkd-wait-online.service", "systemd-resolved.service", "apt-daily.timer", "console-getty.service"):
            self.link(f"/etc/systemd/system/{unit}", "/dev/null")
        (self.tree / "var/log/journal").mkdir(parents=True, exist_ok=True)

    def path(self, path):
        return self.tree / str(path).lstrip("/")

    def write(self, path, text, mode=0o644):
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def link(self, path, target):
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).unlink(missing_ok=True)
        self.path(path).symlink_to(target)

    def boot(self):
        with open(self.console, "ab") as console:
            self.nspawn = subprocess.Popen(
                ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "-D", self.tree, "--private-network",
                 "--console=pipe", "-b", "systemd.unit=multi-user.target"], stdin=subprocess.DEVNULL, stdout=console,
                stderr=subprocess.STDOUT,
                # Clients under a seccomp filter do not ask the broker, and nspawn puts everything under one.
                env=dict(os.environ, SYSTEMD_SECCOMP="0"))
        self.boots += 1
        self.pid = wait_until(self.find_init, "a first process in the container")
        wait_until(lambda: self.run("systemctl is-active multi-user.target").status == 0, "the end of the boot", 60)
        return self

    def find_init(self):
        """The process that is 1 in there, below systemd-nspawn."""
        assert self.nspawn.poll() is None, self.console.read_text(errors="replace")[-3000:]
        pids = [self.nspawn.pid]
        for pid in pids:
            try:
                pids += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
                numbers = re.search(r"NSpid:\s*(.*)", pathlib.Path(f"/proc/{pid}/status").read_text())[1].split()
                if numbers[1:] == ["1"] and pathlib.Path(f"/proc/{pid}/comm").read_text() == "systemd\n":
                    return pid
            except OSError:
                pass
        return None

    def run(self, command, user=None, directory="/root", timeout=60, **more):
        """COMMAND for a shell in there, as root or USER."""
        enter = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-C", f"--wd={self.tree}{directory}", "--"]
        become = ["runuser", "-u", user, "--"] if user else []
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", **more}
        return Done(subprocess.run([*enter, *become, "/bin/bash", "-c", command], env=env, stdin=subprocess.DEVNULL,
                                   capture_output=True, text=True, errors="replace", timeout=timeout, check=False))

    def sh(self, command, **more):
        """The same, and it must succeed; its output."""
        done = self.run(command, **more)
        assert done.status == 0, (command, done)
        return done.out

    def until(self, command, seconds=20):
        return wait_until(lambda: self.run(command).status == 0, command, seconds)

    def poweroff(self):
        if self.nspawn:
            self.run("systemctl poweroff")
            try:
                self.nspawn.wait(60)
            finally:
                self.nspawn.kill()
                self.nspawn.wait()
        self.nspawn = self.pid = None

    def reboot(self):
        self.poweroff()
        return self.boot()

    def close(self):
        try:
            if self.nspawn:
                os.kill(self.pid, signal.SIGRTMIN + 14)  # systemd: power off at once
                self.nspawn.wait(20)
        except (OSError, TypeError, subprocess.TimeoutExpired):
            self.nspawn.kill()
            self.nspawn.wait()
        finally:
            subprocess.run(["umount", "-l", self.tree], check=False)
            shutil.rmtree(self.root, ignore_errors=True)


def documented_configure():
    """The arguments of README's node section."""
    line = re.search(r"^ *\.\./configure (--prefix=/usr .*) && make && make install$", (SRC / "README.md").read_text(), re.M)
    return line[1].split()


def build_for_node():
    """A build for /usr beside the tested one, with its compiler; make keeps it up to date."""
    make = (BUILD / "Makefile").read_text()
    variables = [f"{name}={re.search(rf'^{name} = (.*)$', make, re.M)[1]}" for name in ("CC", "PYTEST")]
    NODE_BUILD.mkdir(exist_ok=True)
    steps = [["make", "-s", f"-j{os.cpu_count()}"]]
    if not (NODE_BUILD / "Makefile").exists():
        steps.insert(0, [SRC / "configure", "-q", *documented_configure(), *variables, "CFLAGS=-O1"])
    for step in steps:
        done = subprocess.run(step, cwd=NODE_BUILD, env=clean_environ(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=600, check=False)
        assert done.returncode == 0, (step, done.stdout[-3000:], done.stderr[-3000:])
    return NODE_BUILD


def needs_box():
    if os.geteuid() != 0:
        pytest.skip("booting a container needs root")
    if not shutil.which("systemd-nspawn"):
        pytest.skip("no systemd-nspawn")


def manifest(upper, lower=pathlib.Path("/")):
    """What an overlay's upper layer changes: {path: how}, without what only was copied up."""
    changes = {}
    for directory, names, files in os.walk(upper):
        for name in names + files:
            above = pathlib.Path(directory, name)
            path = above.relative_to(upper)
            below = lower / path
            if not same_file(above, below):
                changes[f"/{path}"] = describe(above)
    return changes


def describe(path):
    st = path.lstat()
    kind = stat.filemode(st.st_mode)
    if stat.S_ISCHR(st.st_mode) and st.st_rdev == 0:
        return "removed"
    what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
    return kind, st.st_uid, st.st_gid, what


def same_file(above, below):
    if not os.path.lexists(below):
        return False
    return describe(above) == describe(below)
