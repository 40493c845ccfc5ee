# SPDX-License-Identifier: MIT
"""The start hook in an interpreter: silent and harmless whatever is damaged, and every other sitecustomize runs as without it.

Most tests compare two starts of one interpreter tree, without the hook and with it: exit status, output and error output must
be equal to the byte.
"""
import itertools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest

import pythons
from node import CTL, clean_environ
from published import VARIABLES, Published

SHOW = "import json, os, sys; json.dump({n: os.environ[n] for n in %r if n in os.environ}, sys.stdout)" % list(VARIABLES)


class Hooked:
    """A copy of an interpreter tree, or a venv; its hook can be put in and taken out."""

    def __init__(self, root, python, kind):
        self.root, self.python, self.kind = root, python, kind
        self.published = Published(root / "run")
        self.published.assign(self.published.variables())
        if kind == "base":
            self.exe = pythons.copy_base(python, root / "python")
        else:
            self.exe = pythons.make_venv(python.exe, root / "python")
        self.library = next((root / "python/lib").glob("python3.*"))
        self.packages = self.library / "site-packages"
        self.directory = root / f"python/lib/python{python.xy.replace('.', '')}.zip" if kind == "base" else self.packages / "cudaenv_start"
        self.entry = "sitecustomize" if kind == "base" else "__init__"
        self.env = clean_environ(HOME=root / "home", PYTHONDONTWRITEBYTECODE=1)
        self.ctl("install")
        self.saved = root / "saved"
        self.saved.mkdir()
        for path in self.parts():
            shutil.move(path, self.saved / path.name)

    def ctl(self, *arguments):
        env = clean_environ(CUDAENV_RUNTIME_DIR=self.published.path)
        done = subprocess.run([CTL, "python", *arguments, "--python", self.exe], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def parts(self):
        beside = [] if self.kind == "base" else [self.packages / "00-cudaenv.start", self.packages / "00-cudaenv.pth"]
        return [self.directory, *beside]

    def fresh(self):
        """The hook as newly installed, whatever was there."""
        self.away()
        for path in self.parts():
            saved = self.saved / path.name
            shutil.copytree(saved, path) if saved.is_dir() else shutil.copy2(saved, path)

    def away(self):
        for path in self.parts():
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def start(self, *arguments, env=None, exe=None):
        done = subprocess.run([str(exe or self.exe), *arguments], env={**self.env, **(env or {})}, capture_output=True, timeout=60,
                              cwd=self.root)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def show(self, *flags, **more):
        code, out, err = self.start(*flags, "-c", SHOW, **more)
        assert (code, err) == (0, "")
        return json.loads(out)

    def compiled(self, name):
        return self.directory / "__pycache__" / f"{name}.cpython-{self.python.xy.replace('.', '')}.pyc"


def some():
    """Each version once; the oldest, the distribution's and the newest also as a venv."""
    chosen = {str(p): p for p in [pythons.ALL[0], pythons.ALL[-1], *(p for p in pythons.ALL if str(p).startswith("debian"))]}
    return [(p, "base") for p in pythons.ALL] + [(p, "venv") for p in chosen.values()]


@pytest.fixture(scope="module", params=[pytest.param(s, id=f"{s[0]}-{s[1]}") for s in some()])
def hooked(request):
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-", dir=pythons.MEMORY))
    root.chmod(0o755)
    yield Hooked(root, *request.param)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def fresh(hooked):
    hooked.fresh()
    yield hooked
    hooked.away()


# --- damage

def missing(path):
    path.unlink()


def empty(path):
    path.write_bytes(b"")


def half(path):
    os.truncate(path, path.stat().st_size // 2)


def one_block(path):
    os.truncate(path, min(4096, path.stat().st_size))


def garbage(path):
    path.write_bytes(b"\x00\xff garbage \n" * 300)


def directory(path):
    path.unlink()
    path.mkdir()


def dangling(path):
    path.unlink()
    path.symlink_to("/nowhere/at/all")


def fifo(path):
    path.unlink()
    os.mkfifo(path)


DAMAGES = [missing, empty, half, one_block, garbage, directory, dangling]
OTHER = "import sys\nsys.stdout.write('other ran\\n')\n"
PROGRAM = "import sys; print('program'); print('error', file=sys.stderr); sys.exit(7)"
UNHOOKED = (7, "other ran\nprogram\n", "error\n")


@pytest.fixture
def other(fresh):
    """A sitecustomize of somebody else, and the hook."""
    path = (fresh.library if fresh.kind == "base" else fresh.packages) / "sitecustomize.py"
    saved = path.read_bytes() if path.exists() else None
    if fresh.kind == "venv" and fresh.start("-c", "import sitecustomize")[0] == 0:
        pytest.skip("n/a: the base's own sitecustomize comes first")
    path.write_text(OTHER)
    yield fresh
    path.unlink()
    if saved is not None:
        path.write_bytes(saved)


def test_undamaged(other):
    assert other.start("-c", PROGRAM) == UNHOOKED


@pytest.mark.parametrize("file", ["entry source", "entry compiled", "reader source", "reader compiled", "manifest", "README", "all"])
def test_a_damaged_file(other, file):
    """What is left of it works or does nothing. Nothing can be done where source and compiled form of the very file that Python
    imports are both damaged: an invalid program is reported by Python, an empty one is found in place of the other."""
    h = other
    for damage in DAMAGES:
        if file == "all" and damage in (garbage, empty):
            continue
        h.fresh()
        files = {
            "entry source": [h.directory / f"{h.entry}.py"], "entry compiled": [h.compiled(h.entry)],
            "reader source": [h.directory / "cudaenv_reader.py"], "reader compiled": [h.compiled("cudaenv_reader")],
            "manifest": [h.directory / "manifest"], "README": [h.directory / "README"],
            "all": [f for f in h.directory.rglob("*") if f.is_file()],
        }[file]
        for f in files:
            damage(f)
        assert h.start("-c", PROGRAM) == UNHOOKED, damage


@pytest.mark.parametrize("cut", [0, 1, 15, 4096, 6144, 8192, 12287])
def test_a_compiled_entry_that_is_cut(other, cut):
    os.truncate(other.compiled(other.entry), cut)
    assert other.start("-c", PROGRAM) == UNHOOKED
    assert json.loads(other.start("-c", SHOW)[1].partition("\n")[2]) == VARIABLES


@pytest.mark.parametrize("cut", [4096, 6144, 8192, 12287])
def test_a_source_entry_that_is_cut(other, cut):
    """Without a compiled one, as in a tree of somebody else."""
    shutil.rmtree(other.directory / "__pycache__")
    os.truncate(other.directory / f"{other.entry}.py", cut)
    assert other.start("-c", PROGRAM) == UNHOOKED
    code, out, err = other.start("-c", SHOW)
    assert json.loads(out.partition("\n")[2]) == VARIABLES


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several uids")
@pytest.mark.parametrize("file", ["entry", "reader", "directory", "__pycache__"])
def test_unreadable_for_the_process(other, file):
    h = other
    if str(os.path.realpath(h.exe)).startswith("/root"):
        pytest.skip("n/a: another uid cannot run this interpreter")
    path = {"entry": h.directory / f"{h.entry}.py", "reader": h.directory / "cudaenv_reader.py", "directory": h.directory,
            "__pycache__": h.directory / "__pycache__"}[file]
    path.chmod(0)
    drop = ["/usr/bin/setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "/bin/sh", "-c", '"$@"; exit $?', "x"]
    probe = subprocess.run([*drop, str(h.exe), "-S", "-c", ""], env=h.env, capture_output=True, cwd="/")
    if probe.returncode != 0:
        pytest.skip("n/a: another uid cannot run this interpreter")
    done = subprocess.run([*drop, str(h.exe), "-c", PROGRAM], env=h.env, capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stdout, done.stderr) == UNHOOKED


def test_half_removed(other):
    """In the order in which the files could go."""
    h = other
    files = sorted(f for f in h.directory.rglob("*") if f.is_file())
    for order in (files, files[::-1]):
        h.fresh()
        for f in order:
            f.unlink()
            assert h.start("-c", PROGRAM) == UNHOOKED, f
    shutil.rmtree(h.directory)
    assert h.start("-c", PROGRAM) == UNHOOKED


# --- the extension

def redirect(h, extension):
    """Lets the hook look for its extension elsewhere, by a second installation's means: the recorded path, size and time."""
    text = (h.directory / f"{h.entry}.py").read_text()
    path = next(line for line in text.splitlines() if "posix.stat(" in line).split('"')[1]
    shutil.copy2(path, extension)
    for level in ("", ".opt-1", ".opt-2"):
        h.compiled(h.entry).with_suffix("").with_suffix("").with_name(
            f"{h.entry}.cpython-{h.python.xy.replace('.', '')}{level}.pyc").unlink()
    (h.directory / f"{h.entry}.py").write_text(text.replace(path, str(extension)))
    return extension


def keep_time(path, change):
    st = path.stat()
    change(path)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def flip(path):
    """The same size, another content."""
    data = bytearray(path.read_bytes())
    data[len(data) // 4:len(data) * 3 // 4] = bytes(len(data) // 2)
    path.write_bytes(data)


def machine(path):
    data = bytearray(path.read_bytes())
    data[18:20] = (0x28).to_bytes(2, "little")  # ARM
    path.write_bytes(data)


def text_file(path):
    path.write_text("not a shared object\n")


def touched(path):
    os.utime(path, ns=(1, 1))


def longer(path):
    """Another version: another size, whole."""
    with open(path, "ab") as f:
        f.write(b"\0" * 100)


def last_bytes(path):
    os.truncate(path, path.stat().st_size - 200)


@pytest.mark.parametrize("damage, extension", [
    (missing, False), (empty, False), (half, False), (one_block, False), (last_bytes, False), (garbage, False), (directory, False),
    (dangling, False), (flip, False), (machine, False), (text_file, False), (fifo, False), (touched, True), (longer, True)],
    ids=lambda d: getattr(d, "__name__", ""))
def test_a_damaged_extension(other, damage, extension):
    """The reader does its work; an intact other version of it is taken."""
    h = other
    damage(redirect(h, h.root / "extension.so"))
    code = "import sys; print(hasattr(sys.modules['_cudaenv'], 'start')); " + SHOW
    try:
        returned, out, err = h.start("-c", code)
        assert (returned, err) == (0, "")
        _, loaded, variables = out.split("\n", 2)
        assert json.loads(variables) == VARIABLES
        assert loaded == str(extension)
        assert h.start("-c", PROGRAM) == UNHOOKED
    finally:
        path = h.root / "extension.so"
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


@pytest.mark.parametrize("damage", [garbage, text_file, machine], ids=lambda d: d.__name__)
def test_an_extension_that_does_not_load_though_it_seems_the_same(other, damage):
    h = other
    path = redirect(h, h.root / "extension.so")
    size = path.stat().st_size
    keep_time(path, lambda p: (damage(p), os.truncate(p, size)))
    try:
        assert json.loads(h.start("-c", SHOW)[1].partition("\n")[2]) == VARIABLES
        assert h.start("-c", PROGRAM) == UNHOOKED
    finally:
        path.unlink()


# --- other people's sitecustomize

SITECUSTOMIZES = {
    "plain": "import sys\nprint('ran', __name__, __file__, sys.modules['sitecustomize'].__dict__ is globals())\n",
    "raises": "raise RuntimeError('broken')\n",
    "exits": "import sys\nsys.exit(3)\n",
    "exits with a text": "raise SystemExit('bye')\n",
    "interrupted": "raise KeyboardInterrupt\n",
    "base exception": "class Odd(BaseException):\n    pass\nraise Odd('x')\n",
    "in a function": "def f():\n    g()\ndef g():\n    raise SystemExit(4)\nf()\n",
    "syntax": "this is no python\n",
    "imports what is not there": "import nothing_of_that_name\n",
    "import error of its own name": "raise ImportError('x', name='sitecustomize')\n",
    "no text": b"\xff\xfe\x00",
    "replaces itself": "import sys, types\nsys.modules['sitecustomize'] = types.ModuleType('mine')\n",
    "deletes itself": "import sys\ndel sys.modules['sitecustomize']\n",
    "exits at once": "import os\nos._exit(5)\n",
    "a package": None,
}
REPORT = """
import sys
m = sys.modules.get('sitecustomize')
print('main', getattr(m, '__name__', None), getattr(m, '__file__', None), getattr(m, '__spec__', None) and m.__spec__.origin)
try:
    import sitecustomize
    print(sitecustomize is m)
except ImportError as e:
    print(e)
"""


@pytest.fixture(params=["library", "site-packages", "PYTHONPATH", "user site", "none"])
def somewhere(request, hooked):
    """A directory where a sitecustomize is found, and the environment for it."""
    env = {}
    if request.param == "library":
        if hooked.kind == "venv":
            pytest.skip("n/a: that is the base's")
        place = hooked.library
    elif request.param == "site-packages":
        place = hooked.packages
    elif request.param == "user site":
        xy = hooked.python.xy
        place = hooked.root / f"home/.local/lib/python{xy}/site-packages"
        place.mkdir(parents=True, exist_ok=True)
    else:
        place = hooked.root / "elsewhere"
        place.mkdir(exist_ok=True)
        if request.param == "PYTHONPATH":
            env["PYTHONPATH"] = str(place)
    saved = place / "sitecustomize.py"
    text = saved.read_bytes() if saved.exists() else None
    saved.unlink(missing_ok=True)
    yield place, env
    for name in ("sitecustomize.py", "sitecustomize"):
        path = place / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if text is not None:
        saved.write_bytes(text)


def test_same_as_without_us(hooked, somewhere):
    place, env = somewhere

    def starts():
        found = {}
        for kind, text in SITECUSTOMIZES.items():
            if text is None:
                (place / "sitecustomize.py").unlink()
                (place / "sitecustomize").mkdir(exist_ok=True)
                (place / "sitecustomize/__init__.py").write_text("from . import part\n")
                (place / "sitecustomize/part.py").write_text("print('part')\n")
            else:
                (place / "sitecustomize.py").write_bytes(text if isinstance(text, bytes) else text.encode())
            for flags in ([], ["-I"], ["-E"], ["-s"]) if kind == "plain" else ([],):
                found[kind, *flags] = hooked.start(*flags, "-c", REPORT, env=env)
        shutil.rmtree(place / "sitecustomize")
        return found
    hooked.away()
    without = starts()
    hooked.fresh()
    try:
        assert starts() == without
    finally:
        hooked.away()


def test_a_finder_that_was_installed_by_a_pth_file(hooked):
    """As editable installations do it: its sitecustomize is found with us as without."""
    h = hooked
    (h.packages / "finder.py").write_text("""
import importlib.machinery, importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "sitecustomize":
            return importlib.util.spec_from_file_location(name, __file__.replace("finder.py", "found_by_finder.py"))
sys.meta_path.append(Finder)
""")
    (h.packages / "found_by_finder.py").write_text("print('found by a finder')\n")
    (h.packages / "zz.pth").write_text("import finder\n")
    h.away()
    without = h.start("-c", REPORT)
    h.fresh()
    try:
        assert h.start("-c", REPORT) == without
    finally:
        for name in ("finder.py", "found_by_finder.py", "zz.pth"):
            (h.packages / name).unlink()
        h.away()


# --- what a program sees

def test_every_view_of_the_environment(fresh):
    code = """
import ctypes, json, os, posix, subprocess, sys
libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p
raw = subprocess.run(["/usr/bin/env", "-0"], stdout=subprocess.PIPE).stdout
env = dict(e.split(b"=", 1) for e in raw.split(b"\\0") if e)
assert env == dict(os.environb) == dict(posix.environ) == {os.fsencode(k): os.fsencode(v) for k, v in os.environ.items()}
assert all(libc.getenv(k) == v for k, v in env.items())
assert b"NCCL_ALGO" in env and b"CUDAENV_SNAPSHOT" in env
os.environ["NCCL_ALGO"] = "Tree"; del os.environ["NCCL_PROTO"]; os.environb[b"NEW\\xff"] = b"\\xfe"
assert libc.getenv(b"NCCL_ALGO") == b"Tree" and libc.getenv(b"NCCL_PROTO") is None and libc.getenv(b"NEW\\xff") == b"\\xfe"
raw = subprocess.run(["/usr/bin/env", "-0"], stdout=subprocess.PIPE).stdout
env = dict(e.split(b"=", 1) for e in raw.split(b"\\0") if e)
assert env == dict(os.environb) == dict(posix.environ)
print("equal")
"""
    assert fresh.start("-c", code, env={"BYTES": "\udcff\udc80", "EMPTY": ""}) == (0, "equal\n", "")


def test_what_stays_in_the_program(fresh):
    """One module that is not in anybody's way; nothing of the hook's own names, no open descriptor, no thread."""
    code = """
import sys
new = sorted(n for n in sys.modules if "cudaenv" in n or n == "sitecustomize")
print(new, [type(m).__name__ for n, m in sys.modules.items() if n in new])
import importlib
importlib.invalidate_caches()
try:
    import cudaenv_reader
except ImportError:
    print("gone")
import os
print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")))
"""
    fresh.start("-c", code)
    h = fresh
    got = h.start("-c", code)[1].splitlines()
    h.away()
    bare = h.start("-c", code)[1].splitlines()
    assert got[-1] == bare[-1]
    own = "['_cudaenv']" if h.kind == "base" else "['_cudaenv', 'cudaenv_start']"
    if "sitecustomize" in bare[0]:
        own = own.replace("]", ", 'sitecustomize']")
    assert got[0].startswith(own), got


class Counter(threading.Thread):
    """A broker that only counts who connects."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(path))
        self.socket.listen(20)
        self.count = 0
        self.start()

    def run(self):
        while True:
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            self.count += 1
            c.close()

    def stop(self, path):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.join()
        path.unlink()


def test_once_in_a_process(fresh):
    """A venv's .pth runs twice, and its base's hook may stand beside it."""
    h = fresh
    exes = [h.exe]
    if h.kind == "base":
        exes.append(pythons.make_venv(h.exe, h.root / "below"))
        env = clean_environ(CUDAENV_RUNTIME_DIR=h.published.path)
        assert subprocess.run([CTL, "python", "install", "--python", exes[1]], env=env, capture_output=True).returncode == 0
    path = h.published.path / "socket"
    for exe in exes:
        counter = Counter(path)
        assert h.show(exe=exe) == VARIABLES
        counter.stop(path)
        assert counter.count == 1, exe
    shutil.rmtree(h.root / "below", ignore_errors=True)


def test_a_frozen_broker(fresh):
    """It accepts nothing and answers nothing."""
    path = fresh.published.path / "socket"
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(str(path))
    s.listen(0)
    try:
        for _ in range(3):  # the queue is full after the first
            assert fresh.show() == VARIABLES
    finally:
        s.close()
        path.unlink()


def test_sub_interpreters(fresh):
    """Of the kinds that this version has; in one of their own lock the extension is refused."""
    code = """
import sys
for name in ("_interpreters", "_xxsubinterpreters"):
    try:
        module = __import__(name)
        break
    except ImportError:
        module = None
show = 'import os, sys; sys.stdout.write(os.environ["NCCL_ALGO"] + "\\\\n"); sys.stdout.flush()'
kinds = [[], ["isolated"], ["legacy"]] if module and name == "_interpreters" else [[]] if module else []
for kind in kinds:
    run = getattr(module, "run_string", None)
    one = module.create(*kind)
    error = run(one, show)
    assert error is None, error
    module.destroy(one)
print("done", len(kinds))
"""
    code, out, err = fresh.start("-c", code)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    n = int(lines.pop().split()[1])
    assert lines == ["Ring"] * n


def test_starts_while_it_is_installed_and_removed(hooked):
    """An interpreter that starts meanwhile has its variables or not, and says nothing."""
    h = hooked
    h.away()
    stop, seen = threading.Event(), []

    def starts():
        while not stop.is_set():
            seen.append(h.start("-c", "import os; print(os.environ.get('NCCL_ALGO'))"))
    threads = [threading.Thread(target=starts) for _ in range(2)]
    for t in threads:
        t.start()
    for number in range(6):
        h.ctl("install")
        if number % 3 == 1:  # an older one, to be exchanged
            manifest = h.directory / "manifest"
            manifest.write_text(manifest.read_text().replace("version ", "version 0."))
            h.ctl("install")
        if number % 2:
            h.ctl("remove")
    stop.set()
    for t in threads:
        t.join()
    h.away()
    # A start that has found the file and not yet read it when it goes says so, whoever takes it away; it runs on.
    late = [s for s in seen if s[:2] == (0, "None\n") and "FileNotFoundError" in s[2] and str(h.directory) in s[2]]
    assert len(late) <= 1 and set(seen) - set(late) <= {(0, "Ring\n", ""), (0, "None\n", "")}, set(seen)


@pytest.mark.parametrize("error, heard", [
    ("KeyboardInterrupt", True), ("SystemExit(9)", False), ("MemoryError", False), ("RecursionError", False), ("OSError", False)])
def test_what_is_raised_inside_the_hook(fresh, error, heard):
    """Ctrl-C belongs to whoever pressed it; nothing else that goes wrong in the hook is anybody's concern."""
    h = fresh
    (h.packages / "interferes.py").write_text(f"""
import posix
stat = posix.stat
def interfere(path, *more, **most):
    if str(path).endswith("_cudaenv.abi3.so"):
        raise {error}
    return stat(path, *more, **most)
posix.stat = interfere
""")
    (h.packages / "00-a.pth").write_text("import interferes\n")
    try:
        if h.start("-S", "-c", f"import site; print({str(h.packages)!r} in site.getsitepackages())")[1] != "True\n":
            pytest.skip("n/a: this interpreter reads no .pth file there")
        code, out, err = h.start("-c", "print('ran')")
        if heard:
            assert code != 0 and out == "" and "KeyboardInterrupt" in err
        else:
            assert (code, out, err) == (0, "ran\n", "")
    finally:
        (h.packages / "00-a.pth").unlink()
        (h.packages / "interferes.py").unlink()


@pytest.mark.parametrize("flags", list(itertools.chain([[]], [["-O"], ["-OO"], ["-B"], ["-W", "error"], ["-X", "dev"], ["-b"]])), ids=str)
def test_flags(fresh, flags):
    """-W error and -X dev make warnings of ours visible, if there were any."""
    assert fresh.show(*flags) == VARIABLES


@pytest.mark.parametrize("flags", [["-W", "error"], ["-X", "dev"]], ids=str)
def test_flags_with_the_reader(fresh, flags):
    path = redirect(fresh, fresh.root / "extension.so")
    path.unlink()
    assert fresh.show(*flags) == VARIABLES
