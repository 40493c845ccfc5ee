# SPDX-License-Identifier: MIT
"""The interpreters that tests run on: every CPython 3.8 and later of the machine.

CUDAENV_TEST_PYTHONS (paths joined by ':') overrides the search. Bases are tested on copies of their tree, so that nothing outside a
temporary directory changes; venvs are made with the real base, as users make them.
"""
import glob
import os
import pathlib
import re
import shutil
import subprocess

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


def copy_base(python, to):
    """Copies an interpreter's tree (standard library, binary, shared libpython; no test suite, no site-packages)."""
    to = pathlib.Path(to)
    (to / "bin").mkdir(parents=True)
    shutil.copy2(os.path.realpath(python.exe), to / f"bin/python{python.xy}")
    (to / "bin/python3").symlink_to(f"python{python.xy}")
    library = python.prefix / f"lib/python{python.xy}"
    shutil.copytree(library, to / f"lib/python{python.xy}", symlinks=False, ignore_dangling_symlinks=True,
                    ignore=shutil.ignore_patterns("test", "tests", "idlelib", "turtledemo", "site-packages", "dist-packages",
                                                  "config-*", "lib2to3", "tkinter", "ensurepip"))
    for shared in (python.prefix / "lib").glob(f"libpython{python.xy}*.so*"):
        shutil.copy2(shared, to / "lib", follow_symlinks=False)
    (to / f"lib/python{python.xy}/site-packages").mkdir(exist_ok=True)
    return to / "bin/python3"


def make_venv(python, to, system_site_packages=False):
    """A venv without pip, by the interpreter's own venv module."""
    env = {k: v for k, v in os.environ.items() if not re.match("PYTHON|PYENV|CUDAENV_", k)}
    subprocess.run([python, "-m", "venv", "--without-pip", *(["--system-site-packages"] * system_site_packages), to],
                   check=True, env=env, capture_output=True)
    return pathlib.Path(to) / "bin/python3"
