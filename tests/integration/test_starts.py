# SPDX-License-Identifier: MIT
"""Interpreter starts, as users meet them: every CPython of the machine, as a base (on a copy of its tree) and as a venv.

Each test is one line of the list of starts that the project was founded on: what is started, how, and what it must have.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import textwrap

import pytest

import pythons
from conftest import PCIE8, SRC, Node, clean_environ, wait_until

NAMES = list(PCIE8)
# Prints the eight variables as os.environ, os.environb and the C library have them.
SHOW = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p
names = %r
one = {n: os.environ[n] for n in names if n in os.environ}
two = {n: os.environb[n.encode()].decode() for n in names if n.encode() in os.environb}
three = {n: libc.getenv(n.encode()).decode() for n in names if libc.getenv(n.encode()) is not None}
assert one == two == three, (one, two, three)
json.dump(one, sys.stdout)
""" % NAMES


class Site:
    """One interpreter with the hook, and a node it belongs to."""

    def __init__(self, root, python, kind):
        self.root = root
        self.node = Node(root / "node")
        self.kind = kind
        if kind == "base":
            self.exe = pythons.copy_base(python, root / "base")
        else:
            self.exe = pythons.make_venv(python.exe, root / "venv")
        self.node.profile("pcie8", (SRC / "tests/data/profiles/pcie8.ini").read_text())
        self.node.variables("other", NCCL_PROTO="Simple", NCCL_ALGO="Tree")
        self.node.start()
        self.node.ctl("use", "pcie8")
        self.node.ctl("on")
        self.begin = self.assigned()
        self.node.ctl("python", "install", "--python", self.exe)
        (root / "files").mkdir()

    def assigned(self):
        return (self.node.run / "assign").read_bytes()

    def settle(self):
        """pcie8 in use, mode on, both pieces running."""
        if self.node.process is None:
            self.node.start()
        if self.assigned() != self.begin:
            self.node.ctl("use", "pcie8")
            self.node.ctl("on")
            self.begin = self.assigned()

    def run(self, *arguments, job=True, env=None, check=True, **more):
        """Starts the interpreter; job: as a new job of its own."""
        command = [str(self.exe), *map(str, arguments)]
        env = clean_environ() if env is None else env
        done = subprocess.run(self.node.new_job(command) if job else command, env=env, capture_output=True, text=True,
                              timeout=60, cwd=self.root / "files", **more)
        if check:
            assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
            assert done.stderr == "", (command, done.stderr)
        return done

    def show(self, *flags, **more):
        return json.loads(self.run(*flags, "-c", SHOW, **more).stdout)

    def script(self, name, text):
        path = self.root / "files" / name
        path.write_text(textwrap.dedent(text))
        return path


def sites():
    for python in pythons.ALL:
        for kind in ("base", "venv"):
            yield pytest.param((python, kind), id=f"{python}-{kind}")


@pytest.fixture(scope="module", params=sites())
def site(request):
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-", dir=pythons.MEMORY))
    root.chmod(0o755)
    (root / "node").mkdir()
    s = Site(root, *request.param)
    yield s
    s.node.stop()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(autouse=True)
def settled(request):
    """Every test begins alike."""
    site = request.getfixturevalue("site") if "site" in request.fixturenames else None
    yield
    if site:
        site.settle()


def test_all_eight_and_every_view_agrees(site):
    assert site.show() == PCIE8
    assert not set(NAMES) & set(clean_environ()), "the caller has none of them"


def test_clean_environment(site):
    assert site.show(env={}) == PCIE8
    out = site.run("-c", f"""
import json, subprocess, sys
sys.stdout.write(subprocess.run([sys.executable, "-c", {SHOW!r}], env={{}}, stdout=subprocess.PIPE).stdout.decode())
""").stdout
    assert json.loads(out) == PCIE8


TARGET = """
    import json, os
    SEEN = {n: os.environ.get(n) for n in %r}   # recorded when the module is imported, before anything else

    def report(path):
        with open(path, "w") as f:
            json.dump(SEEN, f)

    def grandchild(path):
        import multiprocessing
        p = multiprocessing.get_context("spawn").Process(target=report, args=(path,))
        p.start(); p.join()

    def seen():
        return SEEN
""" % NAMES


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing(site, method):
    site.script("target.py", TARGET)
    site.script("main.py", f"""
        import json, multiprocessing, sys
        if __name__ == "__main__":
            import target
            context = multiprocessing.get_context("{method}")
            work = [context.Process(target=getattr(target, t), args=(f"{method}-{{t}}",)) for t in ("report", "grandchild")]
            for p in work: p.start()
            for p in work: p.join()
            json.dump([json.load(open(f"{method}-{{t}}")) for t in ("report", "grandchild")], sys.stdout)
    """)
    assert json.loads(site.run("main.py").stdout) == [PCIE8, PCIE8]


def test_executor_with_spawn(site):
    site.script("target.py", TARGET)
    site.script("pool.py", """
        import concurrent.futures, json, multiprocessing, sys
        if __name__ == "__main__":
            import target
            with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
                json.dump([f.result() for f in [pool.submit(target.seen) for _ in range(2)]], sys.stdout)
    """)
    assert json.loads(site.run("pool.py").stdout) == [PCIE8, PCIE8]


@pytest.mark.parametrize("flags", [["-I"], ["-E"], ["-s"], ["-I", "-E", "-s"]], ids=" ".join)
def test_isolated(site, flags):
    assert site.show(*flags) == PCIE8


def test_no_site_is_not_delivered(site):
    assert site.show("-S") == {}


def test_venvs_and_other_hooks(site):
    """A venv below a hooked base, and a hooked venv, with and without system site packages, with another sitecustomize."""
    if site.kind == "base":
        venvs = [pythons.make_venv(site.exe, site.root / f"venv{n}", n == 1) for n in (0, 1)]
    else:
        venvs = [site.exe]
    for exe in venvs:
        packages = next((exe.parent.parent / "lib").glob("python3.*")) / "site-packages"
        (packages / "sitecustomize.py").write_text("import builtins, os\nbuiltins.mine = os.environ.get('NCCL_PROTO')\n")
        try:
            code = "import builtins, sitecustomize, os; print(getattr(builtins, 'mine', None), sitecustomize.__file__, os.environ['NCCL_ALGO'])"
            done = subprocess.run(site.node.new_job([str(exe), "-c", code]), env=clean_environ(), capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert done.stderr == ""
            distribution = pathlib.Path(f"{site.exe.parent.parent}/lib").glob("python3.*/sitecustomize.py")
            first = pathlib.Path("/usr/lib/python3").parent / f"python{packages.parent.name[6:]}/sitecustomize.py"
            shadowed = any(distribution) or (site.kind == "venv" and _base_has_sitecustomize(exe))
            if shadowed:  # the distribution's comes first on the path, with us as without us
                assert done.stdout.endswith(" Ring\n") and str(packages) not in done.stdout, (done.stdout, first)
            else:
                assert done.stdout == f"LL {packages}/sitecustomize.py Ring\n"
        finally:
            (packages / "sitecustomize.py").unlink()


def _base_has_sitecustomize(exe):
    code = "import sys, os; print(os.path.exists(os.path.join(sys.base_prefix, 'lib', 'python%d.%d' % sys.version_info[:2], 'sitecustomize.py')))"
    return subprocess.run([exe, "-I", "-S", "-c", code], capture_output=True, text=True).stdout == "True\n"


def test_users_own_setting(site):
    mine = clean_environ(NCCL_PROTO="Simple")
    assert site.show(env=mine) == dict(PCIE8, NCCL_PROTO="Simple")
    site.node.profile("forced", "[env]\nNCCL_ALGO = Ring\n[env.force]\nNCCL_PROTO = LL\n")
    site.node.ctl("use", "forced")
    assert site.show(env=mine) == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
    site.node.profile("group", "[together nccl]\nNCCL_ALGO = Ring\nNCCL_PROTO = LL\n[env]\nNCCL_NTHREADS = 512\n")
    site.node.ctl("use", "group")
    assert site.show(env=mine) == {"NCCL_PROTO": "Simple", "NCCL_NTHREADS": "512"}
    assert site.show() == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL", "NCCL_NTHREADS": "512"}


@pytest.mark.parametrize("section", ["env", "env.force"])
def test_set_by_the_program_before_a_child(site, section):
    site.node.profile("p", f"[{section}]\nNCCL_PROTO = LL\nNCCL_ALGO = Ring\n")
    site.node.ctl("use", "p")
    out = site.run("-c", f"""
import os, subprocess, sys
assert os.environ["NCCL_PROTO"] == "LL"
os.environ["NCCL_PROTO"] = "Simple"
del os.environ["NCCL_ALGO"]
sys.stdout.write(subprocess.run([sys.executable, "-c", {SHOW!r}], stdout=subprocess.PIPE).stdout.decode())
""").stdout
    assert json.loads(out) == {"NCCL_PROTO": "Simple"}


def test_broker_and_manager_stopped(site):
    broker, manager = site.node.broker_pid(), site.node.process.pid
    for pid in (broker, manager):
        os.kill(pid, signal.SIGSTOP)
    try:
        assert site.show() == PCIE8
    finally:
        for pid in (broker, manager):
            os.kill(pid, signal.SIGCONT)


def test_everything_killed(site):
    broker = site.node.broker_pid()
    site.node.process.send_signal(signal.SIGKILL)
    os.kill(broker, signal.SIGKILL)
    site.node.process.wait()
    site.node.process = None
    assert site.show() == PCIE8
    (site.node.run / "socket").unlink(missing_ok=True)
    assert site.show() == PCIE8


def test_directory_unreadable_or_gone(site):
    """No variables can be had; the start is as if nothing was installed. (The pieces are frozen, or they would mend it.)"""
    pieces = [site.node.broker_pid(), site.node.process.pid]
    for pid in pieces:
        os.kill(pid, signal.SIGSTOP)
    hidden = site.node.run.with_name("hidden")
    site.node.run.rename(hidden)
    try:
        assert site.show() == {}
        site.node.run.mkdir(mode=0)
        assert site.show() == {}
        site.node.run.chmod(0o700)
        site.node.run.rmdir()
        site.node.run.write_text("not a directory")
        assert site.show() == {}
        site.node.run.unlink()
    finally:
        if site.node.run.is_dir():
            site.node.run.rmdir()
        hidden.rename(site.node.run)
        for pid in pieces:
            os.kill(pid, signal.SIGCONT)


def test_snapshot_truncated(site):
    """The broker and the manager are frozen, so nobody mends it: nothing of a damaged snapshot is applied."""
    broker, manager = site.node.broker_pid(), site.node.process.pid
    snapshot = (site.node.run / "current").resolve()
    whole = snapshot.read_bytes()
    for pid in (broker, manager):
        os.kill(pid, signal.SIGSTOP)
    try:
        os.truncate(snapshot, len(whole) - 20)
        assert site.show() == {}
    finally:
        for pid in (broker, manager):
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: snapshot.is_file() and snapshot.read_bytes() == whole, "the manager mends its snapshot")
    assert site.show() == PCIE8


def test_output_untouched(site):
    done = subprocess.run(site.node.new_job(["/bin/sh", "-c", f"'{site.exe}' -c 'print(1)' | cat"]), capture_output=True, text=True,
                          env=clean_environ())
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    done = site.run("-c", "raise SystemExit(3)", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_switch_between_two_starts_of_a_job(site):
    """The job is one shell that starts the interpreter twice; the switch happens between, by a pipe, not by time."""
    program = site.script("show.py", SHOW)
    job = subprocess.Popen(site.node.new_job(["/bin/sh", "-c", f"'{site.exe}' {program}; echo; read go; '{site.exe}' {program}; exit 0"]),
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environ())
    assert json.loads(job.stdout.readline()) == PCIE8
    site.node.ctl("use", "other")
    assert site.show() == {"NCCL_PROTO": "Simple", "NCCL_ALGO": "Tree"}
    out, _ = job.communicate("go\n", timeout=60)
    assert json.loads(out) == PCIE8


def test_disabled_observed_off(site):
    assert site.show(env=clean_environ(CUDAENV_DISABLE="1")) == {}
    site.node.ctl("observe")
    done = site.run("-c", f"import os\nprint(os.getpid(), sorted(set({NAMES}) & set(os.environ)))\ninput()", input="\n", check=False)
    assert done.stdout.split(" ", 1)[1] == "[]\n"
    waiting = subprocess.Popen(site.node.new_job([str(site.exe), "-c", "print(1, flush=True); input()"]), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env=clean_environ(), text=True)
    assert waiting.stdout.readline() == "1\n"
    exes = [p["started_as"] for p in site.node.json("workers")["processes"]]
    waiting.communicate("\n")
    assert exes == ["main"], "the start is registered"
    site.node.ctl("off")
    assert site.show() == {}


def test_off_with_the_daemon_dead(site):
    site.node.stop(signal.SIGKILL)
    site.node.ctl("off")
    assert site.show() == {}
    site.node.start()
    assert site.node.json("status")["mode"] == "off", "the manager adopts it"


def test_cleaned_child_of_an_older_job_while_frozen(site):
    """Its job's snapshot, not the active one; the broker cannot answer."""
    parent = subprocess.Popen(site.node.new_job([str(site.exe), "-c", f"""
import os, subprocess, sys
print("ready", flush=True)
input()
sys.stdout.write(subprocess.run([sys.executable, "-c", {SHOW!r}], env={{}}, stdout=subprocess.PIPE).stdout.decode())
"""]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environ())
    assert parent.stdout.readline() == "ready\n"
    site.node.ctl("use", "other")
    broker = site.node.broker_pid()
    os.kill(broker, signal.SIGSTOP)
    try:
        out, _ = parent.communicate("\n", timeout=60)
        assert site.show() == {"NCCL_PROTO": "Simple", "NCCL_ALGO": "Tree"}
    finally:
        os.kill(broker, signal.SIGCONT)
    assert json.loads(out) == PCIE8


def test_loader_path_only_by_exec(site):
    site.node.profile("paths", "[env]\nLD_LIBRARY_PATH = /usr/lib/cudaenv-test\nNCCL_ALGO = Ring\n")
    site.node.ctl("use", "paths")
    code = "import os; print(os.environ.get('LD_LIBRARY_PATH'), os.environ.get('NCCL_ALGO'))"
    assert site.run("-c", code).stdout == "None Ring\n"
    assert site.node.ctl("exec", "--", site.exe, "-c", code).stdout == "/usr/lib/cudaenv-test Ring\n"


def test_every_view_of_a_tree_agrees(site):
    """os.environ, os.environb, the C library, /usr/bin/env started by it, and a spawn child, for every variable."""
    site.script("views.py", """
        import ctypes, json, multiprocessing, os, subprocess, sys
        def block():
            return {k.decode(): v.decode() for k, v in os.environb.items()}
        def child(q):
            q.put(block())
        def getenv():
            libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p
            return {k: libc.getenv(os.fsencode(k)).decode() for k in os.environ}
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            q = context.Queue(); p = context.Process(target=child, args=(q,)); p.start(); spawned = q.get(timeout=50); p.join()
            raw = subprocess.run(["/usr/bin/env", "-0"], stdout=subprocess.PIPE).stdout
            env = dict(e.decode().split("=", 1) for e in raw.split(b"\\0") if e)
            assert dict(os.environ) == block() == getenv(), "this process"
            assert env == block(), ("env", env, block())
            assert spawned == block(), ("spawn", spawned, block())
            print("equal")
    """)
    assert site.run("views.py").stdout == "equal\n"
