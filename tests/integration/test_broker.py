# SPDX-License-Identifier: MIT
"""cudaenv-broker alone, with files written by hand, spoken to in raw bytes as docs/PROTOCOL.md gives them.

Peers are processes of their own (Peer), because the broker knows a client by its credentials.
"""
import ctypes
import hashlib
import json
import os
import pathlib
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import pytest

from node import BROKER, clean_environ, wait_until

FETCH, ANSWER, REPORT, GET, DATA, ERROR = range(1, 7)
PIDNS = os.stat("/proc/self/ns/pid").st_ino
OTHER_UID, SERVICE_UID = 54321, 54322
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def message(kind, body, version=1, ident=7, magic=b"CENV"):
    return magic + struct.pack("<HHII", version, kind, len(body), ident) + body


def fetch_body(token=None, exe=b"", pid=None):
    return struct.pack("<IIQQ64sHI", 1 if token else 0, pid or os.getpid(), PIDNS, 0, (token or "").encode(),
                       len(exe), 0) + exe


def get_body(digest, offset=0):
    return struct.pack("<64sI", digest.encode(), offset)


def report_body(key, digest, names=("NCCL_ALGO",)):
    entries = b"".join(struct.pack("<BBH", 1, 0, len(n)) + n.encode() for n in names)
    return struct.pack("<IIQ64sHHIH", 0, 0, 0x1234, digest.encode(), len(key), len(names), os.getpid(), 0) + \
        key.encode() + entries


def parse(datagram):
    """Type, id and what matters of a message to a client."""
    magic, version, kind, length, ident = struct.unpack_from("<4sHHII", datagram)
    body = datagram[16:]
    assert magic == b"CENV" and version == 1 and length == len(body)
    if kind == ANSWER:
        flags, reason, digest, size = struct.unpack_from("<II64sH", body)
        return kind, ident, {"flags": flags, "reason": reason, "digest": digest.rstrip(b"\0").decode(),
                             "key": body[74:74 + size].decode()}
    if kind == DATA:
        total, offset = struct.unpack_from("<II", body)
        return kind, ident, {"total": total, "offset": offset, "bytes": body[8:]}
    assert kind == ERROR
    code, version, size = struct.unpack_from("<IHH", body)
    return kind, ident, {"code": code, "version": version, "text": body[8:8 + size].decode()}


def connect(runtime):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(20)
    s.connect(str(runtime / "socket"))
    return s


def ask(runtime, datagram):
    with connect(runtime) as s:
        s.send(datagram)
        return parse(s.recv(70000))


def fetch(runtime, **more):
    kind, ident, m = ask(runtime, message(FETCH, fetch_body(**more)))
    assert kind == ANSWER and ident == 7
    return m


def start_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


PEER = """
import json, os, sys
print(os.getpid(), flush=True)
sys.path.insert(0, sys.argv[1])
import pathlib
from test_broker import *
runtime = pathlib.Path(sys.argv[2])
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""


class Peer:
    """A Python process that runs what it is told, line by line, with the functions of this module.

    It is the outermost process of its job (below a shell named cron), or the child of another one.
    """

    def __init__(self, runtime, uid=None, parent=None):
        self.parent = parent
        command = [sys.executable, "-c", PEER, str(pathlib.Path(__file__).parent), str(runtime)]
        if parent:
            self.pid = parent.tell(f"start_child({command!r})")
            return
        cron = runtime.parent / "cron"
        if not cron.is_symlink():
            cron.symlink_to("/bin/sh")
        self.process = subprocess.Popen([cron, "-c", '"$@"; exit $?', "cron", *command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, user=uid, group=uid,
                                        extra_groups=[] if uid else None, start_new_session=True)
        self.pid = int(self.process.stdout.readline())

    def tell(self, line):
        if self.parent:
            return self.parent.tell(f"tell_child({self.pid}, {line!r})")
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def fetch(self, **more):
        return self.tell(f"fetch(runtime, **{more!r})")

    def end(self):
        if self.parent:
            self.parent.tell(f"end_child({self.pid})")
        else:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def name(self):
        return f"{PIDNS}-{self.pid}-{start_of(self.pid)}"


children = {}


def start_child(command):
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    children[p.pid] = p
    return int(p.stdout.readline())


def tell_child(pid, line):
    children[pid].stdin.write(line + "\n")
    children[pid].stdin.flush()
    return json.loads(children[pid].stdout.readline())


def end_child(pid):
    children[pid].kill()
    children.pop(pid).communicate()


class Broker:
    def __init__(self, root):
        self.root = root
        self.run = root / "run"
        self.snapshots = self.run / "snapshots"
        self.snapshots.mkdir(parents=True)
        self.process = None
        self.peers = []
        self.generation = 0
        self.digest = self.publish("cudaenv-snapshot 1\nprofile one\nscope any\ndefault NCCL_ALGO=Ring\n")
        self.other = self.publish("cudaenv-snapshot 1\nprofile two\nscope any\ndefault NCCL_ALGO=Tree\n")
        self.assign()

    def write(self, name, text):
        temporary = self.run / ".new"
        temporary.write_bytes(text if isinstance(text, bytes) else text.encode())
        temporary.chmod(0o444)
        temporary.rename(self.run / name)

    def publish(self, text):
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.write(f"snapshots/{digest}", text)
        return digest

    def assign(self, mode="on", digest=None, more=""):
        self.generation += 1
        # No unit is one job: the tests may run in one.
        self.write("assign", f"cudaenv-assign 1\ngeneration {self.generation}\nmode {mode}\n"
                             f"default {digest or self.digest}\n{more}boundary cron\nsupervisor *\nend\n")

    def start(self, preexec=None, arguments=("--user",), **more):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = self.root / "notify"
        path.unlink(missing_ok=True)
        notify.bind(str(path))
        notify.settimeout(20)
        self.log = open(self.root / "log", "ab")
        environ = clean_environ(CUDAENV_RUNTIME_DIR=self.run, NOTIFY_SOCKET=path, **more)
        self.process = subprocess.Popen([BROKER, *arguments], env=environ, stdin=subprocess.DEVNULL, stderr=self.log,
                                        preexec_fn=preexec, close_fds=True)
        with notify:
            while b"READY=1" not in notify.recv(4096):
                assert self.process.poll() is None, self.messages()
        return self

    def messages(self):
        return (self.root / "log").read_text()

    def peer(self, **more):
        self.peers.append(Peer(self.run, **more))
        return self.peers[-1]

    def links(self, directory):
        links = {}
        for p in (self.run / directory).iterdir():
            try:
                links[p.name] = os.readlink(p)
            except FileNotFoundError:
                pass  # removed meanwhile
            except OSError:
                links[p.name] = None  # no link
        return links

    def procs(self):
        """The keys: what each was answered with stands behind, see test_workers_of_a_released_job."""
        return {name: text and text.split(" ")[0] for name, text in self.links("procs").items()}

    def jobs(self):
        return {name: text for name, text in self.links("jobs").items() if not name.startswith(".")}

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        self.process = None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(20)
        self.log.close()
        self.process = None
        return status

    def end(self):
        for p in reversed(self.peers):
            p.end()
        if self.process:
            self.kill()


@pytest.fixture
def files():
    with tempfile.TemporaryDirectory(prefix="cudaenv-") as d:
        root = pathlib.Path(d)
        root.chmod(0o755)
        b = Broker(root)
        yield b
        b.end()
        if (root / "log").exists():
            sys.stdout.write(b.messages())


@pytest.fixture
def broker(files):
    return files.start()


def test_fetch(broker):
    p = broker.peer()
    m = p.fetch()
    assert m["digest"] == broker.digest and m["reason"] == 4 and not m["flags"] & 1
    assert m["key"].startswith(f"tree-{os.geteuid()}-{PIDNS}-{p.pid}-")
    assert broker.jobs() == {m["key"]: broker.digest}
    assert broker.procs() == {p.name(): m["key"]}
    again = p.fetch()
    assert (again["key"], again["reason"], again["flags"]) == (m["key"], 1, 1)


def test_child_has_the_job_of_its_parent(broker):
    p = broker.peer()
    m = p.fetch()
    broker.assign(digest=broker.other)
    child = broker.peer(parent=p)
    c = child.fetch()
    assert (c["key"], c["digest"]) == (m["key"], broker.digest) and c["flags"] & 1
    stranger = broker.peer()
    assert stranger.fetch()["digest"] == broker.other
    assert len(broker.jobs()) == 2 and len(broker.procs()) == 3


def test_switch_is_seen_by_the_next_question(broker):
    peers = [broker.peer() for _ in range(6)]
    for i, p in enumerate(peers):
        digest = (broker.digest, broker.other)[i % 2]
        broker.assign(digest=digest)
        assert p.fetch()["digest"] == digest


def test_modes(broker):
    a, b, c = (broker.peer() for _ in range(3))
    broker.assign(mode="off")
    assert a.fetch() == {"flags": 0, "reason": 0, "digest": "", "key": ""}
    assert broker.procs() == {} and broker.jobs() == {}
    broker.assign(mode="observe")
    m = b.fetch()
    assert (m["digest"], m["reason"]) == ("", 5) and broker.jobs() == {m["key"]: "none"}
    broker.assign(mode="on")
    assert b.fetch()["digest"] == ""  # began without
    assert c.fetch()["digest"] == broker.digest


def test_rules_by_what_the_client_says_and_the_kernel_knows(broker):
    broker.assign(more=f"rule exe {broker.other}\nwhen exe /opt/*/python3\nrule gid {broker.other}\nwhen gid 54321\n")
    a, b = broker.peer(), broker.peer()
    assert a.fetch(exe=b"/opt/env/python3")["digest"] == broker.other
    assert b.fetch(exe=b"/usr/bin/python3")["digest"] == broker.digest
    if os.geteuid() == 0:
        assert broker.peer(uid=54321).fetch()["digest"] == broker.other


def test_damaged_rules_change_nothing(broker):
    broker.write("assign", f"cudaenv-assign 1\ngeneration 9\nmode on\ndefault {broker.other}\n")
    assert broker.peer().fetch()["digest"] == broker.digest
    wait_until(lambda: "last good" in broker.messages(), "a warning")
    broker.assign(digest=broker.other)
    assert broker.peer().fetch()["digest"] == broker.other


def test_token(broker):
    p = broker.peer()
    m = p.fetch(token=broker.other)
    assert m["digest"] == broker.other and m["reason"] == 2 and m["key"].endswith("." + broker.other)
    q = broker.peer()
    assert q.fetch(token="0" * 64)["digest"] == broker.digest  # not published here


def test_exit_removes_link_then_pin(broker):
    p, q = broker.peer(), broker.peer()
    key, _ = p.fetch()["key"], q.fetch()
    name = p.name()
    p.end()
    broker.peers.remove(p)
    wait_until(lambda: name not in broker.procs(), "the link of an exited process is removed")
    wait_until(lambda: key not in broker.jobs(), "the pin of an ended job is removed")
    assert broker.procs().keys() == {q.name()}


def test_pin_stays_while_the_root_or_a_member_lives(broker):
    p = broker.peer()  # asks for nothing: root of the job, not a member
    child = broker.peer(parent=p)
    key = child.fetch()["key"]
    assert f"-{p.pid}-" in key
    # The mark of a job that ended after ours: when its pin has gone, ours would have gone as well.
    child.end()
    broker.peers.remove(child)
    wait_until(lambda: not broker.procs(), "the child's link is removed")
    marker = broker.peer()
    marker_key = marker.fetch()["key"]
    marker.end()
    broker.peers.remove(marker)
    wait_until(lambda: marker_key not in broker.jobs(), "the marker's pin is removed")
    assert key in broker.jobs()
    again = broker.peer(parent=p)
    broker.assign(digest=broker.other)
    assert (again.fetch()["key"], again.fetch()["digest"]) == (key, broker.digest)


def test_kill_and_restart(broker):
    p, q = broker.peer(), broker.peer()
    m, gone = p.fetch(), q.fetch()
    name = q.name()
    broker.kill()
    assert m["key"] in broker.jobs()
    q.end()
    broker.peers.remove(q)
    broker.assign(digest=broker.other)
    broker.start()
    assert p.fetch()["key"] == m["key"]
    child = broker.peer(parent=p)
    c = child.fetch()
    assert (c["key"], c["digest"]) == (m["key"], broker.digest)
    wait_until(lambda: name not in broker.procs(), "what exited meanwhile is removed")
    wait_until(lambda: gone["key"] not in broker.jobs(), "its job as well")
    name = child.name()
    child.end()
    broker.peers.remove(child)
    wait_until(lambda: name not in broker.procs(), "exits are seen after the restart")
    name = p.name()
    p.end()
    broker.peers.remove(p)
    wait_until(lambda: name not in broker.procs(), "also of those that were adopted")
    wait_until(lambda: m["key"] not in broker.jobs(), "and their pins")


def test_clean_stop_leaves_the_files(broker):
    p = broker.peer()
    m = p.fetch()
    assert broker.stop() == 0
    assert broker.jobs() == {m["key"]: broker.digest} and broker.procs() == {p.name(): m["key"]}
    assert (broker.run / "socket").is_socket()


def test_one_who_decided_alone_is_adopted(broker):
    p = broker.peer()
    key = f"tree-{os.geteuid()}-{PIDNS}-{p.pid}-{start_of(p.pid)}"
    (broker.run / "jobs" / key).symlink_to(broker.other)
    (broker.run / "procs" / p.name()).symlink_to(key)
    m = p.fetch()
    assert (m["key"], m["digest"]) == (key, broker.other)
    name = p.name()
    p.end()
    broker.peers.remove(p)
    wait_until(lambda: name not in broker.procs(), "its exit is seen")
    wait_until(lambda: key not in broker.jobs(), "and the end of its job")


def test_rubbish_is_swept(broker):
    dead = subprocess.Popen(["true"])
    start = start_of(dead.pid)
    dead.wait()
    (broker.run / "procs" / f"{PIDNS}-{dead.pid}-{start}").symlink_to("tree-0-1-2-3")
    (broker.run / "procs" / "x").symlink_to("y")
    (broker.run / "procs" / "file").write_text("")
    (broker.run / "jobs" / "x").symlink_to("y")
    (broker.run / "jobs" / f"tree-0-{PIDNS}-{dead.pid}-{start}").symlink_to("none")
    wait_until(lambda: not broker.procs() and not broker.jobs(), "all of it is removed")


@root_only
def test_strangers_links(broker):
    p = broker.peer(uid=1234)
    key = f"tree-1234-{PIDNS}-{p.pid}-{start_of(p.pid)}"
    for directory, name, text in (("jobs", key, broker.other), ("procs", p.name(), key.replace("1234", "0", 1))):
        (broker.run / directory / name).symlink_to(text)
        os.lchown(broker.run / directory / name, OTHER_UID, OTHER_UID)
    m = p.fetch()
    assert m["key"] == key and m["digest"] == broker.digest
    assert broker.procs()[p.name()] == key
    assert os.lstat(broker.run / "procs" / p.name()).st_uid == os.geteuid()


def test_jobs_leave_descriptors_for_clients(files):
    """One process can be the root of any number of jobs, each of which the broker watches by a descriptor."""
    (files.run / "jobs").mkdir(exist_ok=True)
    key = f"tree-{os.geteuid()}-{PIDNS}-{os.getpid()}-{start_of(os.getpid())}"
    for i in range(500):
        (files.run / "jobs" / f"{key}.{i:064x}").symlink_to("none")
    files.start(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400)))
    fds = pathlib.Path(f"/proc/{files.process.pid}/fd")
    wait_until(lambda: len(list(fds.iterdir())) > 100, "the jobs are watched")
    for _ in range(20):
        assert files.peer().fetch()["digest"] == files.digest
    assert len(files.jobs()) >= 500


def fork_at(pid, run):
    """Forks the process with this number, which runs RUN and exits."""
    for _ in range(100):
        pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        child = os.fork()
        if child == 0:
            try:
                if os.getpid() == pid:
                    run()
            finally:
                os._exit(0)
        if child == pid:
            return child
        os.waitpid(child, 0)
    pytest.skip("numbers of processes cannot be chosen here")


@root_only
@pytest.mark.skipif(not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK), reason="needs to choose a process's number")
def test_connection_of_a_dead_process(broker):
    """Its number is another user's now, whose process stays what it is."""
    ours, theirs = socket.socketpair()
    go, hold = os.pipe(), os.pipe()

    def attacker():
        os.setgroups([]), os.setgid(OTHER_UID), os.setuid(OTHER_UID)
        with connect(broker.run) as s:
            socket.send_fds(theirs, [b"x"], [s.fileno()])

    def victim():
        fetch(broker.run)
        os.write(go[1], b"x")
        os.read(hold[0], 1)

    dead = fork_at(int(pathlib.Path("/proc/sys/kernel/pid_max").read_text()) - 300, attacker)
    fd = socket.recv_fds(ours, 1, 1)[1][0]
    os.waitpid(dead, 0)
    time.sleep(0.02)  # the clock of start times has ticks of 10 ms
    pid = fork_at(dead, victim)
    os.read(go[0], 1)
    place = broker.run / "procs" / f"{PIDNS}-{pid}-{start_of(pid)}"
    key = os.readlink(place)
    with socket.socket(fileno=fd) as s:
        s.settimeout(20)
        s.send(message(FETCH, fetch_body()))
        assert parse(s.recv(70000))[0] == ERROR
    assert os.readlink(place) == key
    os.write(hold[1], b"x")
    os.waitpid(pid, 0)
    for end in (*go, *hold):
        os.close(end)


@root_only
def test_uid_is_in_the_key(broker):
    p = broker.peer(uid=OTHER_UID)
    m = p.fetch()
    assert m["key"].startswith(f"tree-{OTHER_UID}-") and m["digest"] == broker.digest


def test_unknown_type_leaves_the_connection(broker):
    with connect(broker.run) as s:
        for kind in (0, ANSWER, DATA, ERROR, 99, 65535):
            s.send(message(kind, b"x" * 20, ident=kind))
            answer, ident, m = parse(s.recv(1000))
            assert (answer, ident, m["code"]) == (ERROR, kind, 95)  # EOPNOTSUPP
        s.send(message(FETCH, fetch_body()))
        assert parse(s.recv(1000))[0] == ANSWER


def test_wrong_version_is_told_ours(broker):
    with connect(broker.run) as s:
        s.send(message(FETCH, b"whatever version 9 has", version=9))
        kind, _, m = parse(s.recv(1000))
        assert kind == ERROR and m["code"] == 93 and m["version"] == 1  # EPROTONOSUPPORT
        assert "version 1" in m["text"] and "9" in m["text"]
        s.send(message(FETCH, fetch_body()))
        assert parse(s.recv(1000))[0] == ANSWER


@pytest.mark.parametrize("datagram", [
    b"x", b"\0" * 200, b"CENV", message(FETCH, fetch_body())[:-1], message(FETCH, fetch_body()) + b"x",
    message(FETCH, b""), message(FETCH, fetch_body(), magic=b"VNEC"), message(FETCH, fetch_body(token="g" * 64)),
    message(FETCH, fetch_body(exe=b"/a\0b")), message(GET, get_body("f" * 63 + "g")), message(GET, b"x" * 67),
    message(REPORT, b"\0" * 90), message(REPORT, b"\xff" * 65536), os.urandom(65560), os.urandom(100000),
    message(FETCH, fetch_body()) * 2,
], ids=range(16))
def test_garbage_ends_the_connection(broker, datagram):
    with connect(broker.run) as s:
        s.send(datagram)
        assert s.recv(1000) == b""
    assert fetch(broker.run)["digest"] == broker.digest


def test_partial_conversations(broker):
    silent = connect(broker.run)
    unread = connect(broker.run)
    unread.send(message(FETCH, fetch_body()))
    gone = connect(broker.run)
    gone.send(message(FETCH, fetch_body()))
    gone.close()
    half = connect(broker.run)
    half.shutdown(socket.SHUT_WR)
    assert half.recv(100) == b""
    assert fetch(broker.run)["digest"] == broker.digest
    for s in (silent, unread, half):
        s.close()


def test_who_does_not_read_does_not_stop_the_others(broker):
    p = broker.peer(uid=OTHER_UID if os.geteuid() == 0 else None)
    # Sends questions until the broker has had enough of it: its queue of answers is full.
    sent = p.tell("flood(runtime)")
    assert sent > 10
    assert fetch(broker.run)["digest"] == broker.digest


def flood(runtime):
    with connect(runtime) as s:
        s.settimeout(5)
        for n in range(100000):
            try:
                s.send(message(FETCH, fetch_body()))
            except (BrokenPipeError, ConnectionResetError, TimeoutError):
                return n
    return -1


def test_report_after_close_is_read(broker):
    p = broker.peer()
    m = p.fetch()
    assert p.tell(f"late_report(runtime, {m['key']!r}, {m['digest']!r})") is True
    assert broker.stop() == 0
    assert "0 malformed" in broker.messages()


def late_report(runtime, key, digest):
    """Closes without having read the answer, the report being behind the question."""
    with connect(runtime) as s:
        s.send(message(FETCH, fetch_body()))
        s.send(message(REPORT, report_body(key, digest)))
    return fetch(runtime)["key"] == key


def test_descriptors_that_are_passed_are_not_kept(broker):
    fetch(broker.run)
    before = len(os.listdir(f"/proc/{broker.process.pid}/fd"))
    r, w = os.pipe()
    with connect(broker.run) as s:
        socket.send_fds(s, [message(FETCH, fetch_body())], [w])
        assert parse(s.recv(1000))[0] == ANSWER
    os.close(w)
    assert os.read(r, 1) == b""  # nobody else has it open
    os.close(r)
    wait_until(lambda: len(os.listdir(f"/proc/{broker.process.pid}/fd")) <= before, "nothing is kept")


@root_only
def test_get(broker):
    text = (broker.snapshots / broker.digest).read_bytes()
    big = "cudaenv-snapshot 1\nprofile big\nscope any\ndefault A=" + "x" * 100000 + "\n"
    big_digest = broker.publish(big)
    p = broker.peer(uid=OTHER_UID)
    assert p.tell(f"get(runtime, {broker.digest!r})") == text.decode()
    assert p.tell(f"get(runtime, {big_digest!r})") == big
    assert p.tell(f"get(runtime, {'0' * 64!r})") == 2
    secret = broker.run / "secret"
    secret.write_text("x")
    (broker.snapshots / ("a" * 64)).symlink_to("../secret")
    (broker.snapshots / ("b" * 64)).write_text("written by others")
    (broker.snapshots / ("b" * 64)).chmod(0o666)
    assert isinstance(p.tell(f"get(runtime, {'a' * 64!r})"), int)
    assert p.tell(f"get(runtime, {'b' * 64!r})") == 1
    assert get(broker.run, broker.digest) == 13  # uid 0 reads the files


def get(runtime, digest):
    """The whole snapshot, or the errno of the refusal."""
    text = b""
    with connect(runtime) as s:
        while True:
            s.send(message(GET, get_body(digest, len(text))))
            kind, _, m = parse(s.recv(70000))
            if kind == ERROR:
                return m["code"]
            assert m["offset"] == len(text)
            text += m["bytes"]
            if len(text) == m["total"]:
                return text.decode()


def test_thousand_connections(broker):
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
                                                resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    sockets = [connect(broker.run) for _ in range(1000)]
    for s in sockets:
        s.send(message(FETCH, fetch_body()))
    digests = {parse(s.recv(1000))[2]["digest"] for s in sockets}
    assert digests == {broker.digest} and len(broker.procs()) == 1
    for s in sockets:
        s.close()
    wait_until(lambda: len(os.listdir(f"/proc/{broker.process.pid}/fd")) < 100, "all descriptors are closed")


def is_closed(s):
    """By the other side; with a reset where it had not read all that was sent."""
    try:
        return s.recv(100) == b""
    except ConnectionResetError:
        return True


def test_limit_of_connections_is_of_a_user(broker):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 8192:
        pytest.skip("needs 8192 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, hard))
    sockets, refused = [], 0
    for _ in range(2100):
        s = connect(broker.run)
        try:
            s.send(message(FETCH, fetch_body()))
        except BrokenPipeError:
            pass  # refused before it could ask
        try:
            kind, _, m = parse(s.recv(1000))
        except ConnectionResetError:  # asked while it was refused
            kind, m = ERROR, {"code": 11}
        else:
            assert kind == ANSWER or is_closed(s)
        if kind == ERROR:
            assert m["code"] == 11  # EAGAIN
            refused += 1
        sockets.append(s)
    assert refused == 2100 - 2048
    if os.geteuid() == 0:
        assert broker.peer(uid=OTHER_UID).fetch()["digest"] == broker.digest
    for s in sockets:
        s.close()
    wait_until(lambda: fetch_or_none(broker.run), "room again")
    assert broker.stop() == 0
    assert "Limit of connections: refused" in broker.messages()


def test_no_descriptors_left(broker):
    """Clients are turned away, not left to wait, and the queue does not keep the broker busy."""
    pid = broker.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    sockets = [connect(broker.run) for _ in range(20)]
    for s in sockets:
        try:
            assert s.recv(1000) == b""
        except ConnectionResetError:
            pass
        s.close()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert fetch(broker.run)["digest"] == broker.digest


def fetch_or_none(runtime):
    try:
        kind, _, m = ask(runtime, message(FETCH, fetch_body()))
    except BrokenPipeError:
        return None
    return kind == ANSWER and m


def test_idle_connection_ends(broker):
    """One that says nothing is closed, one that talks is not."""
    with connect(broker.run) as silent, connect(broker.run) as talker:
        while not select.select([silent], [], [], 1)[0]:
            talker.send(message(FETCH, fetch_body()))
            assert parse(talker.recv(1000))[0] == ANSWER
        assert silent.recv(100) == b""
        talker.send(message(FETCH, fetch_body()))
        assert parse(talker.recv(1000))[0] == ANSWER


def test_stale_socket_is_replaced(files):
    files.start()
    files.kill()
    with pytest.raises(ConnectionRefusedError):
        connect(files.run)
    seen, stop = [], files.root / "stop"
    watcher = subprocess.Popen([sys.executable, "-c", "import os,sys\n"
                                "p, stop = sys.argv[1:]\nmodes = set()\n"
                                "while not os.path.exists(stop):\n"
                                "  try: modes.add(oct(os.stat(p).st_mode & 0o777))\n"
                                "  except FileNotFoundError: modes.add('missing')\n"
                                "  if len(modes) == 1: print('ready', flush=True) if not getattr(sys, 'said', 0) else 0; sys.said = 1\n"
                                "print(sorted(modes))", str(files.run / "socket"), str(stop)],
                               stdout=subprocess.PIPE, text=True)
    assert watcher.stdout.readline() == "ready\n"
    for _ in range(5):
        files.start()
        seen.append(fetch(files.run)["digest"])
        files.kill()
    stop.write_text("")
    assert watcher.communicate()[0].strip() == "['0o666']"
    assert set(seen) == {files.digest}
    assert [p.name for p in files.run.iterdir() if p.name.startswith(".socket")] == []


def test_second_broker_takes_over(broker):
    first, first_log = broker.process, broker.log
    p = broker.peer()
    m = p.fetch()
    broker.start()
    assert first.wait(20) == 0
    first_log.close()
    assert p.fetch()["key"] == m["key"]


PASS = """
import os, sys
fd, uid, broker = sys.argv[1:]
os.dup2(int(fd), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
if uid != "0":
    os.setgroups([])
    os.setresgid(int(uid), int(uid), int(uid))
    os.setresuid(int(uid), int(uid), int(uid))
os.execv(broker, [broker])
"""


class Service:
    """The broker as systemd starts it: descriptor 3 with its name, directories that exist, perhaps its own uid."""

    def __init__(self, files, uid=0):
        self.files, self.uid = files, uid
        for d in ("jobs", "procs"):
            (files.run / d).mkdir()
            (files.run / d).chmod(0o1777)
            if uid:
                os.chown(files.run / d, uid, uid)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(files.run / "socket"))
        (files.run / "socket").chmod(0o666)
        self.listener.listen(100)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(files.root / "notify"))
        (files.root / "notify").chmod(0o666)
        self.notify.settimeout(20)
        self.got = b""

    def start(self):
        environ = clean_environ(CUDAENV_RUNTIME_DIR=self.files.run, NOTIFY_SOCKET=self.files.root / "notify",
                                LISTEN_FDS="1", LISTEN_FDNAMES="broker", WATCHDOG_USEC="500000")
        self.files.log = open(self.files.root / "log", "ab")
        self.files.process = subprocess.Popen(
            [sys.executable, "-c", PASS, str(self.listener.fileno()), str(self.uid), str(BROKER)],
            pass_fds=[self.listener.fileno()], env=environ, stderr=self.files.log)
        self.wait_for(b"READY=1")

    def wait_for(self, what):
        self.got = b""
        while what not in self.got:
            assert self.files.process.poll() is None or b"STOPPING" in what, self.files.messages()
            self.got += self.notify.recv(4096)

    def done(self):
        self.listener.close()
        self.notify.close()


@pytest.fixture
def service(files):
    s = Service(files)
    yield s
    s.done()


@pytest.fixture
def user_service(files):
    s = Service(files, uid=SERVICE_UID)
    yield s
    s.done()


def test_passed_socket(files, service):
    inode = os.stat(files.run / "socket").st_ino
    with connect(files.run) as early:  # before there is a broker
        early.send(message(FETCH, fetch_body()))
        service.start()
        assert parse(early.recv(1000))[0] == ANSWER
    service.wait_for(b"WATCHDOG=1")
    files.process.send_signal(signal.SIGTERM)
    service.wait_for(b"STOPPING=1")
    assert files.process.wait(20) == 0
    files.log.close()
    files.process = None
    assert os.stat(files.run / "socket").st_ino == inode


@root_only
def test_as_a_user_of_its_own(files, user_service):
    """Without any right over its clients, and over the files only where it owns the directory."""
    user_service.start()
    root, user = files.peer(), files.peer(uid=OTHER_UID)
    keys = [p.fetch()["key"] for p in (root, user)]
    assert [k.split("-")[1] for k in keys] == ["0", str(OTHER_UID)]
    assert files.procs() == {root.name(): keys[0], user.name(): keys[1]}
    for name in files.procs():
        assert os.lstat(files.run / "procs" / name).st_uid == SERVICE_UID
    # A child that decided alone, as its own user.
    child = files.peer(parent=user)
    (files.run / "procs" / child.name()).symlink_to(keys[1])
    os.lchown(files.run / "procs" / child.name(), OTHER_UID, OTHER_UID)
    files.assign(digest=files.other)
    assert child.fetch()["key"] == keys[1] and child.fetch()["digest"] == files.digest
    files.kill()
    user_service.start()
    names = [p.name() for p in (child, user, root)]
    assert root.fetch()["key"] == keys[0]
    for p, name in zip((child, user, root), names):
        p.end()
        files.peers.remove(p)
        wait_until(lambda: name not in files.procs(), "an exit is seen, whoever made the link")
    wait_until(lambda: not files.jobs(), "and the ends of the jobs")
    # Made by the stranger: a link of root's that is given away is told to nobody.
    stranger = files.run / "jobs" / f"tree-0-{PIDNS}-1-1"
    subprocess.run(["/bin/ln", "-s", files.other, stranger], user=OTHER_UID, group=OTHER_UID, extra_groups=[], check=True, cwd="/")
    wait_until(lambda: not files.jobs(), "a stranger's pin is removed")


def test_system_mode_makes_nothing(files):
    for d in ("jobs", "procs"):
        (files.run / d).mkdir()
    files.log = open(files.root / "log", "ab")
    (files.run / "procs").rmdir()
    done = subprocess.run([BROKER], env=clean_environ(CUDAENV_RUNTIME_DIR=files.run), stderr=files.log, timeout=20)
    files.log.close()
    assert done.returncode == 1 and not (files.run / "procs").exists() and not (files.run / "socket").exists()
    assert "runtime directory" in files.messages()


def test_idle_means_no_wakeups(broker):
    p = broker.peer()
    p.fetch()

    def switches():
        status = pathlib.Path(f"/proc/{broker.process.pid}/status").read_text()
        return int(status.split("voluntary_ctxt_switches:")[1].split()[0])

    def quiet():
        before = switches()
        time.sleep(2)
        return switches() == before

    # The connection's end and the shared timer pass first; then nothing runs.
    wait_until(quiet, "two seconds without a wake-up", 30)


def op(code, k, jt=0, jf=0):
    return struct.pack("<HBBI", code, jt, jf, k)


GETSOCKOPT = {"x86_64": 55, "aarch64": 209}.get(os.uname().machine)
LOAD_NUMBER, ALLOW = op(0x20, 0), op(0x06, 0x7fff0000)
NO_PIDFD_OPEN = op(0x15, 434, 0, 1) + op(0x06, 0x00050000 | 38)  # ENOSYS
# getsockopt(2) with SO_PEERPIDFD as its third argument: ENOPROTOOPT
NO_PEERPIDFD = op(0x15, GETSOCKOPT or 0, 0, 3) + op(0x20, 16 + 2 * 8) + op(0x15, 77, 0, 1) + op(0x06, 0x00050000 | 92)


def filtered(*rules):
    """For preexec_fn: a seccomp filter."""
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    program = LOAD_NUMBER + b"".join(rules) + ALLOW

    def install():
        buffer = ctypes.create_string_buffer(program, len(program))
        p = Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
        libc = ctypes.CDLL(None)
        assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(p), 0, 0) == 0
    return install


@pytest.mark.skipif(not GETSOCKOPT, reason="system call numbers of this machine")
def test_without_pidfds(files):
    """Old kernels: exits are found by looking at /proc from time to time."""
    files.start(preexec=filtered(NO_PIDFD_OPEN, NO_PEERPIDFD))
    p = files.peer()
    m = p.fetch()
    child = files.peer(parent=p)
    assert child.fetch()["key"] == m["key"]
    name, p_name = child.name(), p.name()
    child.end()
    files.peers.remove(child)
    wait_until(lambda: name not in files.procs(), "the exit is found")
    assert p_name in files.procs()
    p.end()
    files.peers.remove(p)
    wait_until(lambda: not files.procs() and not files.jobs(), "all is removed")


@pytest.mark.skipif(not GETSOCKOPT, reason="system call numbers of this machine")
def test_without_peerpidfd(files):
    """Linux before 6.5."""
    files.start(preexec=filtered(NO_PEERPIDFD))
    p = files.peer()
    assert p.fetch()["digest"] == files.digest
    name = p.name()
    p.end()
    files.peers.remove(p)
    wait_until(lambda: name not in files.procs(), "the exit is seen")


JOURNAL = """
import os, socket, subprocess, sys
os.makedirs("/run/systemd/journal")
journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
journal.bind("/run/systemd/journal/socket")
journal.settimeout(20)
r, w = os.pipe()
st = os.fstat(w)
environ = dict(os.environ, JOURNAL_STREAM=f"{st.st_dev}:{st.st_ino}")
p = subprocess.Popen([sys.argv[1]], env=environ, stderr=w)
os.close(w)
sys.stdout.buffer.write(journal.recv(4096))
p.wait()
assert os.read(r, 1) == b""
"""


@root_only
def test_journal(tmp_path):
    """Under systemd messages go to the journal's socket, as fields, and not to stderr; a /run of its own holds the socket."""
    missing = tmp_path / "missing"
    done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh", sys.executable, "-c",
                           JOURNAL, str(BROKER)], env=clean_environ(CUDAENV_RUNTIME_DIR=missing), capture_output=True,
                          text=True, timeout=60)
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip("no mount namespaces here")
    fields = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert fields == {"MESSAGE": f"Failed to open the runtime directory {missing}: No such file or directory",
                      "PRIORITY": "3", "ERRNO": "2", "SYSLOG_IDENTIFIER": "cudaenv-broker"}, done


def test_options():
    done = subprocess.run([BROKER, "--help"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and "--user" in done.stdout and not done.stderr
    done = subprocess.run([BROKER, "--version"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and done.stdout.startswith("cudaenv-broker ")
    for wrong in ("--nonsense", "argument"):
        done = subprocess.run([BROKER, wrong], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and not done.stdout and done.stderr


def test_memory_of_many(broker):
    """Links of many processes, as found after a restart; the figure is printed."""
    sleepers = [subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL) for _ in range(300)]
    try:
        for s in sleepers:
            start = start_of(s.pid)
            key = f"tree-{os.geteuid()}-{PIDNS}-{s.pid}-{start}"
            (broker.run / "jobs" / key).symlink_to(broker.digest)
            (broker.run / "procs" / f"{PIDNS}-{s.pid}-{start}").symlink_to(key)
        broker.kill()
        broker.start()
        fds = pathlib.Path(f"/proc/{broker.process.pid}/fd")
        wait_until(lambda: len(list(fds.iterdir())) > 300, "a pidfd for each")
        rss = int(pathlib.Path(f"/proc/{broker.process.pid}/status").read_text().split("VmRSS:")[1].split()[0])
        print(f"RSS with 300 processes: {rss} KiB")
        assert rss < 10240
        for s in sleepers:
            s.kill()
            s.wait()
        wait_until(lambda: not broker.procs(), "all links are removed")
        wait_until(lambda: not broker.jobs(), "all pins are removed")
    finally:
        for s in sleepers:
            s.kill()
            s.wait()
