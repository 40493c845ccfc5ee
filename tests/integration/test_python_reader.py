# SPDX-License-Identifier: MIT
"""The pure Python reader against the extension: the same directory, the same environment, the same answer.

Both are started below one shell, so that they belong to one job; each has its own copy of the published files, so that the links
they make can be compared as well.
"""
import hashlib
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest

import pythons
from node import PREFIX, SRC, clean_environ
from published import Published

EXTENSION = PREFIX / "lib/cudaenv/python/_cudaenv.abi3.so"
PYPY = shutil.which("pypy3")
# A program that starts as the hook does, with the one or the other, and says what it then has in its environment.
DRIVER = """
import posix, sys
before = dict(posix.environ)
def load(name, **names):
    module = type(sys)(name)
    module.__dict__.update(names, load=load)
    with open(%r + "/" + name + ".py") as f:
        exec(compile(f.read(), name, "exec"), module.__dict__)
    return module
if sys.argv[1] == "extension":
    import _imp
    hook = _imp.create_dynamic(type(sys.__spec__)("_cudaenv", None, origin=%r))
    _imp.exec_dynamic(hook)
else:
    hook = load("cudaenv_reader")
hook.start(sys.argv[2])
after = dict(posix.environ)
import subprocess
block = dict(e.split(b"=", 1) for e in subprocess.run(["/usr/bin/env", "-0"], stdout=subprocess.PIPE).stdout.split(b"\\0") if e)
assert block == after, (block, after)
show = lambda v: None if v is None else v.decode("latin-1")
import json
json.dump({show(n): show(after.get(n)) for n in set(before) | set(after) if before.get(n) != after.get(n)}, sys.stdout)
print(flush=True)
""" % (str(SRC / "client/python"), str(EXTENSION))


def interpreters():
    """Those that read: the oldest and the newest CPython, and PyPy. The extension is that of the newest."""
    found = [str(p.exe) for p in (pythons.ALL[:1] + pythons.ALL[-1:])]
    return found + ([PYPY] if PYPY else [])


class Pair:
    """Two equal directories and what each way makes of them."""

    def __init__(self, root):
        self.root = root
        self.driver = root / "driver.py"
        self.driver.write_text(DRIVER)
        (root / "cron").symlink_to("/bin/sh")
        self.n = 0

    def start(self, build, env=None, ways=None, uid=None, pins="", below=""):
        """build(Published) writes the files. Returns what changed in the environment and the links; all ways must agree on both.

        ways: interpreters, the first for the extension. pins: a shell command, run as the test's own user for each directory $d
        before the start, with the job's $key. below: a command that the job's shell is started by.
        """
        self.n += 1
        ways = ways or [str(pythons.ALL[-1].exe)] + interpreters()
        ways = list(zip(["extension"] + ["reader"] * len(ways), ways))
        directories = []
        for i in range(len(ways)):
            p = Published(self.root / f"{self.n}.{i}")
            build(p)
            directories.append(p)
        lines = "read go\n" + "".join(f"{exe} -S {self.driver} {way} {p.path} || exit 1\n" for (way, exe), p in zip(ways, directories))
        user = f"/usr/bin/setpriv --reuid={uid} --regid={uid} --clear-groups" if uid else below
        # The shell below the process named cron is the job's root: one job for all ways.
        script = f"""
/usr/bin/mkfifo go; {user} /bin/sh -c "$1" <go & pid=$!; exec 9>go
set -- $(/usr/bin/cat /proc/$pid/stat)
ns=$(/usr/bin/stat -Lc %i /proc/self/ns/pid); key=tree-{os.geteuid() if uid is None else uid}-$ns-$pid-${{22}}
export PATH=/usr/bin:/bin
for d in {self.root}/{self.n}.*; do {pins or ':'}; done
echo go >&9; wait $pid"""
        (self.root / "go").unlink(missing_ok=True)
        keep = "" if env is None or "PATH" in env else "unset PATH\n"
        done = subprocess.run([str(self.root / "cron"), "-c", script, "cron", keep + lines + "exit 0"],
                              env=clean_environ() if env is None else env, capture_output=True, timeout=120, cwd=self.root)
        assert (done.returncode, done.stderr) == (0, b""), (ways, done.stderr.decode())
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        links = [self.links(p) for p in directories]
        for way, answer, link in list(zip(ways, answers, links))[1:]:
            assert answer == answers[0], (way, answer, answers[0])
            assert link == links[0], (way, link, links[0])
        return answers[0], links[0]

    @staticmethod
    def links(p):
        """Pins by key, and the keys of processes; a key that names the process itself is "own", for it differs."""
        links = p.links()
        own = {"-".join(t.split("-")[2:]): t for n, t in links.items() if n.startswith("procs/") and t.endswith(n[6:])}
        names = {t: "own" for t in own.values()}
        pins = {names.get(n[5:], n[5:]): t for n, t in links.items() if n.startswith("jobs/")}
        return pins, sorted({names.get(t, t) for n, t in links.items() if n.startswith("procs/")})


@pytest.fixture(scope="module")
def pair():
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-"))
    root.chmod(0o755)
    yield Pair(root)
    shutil.rmtree(root, ignore_errors=True)


def published(default="none", mode="on", rules=(), **more):
    """A builder: `default` may be variables."""
    def build(p):
        digest = p.variables(default) if isinstance(default, dict) else default
        p.assign(digest, mode, [r.format(other=p.variables({"NCCL_ALGO": "Tree"}, "other")) for r in rules], **more)
    return build


ONE = {"NCCL_ALGO": "Ring"}


def test_default_is_pinned_and_registered(pair):
    changes, (pins, keys) = pair.start(published(ONE))
    assert changes["NCCL_ALGO"] == "Ring" and changes["CUDAENV_PROFILE"] == "p"
    assert len(pins) == 1 and len(keys) == 1
    assert list(pins) == [keys[0]] and list(pins.values()) == [changes["CUDAENV_SNAPSHOT"]]
    assert keys[0].startswith(f"tree-{os.geteuid()}-")


@pytest.mark.parametrize("mode, pinned", [("off", []), ("observe", ["none"])])
def test_modes(pair, mode, pinned):
    changes, (pins, _) = pair.start(published(ONE, mode))
    assert (changes, list(pins.values())) == ({}, pinned)


@pytest.mark.parametrize("rules, tree", [
    (["rule a {other}", "when uid %d" % os.geteuid()], True),
    (["rule a {other}", "when uid 54321"], False),
    (["rule a {other}", "when gid %d" % os.getegid(), "when gid 54321"], True),
    (["rule a {other}", "when gid 54321", "when uid %d" % os.geteuid()], False),
    (["rule a {other}", "when exe /*/p[!0-9]*"], True),
    (["rule a {other}", r"when exe /*\p[a-y]*"], True),
    (["rule a {other}", "when exe /*[]x]"], False),
    (["rule a {other}", "when exe *[z*"], False),
    (["rule a {other}", "when unit *"], None),
    (["rule a {other}", "when cgroup *"], None),
    (["rule a none", "when uid 54321", "rule b {other}"], True),
    (["rule a {other}", "until 1000000000"], False),
    (["rule a {other}", "until 32503680000", "when uid %d" % os.geteuid()], True),
    (["rule a none", "until 1", "when uid %d" % os.geteuid(), "rule b {other}", "until 9223372036854775807"], True),
    (["rule a {other}", "until 0"], False),
])
def test_rules(pair, rules, tree):
    changes, _ = pair.start(published(ONE, rules=rules))
    if tree is not None:
        assert changes["NCCL_ALGO"] == ("Tree" if tree else "Ring")


@pytest.mark.parametrize("pattern", ["sh", "s?", "[r-t]h", "*", "nothing"])
def test_boundaries(pair, pattern):
    _, (_, keys) = pair.start(published(ONE, boundaries=["cron", pattern] if pattern != "*" else ["*"]))
    assert len(keys) == 1 and (keys == ["own"]) == (pattern != "nothing")


def test_supervisors_and_units_are_read_alike(pair):
    pair.start(published(ONE, supervisors=["*"]))


def with_token(unpublished=False):
    """A builder that publishes the default and another snapshot, and the environment that carries a token."""
    def build(p):
        default, other = p.variables(ONE), p.variables({"NCCL_ALGO": "Tree"}, "other")
        p.assign(default)
        if unpublished:
            (p.path / "snapshots" / other).unlink()
    return build


def token(name):
    text = {"other": "cudaenv-snapshot 1\nprofile other\nscope any\ndefault NCCL_ALGO=Tree\n",
            "default": "cudaenv-snapshot 1\nprofile p\nscope any\ndefault NCCL_ALGO=Ring\n"}[name]
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("value, algo, dot", [
    (token("other"), "Tree", True), (token("default"), "Ring", True), ("0" * 64, "Ring", False), ("nonsense", "Ring", False)])
def test_tokens(pair, value, algo, dot):
    changes, (pins, _) = pair.start(with_token(), clean_environ(CUDAENV_SNAPSHOT=value))
    assert changes["NCCL_ALGO"] == algo
    assert ["." in n for n in pins] == [dot]


def test_unpublished_token_does_not_count(pair):
    changes, _ = pair.start(with_token(unpublished=True), clean_environ(CUDAENV_SNAPSHOT=token("other")))
    assert changes["NCCL_ALGO"] == "Ring"


@pytest.mark.parametrize("text, algo, inherited", [
    ("none", None, None),
    (token("other"), "Tree", None),
    (f"{token('other')} {token('default')}", "Tree", "default"),
    (f"none {token('other')}", None, "other"),
    (token("default"), "Tree", "other"),
    ("none  " + token("other"), "Ring", None),
])
def test_a_pin_and_its_former_ones_decide(pair, text, algo, inherited):
    env = clean_environ(**({"CUDAENV_SNAPSHOT": token(inherited)} if inherited else {}))
    changes, _ = pair.start(with_token(), env, pins=f"ln -s '{text}' $d/jobs/$key")
    assert changes.get("NCCL_ALGO") == algo


def test_a_registered_ancestor_decides(pair):
    """The shell is registered as a member of another job, whose pin is another snapshot."""
    changes, (_, keys) = pair.start(with_token(), pins=f"""
ln -s tree-{os.geteuid()}-$ns-1-1 $d/procs/${{key#tree-{os.geteuid()}-}}; ln -s {token('other')} $d/jobs/tree-{os.geteuid()}-$ns-1-1""")
    assert changes["NCCL_ALGO"] == "Tree"
    assert len(keys) == 1


def users_interpreters():
    """Those that an ordinary user can run, for the extension and the reader."""
    exes = [str(p.exe) for p in pythons.ALL] + ([PYPY] if PYPY else [])
    drop = ["/usr/bin/setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    usable = [e for e in exes if os.geteuid() == 0 and subprocess.run(
        [*drop, "/bin/sh", "-c", '"$0" -S -c ""; exit $?', e], capture_output=True, env=clean_environ(), cwd="/").returncode == 0]
    if not usable or usable[0] == PYPY:
        pytest.skip("no interpreter that another uid can run, or no other uid")
    return usable[:1] + usable


@pytest.mark.parametrize("uid", [None, 12345])
@pytest.mark.parametrize("taken", [1, 2, 4])
def test_strangers_links_are_not_believed(pair, uid, taken):
    """Root takes them away, others step over them; where all names are taken nothing is pinned."""
    ways = users_interpreters()
    names = " ".join(["$d/jobs/$key", "$d/jobs/$key~1", "$d/jobs/$key~2", "$d/jobs/$key~3"][:taken])
    steal = f"for n in {names}; do ln -s none $n; chown -h 54321 $n; done; ln -s tree-{uid or 0}-1-1-1 $d/procs/${{key#tree-{uid or 0}-}}; " \
            f"chown -h 54321 $d/procs/${{key#tree-{uid or 0}-}}"
    changes, (pins, _) = pair.start(published(ONE), ways=ways, uid=uid, pins=steal)
    assert changes["NCCL_ALGO"] == "Ring"
    assert sorted(pins.values()).count(changes["CUDAENV_SNAPSHOT"]) == (taken < 4 or uid is None)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs namespaces")
@pytest.mark.parametrize("below", ["--cgroup", "--user --map-root-user", "--user", "--user --map-user=5 --map-group=5",
                                   "--pid --fork", "--pid --fork --mount-proc", "--pid --fork --user --map-root-user --mount-proc",
                                   "--cgroup --user --map-root-user --pid --fork --mount-proc"])
@pytest.mark.parametrize("node", [False, True])
def test_namespaces(pair, below, node):
    """Where numbers of processes and users, and roots of cgroups, are others than the node's."""
    if subprocess.run(["unshare", *below.split(), "true"], capture_output=True).returncode != 0:
        pytest.skip("not allowed here")

    def build(p):
        p.assign(p.variables(ONE), rules=["rule a none", "when cgroup /nothing/of/that/name"])
        if node:
            (p.path / "jobs/.node").symlink_to("cgroupns %d userns %d" % tuple(os.stat(f"/proc/self/ns/{n}").st_ino for n in ("cgroup", "user")))
    pair.start(build, below="/usr/bin/unshare " + below)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several uids")
def test_a_users_private_group_on_the_way(pair):
    """umask 002 of a login session; another group's is not believed, and for root none is."""
    ways = users_interpreters()
    for group, uid, believed in ((12345, 12345, True), (54321, 12345, False), (0, None, False)):
        root = pair.root / f"way-{group}-{uid}"
        root.mkdir()
        inner = Pair(root)
        os.chown(root, uid or 0, group)
        root.chmod(0o775)
        changes, _ = inner.start(published(ONE), ways=ways, uid=uid)
        assert bool(changes) is believed, (group, uid)


def test_early_at_boot(pair):
    """The tree is there and its rules are not yet: the job begins without variables, and keeps to that."""
    changes, (pins, _) = pair.start(lambda p: p.variables(ONE))
    assert (changes, list(pins.values())) == ({}, ["none"])


def cut(p):
    digest = p.variables(ONE)
    p.assign(digest)
    os.truncate(p.path / "snapshots" / digest, 20)


def forged(p):
    digest = p.variables(ONE)
    p.assign(digest)
    file = p.path / "snapshots" / digest
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b"Ring", b"Tree"))


def writable(p):
    digest = p.variables(ONE)
    p.assign(digest)
    (p.path / "snapshots" / digest).chmod(0o466)


def fifo(p):
    digest = p.variables(ONE)
    p.assign(digest)
    (p.path / "snapshots" / digest).unlink()
    os.mkfifo(p.path / "snapshots" / digest)


def fifo_assign(p):
    os.mkfifo(p.path / "assign")


def link_snapshot(p):
    digest = p.variables(ONE)
    p.assign(digest)
    file = p.path / "snapshots" / digest
    file.rename(p.path / "elsewhere")
    file.symlink_to(p.path / "elsewhere")


def open_directory(p):
    p.assign(p.variables(ONE))
    p.path.chmod(0o777)


def open_snapshots(p):
    p.assign(p.variables(ONE))
    (p.path / "snapshots").chmod(0o1777)


def no_sticky_jobs(p):
    p.assign(p.variables(ONE))
    (p.path / "jobs").chmod(0o777)


def user_scope(p):
    p.assign(p.snapshot("cudaenv-snapshot 1\nprofile p\nscope user\ndefault NCCL_ALGO=Ring\n"))


def no_assign(p):
    p.variables(ONE)


@pytest.mark.parametrize("build", [
    cut, forged, writable, fifo, fifo_assign, link_snapshot, open_directory, open_snapshots, no_sticky_jobs, no_assign,
    published(ONE, end=""), published(ONE, end="en"), published(ONE, end="end"), published(ONE, rules=["nonsense"]),
    published("0" * 64), published("nonsense"), published(ONE, "sideways")],
    ids=lambda b: b.__name__)
def test_what_is_damaged_is_not_applied(pair, build):
    changes, _ = pair.start(build)
    assert changes == {}


def test_scope_user(pair):
    changes, _ = pair.start(user_scope)
    assert (changes == {}) == (os.geteuid() == 0)


def test_without_jobs_and_procs(pair):
    def build(p):
        p.assign(p.variables(ONE))
        for d in ("jobs", "procs"):
            (p.path / d).rmdir()
            (p.path / d).write_text("")
            (p.path / d).unlink()
            (p.path / d).mkdir(0o1777)
    changes, _ = pair.start(build)
    assert changes["NCCL_ALGO"] == "Ring"


def test_disabled(pair):
    changes, (pins, keys) = pair.start(published(ONE), clean_environ(CUDAENV_DISABLE="1"))
    assert (changes, pins, keys) == ({}, {}, [])


# --- apply

RICH = """cudaenv-snapshot 1
profile rich
scope any
toolkit {force} {root}
append APPENDED=/x:/y
together toolkit CUDA_HOME={root}
default D=1
force F=1
append LD_LIBRARY_PATH=/l
default MALLOC_ARENA_MAX=2
together nccl NCCL_ALGO=Ring
together nccl NCCL_PROTO=LL
together toolkit PATH={root}/bin
prepend PATH=/p:/usr/bin
append PATH=/q
prepend PREPENDED=/x:/y:/x
append PREPENDED=/x:/z
default PYTHONHASHSEED=0
unset U
"""


def rich(root="/usr", force="default"):
    def build(p):
        p.assign(p.snapshot(RICH.format(root=root, force=force)))
    return build


def fnv(value):
    h = 2166136261
    for c in value.encode():
        h = (h ^ c) * 16777619 & 0xffffffff
    return h >> 16 ^ h & 0xffff


ENVIRONMENTS = [
    {},
    {"NCCL_ALGO": "Tree", "CUDA_HOME": "/elsewhere", "D": "2", "F": "2", "U": "2"},
    {"NCCL_ALGO": "Ring", "CUDA_HOME": "/usr", "D": "1", "F": "1"},
    {"PATH": "", "APPENDED": "", "PREPENDED": "/y:/a:/y", "D": "", "U": ""},
    {"PATH": "/q:/usr/bin:/bin", "APPENDED": ":/y:", "PREPENDED": "/x"},
    {"CUDAENV_APPLIED": f"D:{fnv('7'):04x},F:{fnv('8'):04x},GONE:{fnv('9'):04x},PATH:{fnv('/old:/bin:/new'):04x}:1:1",
     "CUDAENV_SNAPSHOT": "0" * 64, "D": "7", "F": "7", "GONE": "9", "PATH": "/old:/bin:/new"},
    {"CUDAENV_APPLIED": f"PREPENDED:{fnv('/a'):04x}:1:0,LD_LIBRARY_PATH:{fnv('/o'):04x}:1:0,nonsense,D:zzzz,CUDAENV_X:0000",
     "PREPENDED": "/a", "LD_LIBRARY_PATH": "/o"},
    {"CUDAENV_APPLIED": "", "D": "9"},
    {"CUDAENV_APPLIED": ",", "D": "9"},
    {"PREPENDED": "/" + "x" * 131000},
]


@pytest.mark.parametrize("number", range(len(ENVIRONMENTS)))
@pytest.mark.parametrize("root, force", [("/usr", "default"), ("/usr", "force"), ("/nowhere", "force")])
def test_apply(pair, number, root, force):
    env = clean_environ(**ENVIRONMENTS[number])
    changes, _ = pair.start(rich(root, force), env, ways=[str(pythons.ALL[-1].exe), interpreters()[-1]])
    assert changes.get("CUDAENV_PROFILE", "rich") == "rich"


def test_apply_as_a_user(pair):
    """The toolkit's PATH is for others than root."""
    changes, _ = pair.start(rich(), clean_environ(PATH="/bin"), ways=users_interpreters(), uid=12345)
    assert changes["PATH"] == "/usr/bin:/p:/bin:/q"


def test_kept_below_a_process_that_had_it(pair):
    digest = None

    def build(p):
        nonlocal digest
        digest = p.snapshot(RICH.format(root="/usr", force="default"))
        p.assign(digest)
    pair.start(build)
    env = clean_environ(CUDAENV_SNAPSHOT=digest, CUDAENV_APPLIED=f"D:{fnv('1'):04x},NCCL_ALGO:{fnv('Ring'):04x}", F="mine", U="here")
    changes, _ = pair.start(build, env)
    assert changes == {}


def random_case(seed):
    """A snapshot and an environment that may meet in any way."""
    r = random.Random(seed)
    names = ["A", "B", "C", "D", "LD_X", "PATH", "Z9"]
    values = ["", "1", "2", "/a", "/a:/b", ":/b", "/b::/a", "a=b", "x y\t", "é"]
    lines = []
    toolkit = r.random() < 0.5
    for n in names:
        kind = r.choice(["", "default", "force", "unset", "together g", "together h", "lists"] + ["together toolkit"] * toolkit)
        v = r.choice(values)
        if kind == "unset":
            lines.append(f"unset {n}")
        elif kind == "lists" or (kind == "together toolkit" and n == "PATH" and r.random() < 0.5):
            if kind != "lists":
                lines.append(f"together toolkit {n}={v}")
            rules = [k for k in ("prepend", "append") if r.random() < 0.7]
            lines += [f"{k} {n}={r.choice(values)}" for k in rules]
        elif kind:
            lines.append(f"{kind} {n}={v}")
    head = "cudaenv-snapshot 1\nprofile p\nscope any\n"
    if toolkit:
        head += f"toolkit {r.choice(['default', 'force'])} {r.choice(['/usr', '/nowhere'])}\n"
    env = {n: r.choice(values) for n in names + ["OTHER"] if r.random() < 0.5}
    marks = []
    for n in names + ["OTHER"]:
        if r.random() < 0.5:
            h = fnv(env.get(n, "")) if r.random() < 0.7 else r.randrange(65536)
            marks.append(f"{n}:{h:04x}" + r.choice(["", "", ":1:0", ":0:1", ":2:3", ":x:1"]))
    if r.random() < 0.7:
        env["CUDAENV_APPLIED"] = ",".join(marks)
    if r.random() < 0.4:
        env["CUDAENV_SNAPSHOT"] = r.choice(["own", "0" * 64])
    return head + "".join(line + "\n" for line in lines), env


@pytest.mark.parametrize("block", range(8))
def test_random_environments(pair, block):
    for seed in range(block * 10, block * 10 + 10):
        text, env = random_case(seed)

        def build(p):
            p.assign(p.snapshot(text))

        if env.get("CUDAENV_SNAPSHOT") == "own":
            env["CUDAENV_SNAPSHOT"] = hashlib.sha256(text.encode()).hexdigest()
        # env(1) and the interpreters are named by absolute paths: PATH may be anything.
        pair.start(build, {**env, "LC_ALL": "C.UTF-8"}, ways=[str(pythons.ALL[-1].exe), interpreters()[-1]])


# --- the socket

@pytest.mark.parametrize("name, required", [("fetch", False), ("fetch-required", True)])
def test_question_has_the_golden_bytes(name, required):
    """As tests/data/wire/ has them for the C client."""
    code = f"""
import sys, types
{DRIVER.split('if sys.argv')[0]}
reader = load("cudaenv_reader")
class Socket:
    def setblocking(self, flag): pass
    def send(self, data, flags): sys.stdout.buffer.write(data)
class Fetch(reader.Fetch):
    def __init__(self): self.socket, self.id = Socket(), 0
    def answer(self, kind): raise SystemExit
want = open({str(SRC / f'tests/data/wire/{name}.bin')!r}, "rb").read()
import posix
posix.getpid = lambda: int.from_bytes(want[20:24], "little")
s = reader.Bag(token=want[40:104], pidns=int.from_bytes(want[24:32], "little"), claim=0, exe=want[110:], required={required})
Fetch().ask(s)
"""
    for exe in interpreters():
        done = subprocess.run([exe, "-S", "-c", code], capture_output=True, env=clean_environ())
        assert done.stdout == (SRC / f"tests/data/wire/{name}.bin").read_bytes(), done.stderr.decode()


@pytest.mark.parametrize("exe", interpreters())
def test_answers_of_a_live_broker(pcie8, exe):
    """The broker's word is taken, and its report makes the process one that `workers` shows."""
    driver = pcie8.root / "driver.py"
    driver.write_text(DRIVER + "input()\n")
    job = subprocess.Popen(pcie8.new_job([exe, "-S", str(driver), "reader", str(pcie8.run)]), stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environ(), text=True)
    changes = json.loads(job.stdout.readline())
    workers = pcie8.json("workers", ok=None)["processes"]
    job.communicate("\n", timeout=60)
    assert changes["NCCL_ALGO"] == "Ring"
    assert [w["profile"] for w in workers] == ["pcie8"]


@pytest.mark.parametrize("answer", [b"", b"x", b"CENV" + bytes(12), b"CENV\1\0\2\0" + (74).to_bytes(4, "little") + b"\1\0\0\0" + b"\xff" * 74],
                         ids=["closes", "garbage", "cut", "nonsense"])
def test_a_strange_broker_changes_nothing(pair, answer):
    """Both decide by the files."""
    sockets = []

    def build(p):
        p.assign(p.variables(ONE))
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind(str(p.path / "socket"))
        s.listen(5)
        sockets.append(s)
    def serve(s):
        c, _ = s.accept()
        c.recv(65536)
        if answer:
            c.send(answer)
        c.close()
    real_build, threads = build, []

    def serving(p):
        real_build(p)
        threads.append(threading.Thread(target=serve, args=(sockets[-1],), daemon=True))
        threads[-1].start()
    changes, (pins, _) = pair.start(serving)
    assert changes["NCCL_ALGO"] == "Ring" and len(pins) == 1
    for s in sockets:
        s.close()


# --- CUDAENV_REQUIRE

RANK = "ab" * 32
TREE = {"NCCL_ALGO": "Tree"}


def requiring(required, default=ONE, ranks=None, mode="on"):
    """A builder with the snapshots ONE and TREE, and links in ranks/ whose names and texts may be "one", "tree" or a digest."""
    def build(p):
        named = {"one": p.variables(ONE), "tree": p.variables(TREE)}
        p.ranks(**{named.get(n, n): named.get(t, t) for n, t in (ranks or {}).items()})
        p.assign(p.variables(default) if default else "none", mode)
    return build


def required_environ(required):
    named = {"tree": hashlib.sha256(b"cudaenv-snapshot 1\nprofile p\nscope any\ndefault NCCL_ALGO=Tree\n").hexdigest()}
    return clean_environ(CUDAENV_REQUIRE=named.get(required, required))


@pytest.mark.parametrize("required, ranks, algo", [
    ("tree", {}, "Tree"),                                             # a snapshot's digest
    (RANK, {"tree": RANK, RANK: "tree"}, "Tree"),                     # a rank digest
    (RANK, {"one": RANK, "tree": RANK, RANK: "tree"}, "Ring"),        # that the default has too
    (RANK, {}, "Ring"), ("f" * 64, {}, "Ring"), ("", {}, "Ring"),     # not here, or no digest
    ("TREE", {}, "Ring"), ("../assign", {}, "Ring"), (RANK[:-1], {RANK: "tree"}, "Ring"),
    (RANK, {RANK: "0" * 64}, "Ring"), (RANK, {RANK: "../assign"}, "Ring"), (RANK, {"tree": "x", RANK: "tree"}, "Tree"),
])
def test_require(pair, required, ranks, algo):
    changes, (pins, keys) = pair.start(requiring(required, ranks=ranks), env=required_environ(required))
    assert changes["NCCL_ALGO"] == algo
    assert changes["CUDAENV_SNAPSHOT"] in pins.values()


def test_required_in_modes_that_set_nothing(pair):
    for mode in "off", "observe":
        assert pair.start(requiring("tree", mode=mode), env=required_environ("tree"))[0] == {}


def test_require_in_a_job_that_has_another(pair):
    """It asks for exactly that: the job goes on with what it has, and this is one beside it."""
    changes, (pins, keys) = pair.start(requiring("tree"), env=required_environ("tree"),
                                       pins='/usr/bin/ln -s $(/usr/bin/sed -n "s/default //p" $d/assign) $d/jobs/$key')
    assert changes["NCCL_ALGO"] == "Tree" and len(pins) == 2
    assert all(key.endswith("." + changes["CUDAENV_SNAPSHOT"]) for key in keys)


def test_ranks_of_others_are_not_believed(pair):
    def build(p):
        requiring(RANK, ranks={"tree": RANK, RANK: "tree"})(p)
        (p.path / "ranks").chmod(0o777)
    assert pair.start(build, env=required_environ(RANK))[0]["NCCL_ALGO"] == "Ring"
