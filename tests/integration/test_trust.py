# SPDX-License-Identifier: MIT
"""Who is believed: a hostile broker, and other users' files in every place. Real uids, so these tests need root."""
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import threading

import pytest

from node import clean_environ, wait_until

CLIENT = pathlib.Path(os.environ["BUILDDIR"]) / "tests/start-client"
USER, OTHER = 12345, 23456
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be other users")


def as_user(node, uid=USER, environ=None, **variables):
    """One start of libcudaenv as UID, a job of its own; its line "digest outcome job by-broker" and its environment."""
    env = clean_environ(CUDAENV_RUNTIME_DIR=node.run, **variables)
    done = subprocess.run(node.new_job([CLIENT]), env=env, capture_output=True, text=True, user=uid, group=uid, extra_groups=[],
                          cwd="/", timeout=30)
    assert (done.returncode, done.stderr) == (0, ""), (done.returncode, done.stdout, done.stderr)
    return done.stdout.split()


def test_another_user_gets_roots_snapshot(pcie8):
    digest = pcie8.json("status")["digest"]
    assert as_user(pcie8)[0] == digest


class HostileBroker:
    """A fake broker in the real one's place: answers every FETCH with a digest of its choosing, and every GET with its bytes."""

    def __init__(self, node, digest, data=b""):
        self.digest, self.data, self.asked = digest, data, 0
        path = node.run / "socket"
        path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(path))
        path.chmod(0o666)
        self.socket.listen(64)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.converse, args=(c,), daemon=True).start()

    def converse(self, c):
        with c:
            while True:
                message = c.recv(70000)
                if len(message) < 16:
                    return
                _, _, kind, _, number = struct.unpack_from("<IHHII", message)
                self.asked += 1
                if kind == 1:
                    key = b"tree-0-1-1-1"
                    body = struct.pack("<II64sH", 0, 1, self.digest, len(key)) + key
                    c.send(struct.pack("<IHHII", 0x564E4543, 1, 2, len(body), number) + body)
                elif kind == 4:
                    body = struct.pack("<II", len(self.data), 0) + self.data
                    c.send(struct.pack("<IHHII", 0x564E4543, 1, 5, len(body), number) + body)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


EVIL = b"cudaenv-snapshot 1\nprofile evil\nscope any\nforce CUDA_HOME=/tmp/evil\n"


def evil_digest():
    import hashlib
    return hashlib.sha256(EVIL).hexdigest()


@pytest.mark.parametrize("uid", [0, USER])
def test_hostile_broker_cannot_forge(pcie8, uid):
    """It may name a digest that is not published, offer bytes for it, send text that is none: no value of its own arrives."""
    published = pcie8.json("status")["digest"]
    os.kill(pcie8.process.pid, signal.SIGSTOP)  # or it would put its own broker back
    os.kill(pcie8.broker_pid(), signal.SIGKILL)
    for digest, data in [(evil_digest().encode(), EVIL), (b"../../../../tmp/evil".ljust(64, b"\0"), EVIL), (b"A" * 64, b""),
                         (b"\0" * 64, b""), (published.encode(), EVIL)]:
        broker = HostileBroker(pcie8, digest, data)
        try:
            got = as_user(pcie8, uid)
        finally:
            broker.close()
        assert broker.asked > 0, "the client must have met it"
        assert got[0] in ("none", published), got


def test_hostile_snapshot_files(pcie8):
    """A user's file, symlink, FIFO or directory in the place of a snapshot is not believed, by root or by that user's victims."""
    digest = pcie8.json("status")["digest"]
    os.kill(pcie8.process.pid, signal.SIGSTOP)  # or it would mend them
    place = pcie8.run / "snapshots" / digest
    real = place.read_bytes()
    target = pcie8.root / "users-own"
    target.write_bytes(real)
    os.chown(target, OTHER, OTHER)

    def users_file():
        place.write_bytes(real)
        os.chown(place, OTHER, OTHER)

    def writable():
        place.write_bytes(real)
        place.chmod(0o666)

    def fifo():
        os.mkfifo(place, 0o644)

    for make in (users_file, writable, fifo, lambda: place.symlink_to(target), place.mkdir, lambda: place.write_bytes(EVIL)):
        if place.is_dir() and not place.is_symlink():
            place.rmdir()
        else:
            place.unlink()
        make()
        for uid in (0, USER):
            assert as_user(pcie8, uid)[0] == "none", make


@pytest.mark.parametrize("mode, owner", [(0o777, 0), (0o775, 0), (0o755, OTHER)])
def test_hostile_runtime_directory(pcie8, mode, owner):
    """Writable by others, or another user's: nothing in it is believed."""
    os.chmod(pcie8.run, mode)
    os.chown(pcie8.run, owner, owner)
    for uid in (0, USER):
        assert as_user(pcie8, uid)[0] == "none"


def test_hostile_assign(pcie8):
    os.kill(pcie8.process.pid, signal.SIGSTOP)
    os.kill(pcie8.broker_pid(), signal.SIGKILL)
    (pcie8.run / "socket").unlink(missing_ok=True)
    assign = pcie8.run / "assign"
    os.chown(assign, OTHER, OTHER)
    for uid in (0, USER):
        assert as_user(pcie8, uid)[0] == "none"


def test_a_users_pin_steers_nobody_else(pcie8):
    """A user makes pins and registrations for others' jobs in the sticky directories: others and root ignore them."""
    digest = pcie8.json("status")["digest"]
    pcie8.variables("other", NCCL_PROTO="Simple")
    other = wait_until(lambda: [p["digest"] for p in pcie8.json("list")["profiles"] if p["name"] == "other"], "it is listed")[0]
    job = subprocess.Popen(pcie8.new_job(["/bin/sh", "-c", "read x; " + str(CLIENT) + "; exit 0"]), stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True, env=clean_environ(CUDAENV_RUNTIME_DIR=pcie8.run))
    # The root of that job is the inner sh: below the boundary.
    shell = int(wait_until(pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text, "the inner shell").split()[0])
    start = pathlib.Path(f"/proc/{shell}/stat").read_text().rsplit(")", 1)[1].split()[19]
    pidns = os.stat("/proc/self/ns/pid").st_ino
    links = f"""
import os
os.setgid({OTHER}); os.setuid({OTHER})
os.symlink({other!r}, "{pcie8.run}/jobs/tree-0-{pidns}-{shell}-{start}")
os.symlink("tree-0-{pidns}-{shell}-{start}", "{pcie8.run}/procs/{pidns}-{shell}-{start}")
"""
    subprocess.run(["/usr/bin/python3", "-I", "-S", "-c", links], check=True)
    out, _ = job.communicate("go\n", timeout=30)
    assert out.split()[0] in (digest, "none") and out.split()[0] != other, out


def test_root_takes_no_path_that_a_user_can_write(node):
    home = node.root / "home"
    home.mkdir()
    os.chown(home, OTHER, OTHER)
    node.variables("home", CUDA_HOME=home / "cuda")
    node.start()
    node.ctl("use", "home")
    node.ctl("on")
    (listed,) = node.json("list")["profiles"]
    assert listed["scope"] == "user"
    assert as_user(node, USER)[0] == listed["digest"]
    assert as_user(node, 0)[0] == "none"
    finding = node.ctl("check", "home", ok=None)
    assert "can be changed by others than root" in finding.stdout


def test_uid_change_starts_a_new_job(pcie8):
    root_job = as_user(pcie8, 0)[2]
    user_job = as_user(pcie8, USER)[2]
    assert root_job.split("-")[1] == "0" and user_job.split("-")[1] == str(USER)


def test_at_secure_gets_nothing(pcie8):
    """A set-user-ID program's environment is not ours to fill."""
    program = pcie8.root / "setuid-client"
    shutil.copy2(CLIENT, program)
    os.chown(program, OTHER, OTHER)
    program.chmod(0o4755)
    done = subprocess.run([program], env=clean_environ(CUDAENV_RUNTIME_DIR=pcie8.run), capture_output=True, text=True, user=USER,
                          group=USER, extra_groups=[])
    assert done.stdout.split()[:2] == ["none", "3"], (done.stdout, done.stderr)
