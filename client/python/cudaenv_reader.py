# SPDX-License-Identifier: MIT
"""The start hook in pure Python: for interpreters that cannot load the extension, and for an extension that cannot be loaded.

It does what cudaenv_start() does, by the same rules over the same files: common/runtime, common/job (what a process says of
itself), common/snapshot, client/fetch and client/start under their names; cudaenv_apply.py and cudaenv_alone.py beside it have the
rest. Builtin modules alone where that is possible, for every process pays for it; Python 3.6 and later, PyPy. Tests hold it
against the extension. Nobody imports it: the hook's load() makes the module, so that no import system stands in between.
"""
import _imp
import posix
import sys

# load: the hook's function load(name, **names): a module of the file beside, with the names in it.
PATH_ONLY = 0o10000000  # O_PATH, which PyPy does not name
WAIT_SECONDS = 0.008
LINKS_MAX, ASSIGN_MAX, SNAPSHOT_MAX, UINT64_MAX = 16, 256 * 1024, 640 * 1024, (1 << 64) - 1
INIT_CGROUP_NS, INIT_USER_NS = 0xEFFFFFFB, 0xEFFFFFFD
FETCH, ANSWER, REPORT, GET, DATA = 1, 2, 3, 4, 5
RULES = (b"default", b"force", b"unset", b"together", b"prepend", b"append")
HEX = b"0123456789abcdef"
NO_RULES = b"cudaenv-assign 1\ngeneration 0\nmode observe\ndefault none\nend\n"


class Refused(Exception):
    """What is not believed, or not understood."""


class Bag:
    """Fields by name."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


# --- the extension

def intact(path, size, crc):
    """Is the file a whole extension? One of the size that was installed must have its bytes, too: an upgrade has another size."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    try:
        found = posix.fstat(fd)
        head = posix.read(fd, 64)
        if found.st_mode & 0o170000 != 0o100000 or head[:6] != b"\x7fELF\2\1" or len(head) < 64:
            return False
        number = [int.from_bytes(head[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62))]
        if number[0] + number[1] * number[2] > found.st_size:
            return False  # cut: the section table stands at the end
        if found.st_size != size:
            return True
        from binascii import crc32
        return crc32(head + read_full(fd, size)) & 0xffffffff == crc
    finally:
        posix.close(fd)


def begin(extension, size, mtime, crc, runtime_dir):
    """For the hook, when the extension is not the file that was there at installation, or has failed to load."""
    hook = None
    try:
        found = posix.stat(extension)
        tried = found.st_size == size and found.st_mtime_ns == mtime
        if (not tried and sys.hexversion >= 0x3080000 and "t" not in sys.abiflags
                and ".abi3.so" in _imp.extension_suffixes() and intact(extension, size, crc)):
            spec = type(sys.__spec__)("_cudaenv", None, origin=extension)
            hook = _imp.create_dynamic(spec)
            _imp.exec_dynamic(hook)
    except Exception:
        hook = None
    sys.modules["_cudaenv"] = module = type(sys)("_cudaenv")  # once in an interpreter
    if hook:
        module.start = hook.start
        hook.start(runtime_dir)
    elif in_main_interpreter():
        start(runtime_dir)


def in_main_interpreter():
    """The others of a process live in an environment that is decided already, among threads."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        if name in sys.builtin_module_names:
            module = __import__(name)
            return module.get_current() == module.get_main()
    return True


# --- files

def not_short(error):
    """What cannot be read for want of descriptors or memory would have changed the answer: then there is none."""
    if getattr(error, "errno", 0) in (12, 23, 24):  # ENOMEM, ENFILE, EMFILE
        raise error


def read_full(fd, size):
    pieces = []
    while size > 0:
        piece = posix.read(fd, size)
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def read_proc(path, size=65536):
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOCTTY)
    try:
        return read_full(fd, size)
    finally:
        posix.close(fd)


def open_at(fd, name, flags):
    return posix.open(name, flags | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_NOCTTY, dir_fd=fd)


def is_number(text, largest=UINT64_MAX):
    return text.isdigit() and (text == b"0" or text[:1] != b"0") and int(text) <= largest


def is_digest(text):
    return text is not None and len(text) == 64 and not text.strip(HEX)


# --- common/runtime

def root_stand_in():
    """The uid that stands for root where the user namespace does not map it, else None."""
    try:
        for line in read_proc("/proc/self/uid_map").splitlines():
            inside, outside, count = map(int, line.split())
            if outside == 0 and count > 0:
                return None
    except (OSError, ValueError):
        return None
    try:
        return int(read_proc("/proc/sys/kernel/overflowuid"))
    except (OSError, ValueError):
        return 65534


class Walk:
    """From / down to a directory; every component is judged by the descriptor that is then used."""

    def __init__(self, uid):
        self.uid, self.fd, self.shared, self.links = uid, -1, False, 0

    def judge(self, st):
        owner = st.st_uid
        if owner != 0 and (owner != self.uid or self.shared):
            if owner == root_stand_in():
                if self.shared:
                    raise Refused
            elif owner != self.uid:
                raise Refused
        if st.st_mode & 0o170000 != 0o040000 or not st.st_mode & 0o022:
            return
        # A user's own directory may be writable by the group that has the user's number, the private one.
        if (not st.st_mode & 0o002 and self.uid and st.st_uid == st.st_gid == self.uid
                and self.uid != root_stand_in()):
            return
        if not st.st_mode & 0o1000:
            raise Refused
        self.shared = True

    def enter(self, fd, st):
        if self.fd >= 0:
            posix.close(self.fd)
        self.fd, self.st = fd, st

    def step(self, name, absolute=False):
        """One component. The text of a link, or None."""
        fd = open_at(None if absolute else self.fd, name, PATH_ONLY)
        try:
            st = posix.fstat(fd)
            kind = st.st_mode & 0o170000
            if kind not in (0o040000, 0o120000):
                raise Refused
            self.judge(st)
            if kind == 0o120000:
                return posix.readlink(b"", dir_fd=fd)
            self.enter(fd, st)
            fd = -1
            return None
        finally:
            if fd >= 0:
                posix.close(fd)

    def go(self, path):
        rest = path.split(b"/")
        self.step(b"/", True)
        while rest:
            name = rest.pop(0)
            link = self.step(name) if name else None
            if link is None:
                continue
            self.links += 1
            if self.links > LINKS_MAX or not link:
                raise Refused
            rest[:0] = link.split(b"/")
            if link[:1] == b"/":
                self.step(b"/", True)


def open_sub(rt, name, shared):
    try:
        fd = open_at(rt.fd, name, PATH_ONLY | posix.O_DIRECTORY)
    except FileNotFoundError:
        return None, rt.publisher
    rt.opened.append(fd)
    st = posix.fstat(fd)
    if st.st_mode & 0o022 and not (shared and st.st_mode & 0o1000):
        raise Refused
    return fd, st.st_uid


def runtime_open(path, uid):
    walk = Walk(uid)
    rt = Bag(path=path, uid=uid, opened=[])
    try:
        if path[:1] != b"/" or len(path) > 4095:
            raise Refused
        walk.go(path)
        rt.fd, walk.fd = walk.fd, -1
        rt.opened.append(rt.fd)
        if walk.st.st_mode & 0o022:
            raise Refused
        rt.publisher = walk.st.st_uid
        rt.snapshots, owner = open_sub(rt, b"snapshots", False)
        if owner != rt.publisher:
            raise Refused
        rt.jobs, rt.broker = open_sub(rt, b"jobs", True)
        rt.procs, owner = open_sub(rt, b"procs", True)
        if owner not in (rt.broker, rt.publisher):
            raise Refused
        return rt
    except (OSError, Refused, ValueError):
        runtime_done(rt)
        return None
    finally:
        if walk.fd >= 0:
            posix.close(walk.fd)


def runtime_done(rt):
    for fd in rt.opened:
        posix.close(fd)


def runtime_find(recorded, env, uid):
    for path in (env.get(b"CUDAENV_RUNTIME_DIR"), recorded, b"/run/cudaenv", b"/run/user/%d/cudaenv" % uid):
        rt = runtime_open(path, uid) if path is not None else None
        if rt:
            return rt
    return None


def runtime_read(rt, dir_fd, name, largest):
    if dir_fd is None:
        raise Refused
    fd = open_at(dir_fd, name, posix.O_RDONLY)
    try:
        st = posix.fstat(fd)
        if (st.st_mode & 0o170000 != 0o100000 or st.st_uid != rt.publisher or st.st_mode & 0o022
                or st.st_size > largest):
            raise Refused
        text = read_full(fd, st.st_size + 1)
        if len(text) != st.st_size:
            raise Refused
        return text
    finally:
        posix.close(fd)


def runtime_readlink(rt, dir_fd, name):
    """The text of a believed link; None: there is none. Refused: somebody else's."""
    try:
        fd = open_at(dir_fd, name, PATH_ONLY)
    except FileNotFoundError:
        return None
    try:
        st = posix.fstat(fd)
        if st.st_mode & 0o170000 != 0o120000 or st.st_uid not in (0, rt.publisher, rt.broker, rt.uid):
            raise Refused
        return posix.readlink(b"", dir_fd=fd)
    finally:
        posix.close(fd)


# --- common/assign

def parse_pin_word(word):
    if word == b"none":
        return b""
    if not is_digest(word):
        raise Refused
    return word


def assign_parse(text):
    lines = text.split(b"\n")
    if lines[-2:] != [b"end", b""] or len(lines) < 6 or lines[0] != b"cudaenv-assign 1":
        raise Refused
    head = [line.partition(b" ") for line in lines[1:4]]
    if [h[0] for h in head] != [b"generation", b"mode", b"default"] or head[1][2] not in (b"off", b"observe", b"on"):
        raise Refused
    a = Bag(mode=head[1][2], fallback=parse_pin_word(head[2][2]), rules=[], boundary=[], supervisor=[],
            mismatch_fails=lines[4] == b"on_mismatch fail")
    for line in lines[4 + a.mismatch_fails:-2]:
        word, _, rest = line.partition(b" ")
        if word == b"rule" and b" " in rest:
            a.rules.append([parse_pin_word(rest.split(b" ", 1)[1]), [], None])
        elif word == b"until" and a.rules and not a.rules[-1][1] and rest.isdigit():
            a.rules[-1][2] = int(rest)
        elif word == b"when" and b" " in rest and a.rules:
            a.rules[-1][1].append(rest.split(b" ", 1))
        elif word in (b"boundary", b"supervisor") and rest:
            getattr(a, word.decode()).append(rest)
        else:
            raise Refused
    return a


# --- common/job

def cgroup_mount(controllers):
    if not controllers:
        return b"unified" if is_directory(b"/sys/fs/cgroup/unified") else b"."
    name = controllers[5:] if controllers.startswith(b"name=") else controllers
    return name if len(name) < 64 and b"/" not in name and name != b".." else b"-"


def is_directory(path):
    try:
        return posix.stat(path, follow_symlinks=False).st_mode & 0o170000 == 0o040000
    except OSError:
        return False


def cgroup_inode(mount, path):
    if b"/.." in path or len(path) >= 4096:
        return 0
    try:
        st = posix.stat(b"/sys/fs/cgroup/" + mount + path, follow_symlinks=False)
    except (OSError, ValueError):
        return 0
    return st.st_ino if st.st_mode & 0o170000 == 0o040000 and st.st_ino != 1 else 0


def namespace_inode(name):
    """From the text TYPE:[INODE] of its link; 0: not to be seen."""
    try:
        return int(posix.readlink("/proc/self/ns/" + name).partition("[")[2].rstrip("]"))
    except (OSError, ValueError):
        return 0


def read_node(rt):
    """The node's own cgroup and user namespace, as the broker names them in jobs/.node; 0: not known."""
    try:
        words = runtime_readlink(rt, rt.jobs, b".node").split(b" ") if rt.jobs is not None else ()
    except (OSError, Refused, AttributeError):
        return 0, 0
    if len(words) == 4 and words[::2] == [b"cgroupns", b"userns"] and is_number(words[1]) and is_number(words[3]):
        return int(words[1]), int(words[3])
    return 0, 0


def cgroup_claim(ns, node_ns):
    """The root of this process's cgroup namespace, 0: the node's own, UINT64_MAX: not to be seen."""
    if not is_directory(b"/sys/fs/cgroup") or not posix.listdir("/sys/fs/cgroup"):
        return UINT64_MAX
    if ns in (0, INIT_CGROUP_NS, node_ns):
        return 0
    return cgroup_inode(b"systemd", b"") or cgroup_inode(cgroup_mount(b""), b"") or UINT64_MAX


def outer_uid(uid):
    try:
        for line in read_proc("/proc/self/uid_map").splitlines():
            inside, outside, count = map(int, line.split())
            if inside <= uid < inside + count:
                return outside + uid - inside
    except (OSError, ValueError):
        pass
    return uid


def job_subject(rt, env):
    """What this process says of itself; pid is None where /proc is not to be seen, and then only the broker can tell its job."""
    token = env.get(b"CUDAENV_SNAPSHOT")
    s = Bag(pid=None, uid=rt.uid, key_uid=rt.uid, pidns=0, claim=0, token=token if is_digest(token) else None, exe=b"", unit=b"",
            cgroup=b"", placed=False, required=False)
    try:
        s.pid = int(posix.readlink("/proc/self"))
    except (OSError, ValueError) as e:
        not_short(e)
        return s
    s.pidns, cgroup_ns, user_ns = map(namespace_inode, ("pid", "cgroup", "user"))
    node = read_node(rt) if (cgroup_ns, user_ns) != (INIT_CGROUP_NS, INIT_USER_NS) else (0, 0)
    s.claim = cgroup_claim(cgroup_ns, node[0])
    s.same_pidns = s.pid == posix.getpid()
    if user_ns not in (0, INIT_USER_NS, node[1]):
        s.key_uid = outer_uid(rt.uid)
    try:
        s.exe = posix.readlink(b"/proc/self/exe")
    except OSError:
        pass
    if len(s.exe) > 4095:
        s.exe = b""
    return s


def job_key_parse(name):
    """kind, uid, pidns, pid, start or inode, digest, slot; None: no key."""
    if len(name) > 257:
        return None
    body, tilde, slot = name.partition(b"~")
    if tilde and slot not in (b"1", b"2", b"3"):
        return None
    body, dot, digest = body.partition(b".")
    if dot and not is_digest(digest):
        return None
    kind, _, rest = body.partition(b"-")
    numbers = rest.split(b"-")
    if kind == b"tree":
        limits = (0xffffffff, UINT64_MAX, 0x7fffffff, UINT64_MAX)
    elif kind in (b"slurm", b"container", b"unit"):
        limits = (0xffffffff, UINT64_MAX)
    else:
        return None
    if len(numbers) != len(limits) or not all(map(is_number, numbers, limits)):
        return None
    return Bag(kind=kind, numbers=[int(n) for n in numbers], uid=int(numbers[0]), digest=digest, slot=slot, body=body)


# --- common/snapshot

def sha256(data):
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            return __import__(name).sha256(data).hexdigest().encode()
        except ImportError:
            pass
    raise Refused


def snapshot_parse(text, uid):
    lines = text.split(b"\n")
    if len(lines) < 4 or lines.pop() or lines[0] != b"cudaenv-snapshot 1" or b"\0" in text:
        raise Refused
    snap = Bag(root=None, root_force=False, entries={})
    word, _, snap.profile = lines[1].partition(b" ")
    if word != b"profile" or lines[2] not in (b"scope any", b"scope user"):
        raise Refused
    if uid == 0 and lines[2] != b"scope any":
        raise Refused
    del lines[:3]
    if lines and lines[0].startswith(b"toolkit "):
        rule, _, snap.root = lines.pop(0)[8:].partition(b" ")
        snap.root_force = rule == b"force"
    for line in lines:
        rule, _, rest = line.partition(b" ")
        group = None
        if rule == b"together":
            group, _, rest = rest.partition(b" ")
        name, equals, value = rest.partition(b"=")
        if rule not in RULES or bool(equals) == (rule == b"unset") or not name:
            raise Refused
        snap.entries.setdefault(name, []).append((rule, group, value))
    return snap


def snapshot_load(rt, digest):
    text = runtime_read(rt, rt.snapshots, digest, SNAPSHOT_MAX)
    if sha256(text) != digest:
        raise ValueError
    snap = snapshot_parse(text, rt.uid)
    snap.digest = digest
    return snap


# --- common/ranks

def is_published(rt, digest):
    if not is_digest(digest) or rt.snapshots is None:
        return False
    try:
        st = posix.stat(digest, dir_fd=rt.snapshots, follow_symlinks=False)
    except OSError:
        return False
    return st.st_mode & 0o170000 == 0o100000 and st.st_uid == rt.publisher


def ranks_get(rt, name):
    """The text of ranks/NAME, None: there is none that is believed."""
    if not is_digest(name):
        return None
    try:
        fd = open_at(rt.fd, b"ranks", PATH_ONLY | posix.O_DIRECTORY)
    except OSError:
        return None
    try:
        st = posix.fstat(fd)
        text = runtime_readlink(rt, fd, name) if st.st_uid == rt.publisher and not st.st_mode & 0o022 else None
        return text if is_digest(text) else None
    except (OSError, Refused):
        return None
    finally:
        posix.close(fd)


def ranks_met(rt, required, digest):
    return bool(digest) and required in (digest, ranks_get(rt, digest))


def ranks_resolve(rt, required):
    if is_published(rt, required):
        return required
    digest = ranks_get(rt, required)
    return digest if is_published(rt, digest) else None


# --- client/fetch

def number(value, size):
    return value.to_bytes(size, "little")


class Fetch:
    """One conversation with the broker; see client/fetch.h."""

    socket = None

    def open(self, rt):
        if self.socket:
            return
        import _socket
        import time
        self.clock, self.deadline, self.id = time.monotonic, time.monotonic() + WAIT_SECONDS, 0
        path = rt.path + b"/socket"
        if len(path) >= 108:
            path = b"/proc/self/fd/%d/socket" % rt.fd
        s = _socket.socket(1, 5 | posix.O_CLOEXEC | posix.O_NONBLOCK, 0)
        try:
            s.setblocking(False)
            s.connect(path)
            credentials = s.getsockopt(1, 17, 12)
            if int.from_bytes(credentials[4:8], sys.byteorder) not in (0, rt.publisher, rt.broker, rt.uid):
                raise Refused
        except BaseException:
            s.close()
            raise
        self.socket = s

    def done(self):
        if self.socket:
            self.socket.close()

    def send(self, kind, body):
        self.id += 1
        self.socket.setblocking(False)
        self.socket.send(b"CENV" + number(1, 2) + number(kind, 2) + number(len(body), 4) + number(self.id, 4) + body, 0x4000)

    def answer(self, kind):
        """The body of the answer to the last message; after the deadline one more look is taken."""
        for _ in range(16):
            left = self.deadline - self.clock()
            if left > 0:
                self.socket.settimeout(left)
            else:
                self.socket.setblocking(False)
            try:
                data = self.socket.recv(65561)
            except OSError:
                if left <= 0:
                    raise
                continue
            if len(data) < 16 or data[:6] != b"CENV\1\0" or int.from_bytes(data[8:12], "little") != len(data) - 16:
                raise Refused
            if int.from_bytes(data[12:16], "little") != self.id:
                continue
            if int.from_bytes(data[6:8], "little") != kind:
                raise Refused
            return data[16:]
        raise Refused

    def ask(self, s):
        self.send(FETCH, number((1 if s.token else 0) + 2 * s.required, 4) + number(posix.getpid(), 4) + number(s.pidns, 8) + number(s.claim, 8)
                  + (s.token or bytes(64)) + number(len(s.exe), 2) + bytes(4) + s.exe)
        body = self.answer(ANSWER)
        digest, key = body[8:72], body[74:]
        if len(body) < 74 or int.from_bytes(body[72:74], "little") != len(key) or (key and not job_key_parse(key)):
            raise Refused
        if not digest.strip(b"\0"):
            return key, b""
        if not is_digest(digest):
            raise Refused
        return key, digest

    def get(self, digest, uid):
        text, total = b"", 1
        while len(text) < total:
            if self.clock() >= self.deadline:
                raise Refused
            self.send(GET, digest + number(len(text), 4))
            body = self.answer(DATA)
            total = int.from_bytes(body[:4], "little")
            if len(body) < 9 or total > SNAPSHOT_MAX or int.from_bytes(body[4:8], "little") != len(text):
                raise Refused
            text += body[8:]
        if sha256(text) != digest:
            raise Refused
        snap = snapshot_parse(text, uid)
        snap.digest = digest
        return snap

    def report(self, alone, digest, key, variables):
        entries = [bytes((v.state, 0)) + number(len(v.name), 2) + v.name for v in variables]
        flags = 1 if alone else 0
        room = 65536 - 90 - len(key)
        while sum(map(len, entries)) > room:
            flags |= 2
            del entries[len(entries) // 2:]
        self.send(REPORT, number(flags, 4) + bytes(12) + (digest or bytes(64)) + number(len(key), 2) + number(len(entries), 2)
                  + number(posix.getpid(), 4) + bytes(2) + key + b"".join(entries))


# --- client/start

def put_in_force(env, changes):
    for name, value in changes:
        if value is None:
            env.pop(name, None)
            posix.unsetenv(name)
        else:
            posix.putenv(name, value)
            env[name] = value


def is_secure():
    """Set-user-ID and the like: AT_SECURE of the auxiliary vector, which such a process may not read."""
    if posix.getuid() != posix.geteuid() or posix.getgid() != posix.getegid():
        return True
    try:
        auxv = read_proc("/proc/self/auxv")
    except FileNotFoundError:
        return False
    except OSError:
        return True
    for at in range(0, len(auxv) - 15, 16):
        if int.from_bytes(auxv[at:at + 8], "little") == 23:
            return auxv[at + 8:at + 16] != bytes(8)
    return False


def is_filtered():
    """A seccomp filter may kill who calls socket(2)."""
    try:
        status = read_proc("/proc/self/status", 1 << 20)
    except OSError:
        return True
    at = status.find(b"\nSeccomp:\t")
    return at < 0 or status[at + 10:at + 11] != b"0"


def load_any(rt, digest, fetch):
    try:
        return snapshot_load(rt, digest)
    except (OSError, Refused):
        if rt.snapshots is not None:
            raise
    except ValueError:  # damaged
        pass
    if rt.uid == 0 or not fetch.socket:
        raise Refused
    return fetch.get(digest, rt.uid)


def load_rules(rt):
    """None: they cannot be read, and then only the broker can tell. Where the tree is there and they are not yet (a unit early at
    boot), this job begins without variables, and keeps to that."""
    try:
        return assign_parse(runtime_read(rt, rt.fd, b"assign", ASSIGN_MAX))
    except FileNotFoundError:
        return assign_parse(NO_RULES) if rt.snapshots is not None else None
    except (OSError, Refused):
        return None


def obtain(rt, assign, subject, fetch):
    """Whether it was decided alone, the job's key, its snapshot; None where nobody can tell."""
    answer = snap = None
    if not is_filtered():
        try:
            fetch.open(rt)
            answer = fetch.ask(subject)
            snap = load_any(rt, answer[1], fetch) if answer[1] else None
        except (OSError, Refused, ValueError):
            answer = None
    alone = answer is None
    if alone:
        if not assign or subject.pid is None:
            return None
        answer = load("cudaenv_alone", reader=Bag(**globals())).decide(rt, assign, subject)
        snap = load_any(rt, answer[1], fetch) if answer[1] else None
    return alone, answer[0], snap


def obtain_required(rt, assign, subject, fetch, required):
    """A snapshot that CUDAENV_REQUIRE names goes before an inherited token. A rank digest may be that of what the job gets anyway."""
    digest = ranks_resolve(rt, required) if required is not None else None
    if digest and rt.uid == 0:
        try:
            snapshot_load(rt, digest)
        except (OSError, Refused, ValueError):
            digest = None  # root may not take it (scope user)
    if digest != required or required is None:
        answer = obtain(rt, assign, subject, fetch)
        if digest is None or (answer and answer[2] and ranks_met(rt, required, answer[2].digest)):
            return answer
    subject.token, subject.required = digest, True
    return obtain(rt, assign, subject, fetch)


def end_if_unmet(rt, assign, required, digest):
    if required is None or not assign or assign.mode != b"on" or not assign.mismatch_fails or ranks_met(rt, required, digest):
        return
    text = b"snapshot " + digest[:12] if digest else b"no snapshot"
    posix.write(2, b"cudaenv: CUDAENV_REQUIRE=" + required[:64] + b" is not to be had here: this job has " + text
                + b", and on_mismatch = fail\n")
    posix._exit(78)


def run(rt, env, fetch):
    assign = load_rules(rt)
    if assign and assign.mode == b"off":
        return
    required, digest = env.get(b"CUDAENV_REQUIRE"), b""
    try:
        answer = obtain_required(rt, assign, job_subject(rt, env), fetch, required)
        if not answer:
            return
        alone, key, snap = answer
        variables, changes = load("cudaenv_apply").apply(env, snap, rt.uid) if snap else ([], [])
        put_in_force(env, changes)
        digest = snap.digest if snap else b""
        if fetch.socket:
            fetch.report(alone, digest, key, variables)
    finally:
        end_if_unmet(rt, assign, required, digest)


def start(runtime_dir):
    """Gives this process the variables of its job. runtime_dir: a directory to look in first, or None."""
    env = posix.environ
    if is_secure() or env.get(b"CUDAENV_DISABLE") == b"1":
        return
    recorded = runtime_dir.encode(sys.getfilesystemencoding(), "surrogateescape") if runtime_dir is not None else None
    rt = runtime_find(recorded, env, posix.geteuid())
    if rt is None:
        return
    fetch = Fetch()
    try:
        run(rt, env, fetch)
    except (OSError, Refused, ValueError, IndexError):
        pass
    finally:
        fetch.done()
        runtime_done(rt)
