# SPDX-License-Identifier: MIT
"""The interpreters that tests run on: every CPython 3.8 and later of the machine.

CUDAENV_TEST_PYTHONS (paths joined by ':') overrides the search. Bases are tested on copies of their tree, so that nothing outside a
temporary directory changes; venvs are made with the real base, as users make them.
"""
import atexit
import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile



def memory():
    """Where trees of interpreters lie: in memory where that is possible, since installing syncs each file and others use the disk."""
    try:
        place = os.statvfs("/dev/shm")
    except OSError:
        return None
    fit = place.f_bavail * place.f_frsize >= 4 << 30 and not place.f_flag & os.ST_NOEXEC and os.access("/dev/shm", os.W_OK | os.X_OK)
    return "/dev/shm" if fit else None


MEMORY = memory()
PROBE = ("import sys, platform; print(platform.python_implementation(), '%d.%d.%d' % sys.version_info[:3], "
         "sys.base_prefix, sys.executable, sep='\\n')")


class Python:
    def __init__(self, exe, version, prefix):
        self.exe, self.version, self.prefix = pathlib.Path(exe), version, pathlib.Path(prefix)
        self.xy = ".".join(version.split(".")[:2])
        self.minor = int(version.split(".")[1])

    def __str__(self):
        return f"{'debian-' if self.prefix == pathlib.Path('/usr') else ''}{self.version}"


def probe(exe):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYENV", "CUDAENV_"))}
    try:
        done = subprocess.run([exe, "-I", "-S", "-c", PROBE], capture_output=True, text=True, timeout=20, env=env)
        kind, version, prefix, real = done.stdout.split("\n")[:4]
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if kind != "CPython" or tuple(map(int, version.split(".")[:2])) < (3, 6):
        return None
    return Python(real, version, prefix)


def find():
    listed = os.environ.get("CUDAENV_TEST_PYTHONS")
    if listed:
        candidates = listed.split(":")
    else:
        roots = [os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv"), "/opt/pyenv"]
        candidates = ["/usr/bin/python3", "/usr/local/bin/python3"]
        for place in ("/usr/bin/python3.*[0-9]", "/usr/local/bin/python3.*[0-9]", "/opt/python*/bin/python3"):
            candidates += sorted(glob.glob(place))
        for root in filter(None, roots):
            candidates += sorted(str(p) for p in pathlib.Path(root).glob("versions/*/bin/python3"))
    found = {}
    for exe in candidates:
        if not os.path.exists(exe):
            continue
        python = probe(exe)
        if python:
            found.setdefault((python.prefix, python.version), python)
    return sorted(found.values(), key=lambda p: [int(n) for n in p.version.split(".")])


FOUND = find()
ALL = [p for p in FOUND if p.minor >= 8]
OLDER = [p for p in FOUND if p.minor < 8]  # the hook's pure Python reader serves them


LEFT_OUT = shutil.ignore_patterns("test", "tests", "idlelib", "turtledemo", "site-packages", "dist-packages", "config-*", "lib2to3",
                                  "tkinter", "ensurepip", "*.a", "pydoc_data")
TEMPLATES = {}  # python: its trimmed tree, and what that was when it was made


def template(python):
    """One trimmed copy of an interpreter's tree: standard library, binary, shared libpython; no test suite, no site-packages."""
    if python in TEMPLATES:
        return TEMPLATES[python][0]
    if not TEMPLATES:
        atexit.register(forget_templates)
    to = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-python-", dir=MEMORY))
    to.chmod(0o755)
    (to / "bin").mkdir()
    shutil.copy2(os.path.realpath(python.exe), to / f"bin/python{python.xy}")
    (to / "bin/python3").symlink_to(f"python{python.xy}")
    library = python.prefix / f"lib/python{python.xy}"
    shutil.copytree(library, to / f"lib/python{python.xy}", symlinks=False, ignore_dangling_symlinks=True, ignore=LEFT_OUT)
    for shared in (python.prefix / "lib").glob(f"libpython{python.xy}*.so*"):
        shutil.copy2(shared, to / "lib", follow_symlinks=False)
    (to / f"lib/python{python.xy}/site-packages").mkdir(exist_ok=True)
    TEMPLATES[python] = to, state(to)
    return to


def state(root):
    """What a test that changes a file in place would change in a template."""
    found = {}
    for directory, _, files in os.walk(root):
        for name in files:
            path = os.path.join(directory, name)
            st = os.lstat(path)
            found[path] = (st.st_ino, st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns)
    return found


def forget_templates():
    for to, _ in TEMPLATES.values():
        shutil.rmtree(to, ignore_errors=True)
    TEMPLATES.clear()


def changed_templates():
    """Files of templates that are not what they were: some test wrote to a copy with shared files."""
    changed = []
    for to, before in TEMPLATES.values():
        now = state(to)
        changed += [path for path, what in before.items() if now.get(path) != what]
    return changed


def copy_base(python, to, own=False):
    """A tree of an interpreter at TO. Its files are links to one copy that all tests share: a test may add, remove and replace
    files, and with OWN also change what is in one, its mode or its owner."""
    to = pathlib.Path(to)
    to.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a" if own else "-al", template(python), to], check=True)
    for shared in () if own else to.glob("lib/python3*/sitecustomize.py"):  # the distribution's, which tests append to
        shared.unlink()
        shutil.copy2(template(python) / shared.relative_to(to), shared)
    return to / "bin/python3"


def make_venv(python, to, system_site_packages=False):
    """A venv without pip, by the interpreter's own venv module."""
    env = {k: v for k, v in os.environ.items() if not re.match("PYTHON|PYENV|CUDAENV_", k)}
    subprocess.run([python, "-m", "venv", "--without-pip", *(["--system-site-packages"] * system_site_packages), to],
                   check=True, env=env, capture_output=True)
    return pathlib.Path(to) / "bin/python3"
