# SPDX-License-Identifier: MIT
"""cudaenvctl python --all: a machine with some fifteen interpreters, covered and back to the byte.

The machine is this one in a mount namespace: overlays on /usr/lib and /usr/local, an /opt and a HOME of its own, in which each
interpreter is an overlay of one that exists here. Nothing outside the namespace changes.
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

import pytest

import pythons
from node import CTL, clean_environ
from published import VARIABLES, Published

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs mounts and several uids")

HERE = pathlib.Path(__file__).parent
SHOW = "import json, os, sys; json.dump({n: os.environ[n] for n in %r if n in os.environ}, sys.stdout)" % list(VARIABLES)
DEBIAN = [p for p in pythons.ALL if p.prefix == pathlib.Path("/usr")]
OTHERS = [p for p in pythons.ALL if p.prefix not in (pathlib.Path("/usr"), pathlib.Path("/usr/local"))]
ODD = "odd\n\x1b[31m$(x) name"
USER = 12345

SETUP = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$ROOT/over"
mount -t tmpfs -o mode=755 tmpfs /opt
# over LOWER TARGET: what is written below TARGET stays here.
n=0
over() {
	n=$((n + 1))
	mkdir -p "$2" "$ROOT/over/$n/upper" "$ROOT/over/$n/work"
	mount -t overlay overlay -o "lowerdir=$1,upperdir=$ROOT/over/$n/upper,workdir=$ROOT/over/$n/work" "$2" 2>/dev/null && return
	mkdir "$ROOT/over/$n/copy"
	cp -a "$1/." "$ROOT/over/$n/copy"
	mount --bind "$ROOT/over/$n/copy" "$2"
}
"""


class Machine:
    """Its namespace lives as long as the process that made it."""

    def __init__(self, root):
        self.root = root
        self.home = root / "home"
        self.published = Published(root / "run")
        self.published.assign(self.published.variables())
        (root / "over").mkdir()
        self.home.mkdir()
        self.bases, self.venvs, self.skipped, self.trees = {}, {}, {}, []
        script = SETUP + "".join(self.layout()) + "echo ready\nread line\n"
        self.keeper = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env=clean_environ(ROOT=root))
        if self.keeper.stdout.readline() != b"ready\n":
            pytest.skip("no mounts here: " + self.keeper.stderr.read().decode())

    def end(self):
        self.keeper.stdin.close()
        self.keeper.wait(20)

    def tree(self, python, prefix):
        """An interpreter's tree at PREFIX."""
        self.trees.append(str(prefix))
        return f"over {shlex.quote(str(python.prefix))} {shlex.quote(str(prefix))}\n"

    def layout(self):
        old, new, other = OTHERS[0], OTHERS[-1], OTHERS[-2:][0]
        short = new.xy.replace(".", "")
        opt, pyenv = pathlib.Path("/opt"), self.home / ".pyenv/versions"
        yield "over /usr/lib /usr/lib\nover /usr/local /usr/local\n"
        self.trees += [str(p) for p in pathlib.Path("/usr/lib").glob("python3*") if p.is_dir()]
        self.trees += [str(p) for p in pathlib.Path("/usr/lib").glob("pypy3*") if p.is_dir()]
        for python in DEBIAN:
            self.bases[f"/usr/bin/python{python.xy}"] = "directory"
        if shutil.which("pypy3") == "/usr/bin/pypy3":
            self.pypy = os.path.realpath("/usr/bin/pypy3")
            self.bases[f"/usr/bin/{os.path.basename(self.pypy)}"] = "pth"
        for name, python in (("a", old), ("b", new)):
            yield self.tree(python, pyenv / name)
            self.bases[str(pyenv / name / "bin/python3")] = "directory"
        # A sitecustomize of someone else, with a sign that it ran.
        yield f"echo 'import sys; sys.foreign = True' >{pyenv}/a/lib/python{old.xy}/site-packages/sitecustomize.py\n"
        yield self.tree(other, opt / "conda") + self.tree(new, opt / "conda/envs/train")
        self.bases["/opt/conda/bin/python3"] = self.bases["/opt/conda/envs/train/bin/python3"] = "directory"
        uv = self.home / ".local/share/uv/python"
        yield self.tree(new, uv / "cpython-3.99.1-linux-x86_64-gnu")
        yield f"ln -s cpython-3.99.1-linux-x86_64-gnu {uv}/cpython-3.99\n"
        yield f"echo '[externally-managed]' >{uv}/cpython-3.99/lib/python{new.xy}/EXTERNALLY-MANAGED\n"
        self.bases[str(uv / "cpython-3.99/bin/python3")] = "directory"
        yield self.tree(other, opt / ODD)
        self.bases[str(opt / ODD / "bin/python3")] = "directory"
        yield self.tree(new, opt / "zipped")
        yield f"printf 'PK\\5\\6%018d' 0 | tr 0 '\\0' >/opt/zipped/lib/python{short}.zip\n"
        self.bases["/opt/zipped/bin/python3"] = "pth"

        # What --all leaves alone.
        yield self.tree(old, opt / "users") + f"chown {USER} /opt/users /opt/users/lib /opt/users/lib/python{old.xy}\n"
        self.skipped["/opt/users/bin/python3"] = f"belongs to uid {USER}"
        yield self.tree(old, opt / "open") + "chmod 777 /opt/open\n"
        self.skipped["/opt/open/bin/python3"] = "others could replace /opt/open (owner 0, mode 0777)"
        yield self.tree(old, opt / "readonly") + "mount --bind /opt/readonly /opt/readonly\nmount -o remount,bind,ro /opt/readonly\n"
        self.skipped["/opt/readonly/bin/python3"] = "read-only"
        # Its site-packages is a link to a user's directory, and the place in front of it is a file.
        yield self.tree(new, opt / "linked") + f"touch /opt/linked/lib/python{short}.zip\n"
        yield f"""mv /opt/linked/lib/python{new.xy}/site-packages /opt/theirs
ln -s /opt/theirs /opt/linked/lib/python{new.xy}/site-packages
chown {USER} /opt/theirs
"""
        self.trees.append("/opt/theirs")
        self.skipped["/opt/linked/bin/python3"] = f"others could replace /opt/theirs (owner {USER}, mode 0755)"

        for base, where in ((pyenv / "b/bin/python3", pyenv / "b/envs/mine"), (opt / "users/bin/python3", opt / "engine/venv"),
                            (opt / "zipped/bin/python3", opt / "other/.venv")):
            yield f"{base} -m venv --without-pip {where}\n"
        self.venvs[str(pyenv / "b/envs/mine/bin/python3")] = "by base"
        self.venvs["/opt/engine/venv/bin/python3"] = self.venvs["/opt/other/.venv/bin/python3"] = "skip"
        self.trees += ["/opt/engine", "/opt/other"]

    def inside(self, *command, **more):
        env = clean_environ(**{"HOME": self.home, "CUDAENV_RUNTIME_DIR": self.published.path, "PYTHONDONTWRITEBYTECODE": 1, **more})
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON_INSTALL_DIR"):
            env.pop(name, None)
        return subprocess.run(["nsenter", "-m", f"-t{self.keeper.pid}", "--", *map(str, command)], env=env, capture_output=True,
                              text=True, timeout=120)

    def ctl(self, *arguments, ok=0, **more):
        done = self.inside(CTL, "python", *arguments, **more)
        assert done.returncode == ok, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def json(self, *arguments, **more):
        """The answer, and its interpreters by their path: those of this machine, whatever else was here."""
        answer = json.loads(self.ctl(*arguments, "--json", **more).stdout)
        found = {p["python"]: p for p in answer["pythons"]}
        assert len(found) == len(answer["pythons"])
        return answer, {p: found[p] for p in [*self.bases, *self.venvs, *self.skipped]}

    def manifest(self, *trees):
        """Of TREES, or of all, and the names beside them."""
        trees = trees or (*self.trees, "/usr/local/lib")
        top = [t for t in trees if not any(t.startswith(o + "/") for o in trees)]
        done = self.inside("/usr/bin/python3", "-I", "-S", HERE / "manifest.py", self.root / "sums", *top)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        names = self.inside("/bin/sh", "-c", "ls -A /usr/lib /usr/local /opt").stdout
        return found, names

    def show(self, exe, *flags):
        done = self.inside(exe, *flags, "-c", SHOW)
        assert (done.returncode, done.stderr) == (0, ""), (exe, done.stderr)
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def machine():
    if len(OTHERS) < 1:
        pytest.skip("n/a: no interpreter outside /usr")
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-"))
    root.chmod(0o755)
    made = Machine(root)
    yield made
    made.end()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def before(machine):
    return machine.manifest()


@pytest.fixture
def clean(machine, before):
    """A machine without hooks, also for the next one."""
    yield machine
    machine.ctl("remove", "--all")


def test_the_plan(machine, before):
    """Without --all and with --dry-run nothing is changed; what is left alone has its reason."""
    for arguments in (["install"], ["install", "--all", "--dry-run"]):
        answer, found = machine.json(*arguments)
        assert answer["plan"] == "install" and "action" not in answer and answer["incomplete"] is None
        for exe, method in machine.bases.items():
            assert (found[exe]["step"], found[exe]["method"], found[exe]["skip"]) == ("install", method, None), found[exe]
        for exe, step in machine.venvs.items():
            assert (found[exe]["step"], found[exe]["method"]) == (step, None), found[exe]
        for exe, reason in machine.skipped.items():
            assert found[exe]["step"] == "skip" and reason in found[exe]["reason"], found[exe]
    lines = machine.ctl("install").stdout
    assert "Nothing was changed. Do so: cudaenvctl python install --all, or --python EXE for one.\n" in lines
    rows = dict(line.split("\t", 1) for line in lines.splitlines() if "\t" in line)
    assert rows["/usr/bin/python" + DEBIAN[0].xy if DEBIAN else "/opt/conda/bin/python3"].split("\t")[2] == "install"
    assert "\x1b" not in lines and "/opt/odd\\n\\x1b[31m$(x) name/bin/python3" in rows
    _, found = machine.json("remove")
    assert {p["step"] for p in found.values()} == {"none"}
    _, found = machine.json("status", ok=1)
    assert not any(p["covered"] for p in found.values())
    assert machine.manifest() == before


def test_installed_and_removed(machine, before):
    """Every base that may be covered gives its starts the variables; afterwards all trees are what they were."""
    answer, found = machine.json("install", "--all")
    assert answer["action"] == "install" and "plan" not in answer
    for exe, method in machine.bases.items():
        assert (found[exe]["result"], found[exe]["method"], found[exe]["changed"]) == ("installed", method, True), found[exe]
        assert machine.show(exe) == VARIABLES
    for exe, step in machine.venvs.items():
        assert found[exe]["result"] == {"skip": "skipped"}.get(step, step)
        assert machine.show(exe) == (VARIABLES if step == "by base" else {})
    for exe in machine.skipped:
        assert found[exe]["result"] == "skipped" and machine.show(exe) == {}
    foreign = next(e for e in machine.bases if "versions/a/" in e)
    assert machine.inside(foreign, "-c", "import sys; print(sys.foreign)").stdout == "True\n"

    _, found = machine.json("status")
    for exe in machine.bases:
        assert found[exe]["covered"] is True and found[exe]["by_base"] is False
    for exe, step in machine.venvs.items():
        assert found[exe]["covered"] is found[exe]["by_base"] is (step == "by base")
    for exe in machine.skipped:
        assert found[exe]["covered"] is False and (found[exe]["skip"] or "linked" in exe)
    installed, _ = machine.manifest()
    changed = {p for p, e in before[0].items() if installed.get(p) != e}
    assert changed == set(), "nothing that was there is touched"
    for exe in machine.bases:
        hook = next(h for h in found[exe]["hooks"] if h["state"] == "installed")
        for name in ("README", "manifest"):
            assert machine.inside("/bin/cat", f"{hook['path']}/{name}").stdout

    _, found = machine.json("install", "--all")
    assert {found[e]["result"] for e in machine.bases} == {"kept"} and not any(p["changed"] for p in found.values())
    assert machine.manifest()[0] == installed

    answer, found = machine.json("remove", "--all", "--dry-run")
    assert {found[e]["step"] for e in machine.bases} == {"remove"} and answer["plan"] == "remove"
    assert machine.manifest()[0] == installed
    _, found = machine.json("remove", "--all")
    assert {found[e]["result"] for e in machine.bases} == {"removed"}
    assert machine.manifest() == before
    for exe in machine.bases:
        assert machine.show(exe) == {}


def test_what_was_asked_for_goes_too(clean):
    """What --all leaves alone, but --python covered: --all takes it away again. So for venvs, and for both methods at once."""
    venv, users, conda = "/opt/engine/venv/bin/python3", "/opt/users/bin/python3", "/opt/conda/bin/python3"
    trees = ("/opt/engine", "/opt/users", "/opt/conda")
    before = clean.manifest(*trees)
    for exe in (venv, users, conda):
        clean.ctl("install", "--python", exe)
    clean.ctl("install", "--python", conda, "--method", "pth")
    for exe in (venv, users, conda):
        assert clean.show(exe) == VARIABLES
    _, found = clean.json("remove", "--all")
    assert [p for p, e in found.items() if e["result"] == "removed"] == [conda, venv, users]
    assert clean.manifest(*trees) == before


def test_method_pth(clean):
    """A base's .pth covers no venv that does not see its site-packages, and the plan says so; --all keeps to what it finds."""
    _, found = clean.json("install", "--all", "--method", "pth")
    debian = [f"/usr/bin/python{p.xy}" for p in DEBIAN]
    for exe in (e for e in clean.bases if e not in debian):
        assert (found[exe]["result"], found[exe]["method"]) == ("installed", "pth"), found[exe]
        assert "venvs are not covered" in found[exe]["reason"]
        assert clean.show(exe) == VARIABLES
    venv = next(e for e, step in clean.venvs.items() if step == "by base")
    assert found[venv]["result"] == "skipped" and clean.show(venv) == {}
    _, found = clean.json("install", "--all")
    assert {found[e]["method"] for e in clean.bases if e not in debian} == {"pth"}
    _, found = clean.json("remove", "--all", "--method", "directory")
    assert "removed" not in {found[e]["result"] for e in clean.bases if e not in debian}


def test_an_upgrade(clean):
    """Hooks of another version are replaced, damaged ones repaired, also of venvs that have one of their own."""
    venv = "/opt/other/.venv/bin/python3"
    clean.ctl("install", "--all")
    clean.ctl("install", "--python", venv)
    conda, train, odd = "/opt/conda/bin/python3", "/opt/conda/envs/train/bin/python3", str(pathlib.Path("/opt", ODD, "bin/python3"))
    _, found = clean.json("status")
    hooks = {e: next(h["path"] for h in found[e]["hooks"] if h["state"] == "installed") for e in (venv, conda, train)}
    for exe in (venv, conda):
        clean.inside("sed", "-i", "s/^version /version 0.0./", hooks[exe] + "/manifest")
    clean.inside("sh", "-c", f"echo damaged >{hooks[train]}/sitecustomize.py")
    _, found = clean.json("status", ok=1)
    assert {e: next(h["state"] for h in found[e]["hooks"] if h["path"] == p) for e, p in hooks.items()} == {
        venv: "older", conda: "older", train: "damaged"}
    _, found = clean.json("install", "--all", "--dry-run")
    assert [found[e]["step"] for e in (venv, conda, train, odd)] == ["replace", "replace", "repair", "keep"]
    _, found = clean.json("install", "--all")
    assert [found[e]["result"] for e in (venv, conda, train, odd)] == ["replaced", "replaced", "repaired", "kept"]
    assert clean.json("status")
    # Another directory to look in is a change as well.
    _, found = clean.json("install", "--all", "--runtime-dir", "/elsewhere", "--dry-run")
    assert found[odd]["step"] == "replace"


def test_a_failure_stops_no_other(clean):
    """At one a second installer is at work, at one nothing of ours can be proven: both are said, the rest is done."""
    before = clean.manifest("/opt/conda")
    lock = clean.inside("flock", "-n", "/opt/conda/lib", CTL, "python", "install", "--all")
    assert lock.returncode == 1
    assert "cudaenvctl: /opt/conda/bin/python3: /opt/conda/lib is being changed by another cudaenvctl\n" in lock.stderr
    rows = {line.split("\t")[0]: line.split("\t")[3] for line in lock.stdout.splitlines() if "\t" in line}
    assert rows["/opt/conda/bin/python3"] == "failed" and rows["/opt/conda/envs/train/bin/python3"] == "installed"
    _, found = clean.json("status", ok=1)
    broken = next(h["path"] for h in found["/opt/conda/envs/train/bin/python3"]["hooks"] if h["state"] == "installed")
    clean.inside("sh", "-c", f"mv '{broken}/manifest' '{broken}/kept'")
    _, found = clean.json("remove", "--all", ok=1)
    assert found["/opt/conda/envs/train/bin/python3"]["result"] == "failed"
    assert "damaged, so nothing there can be proven" in found["/opt/conda/envs/train/bin/python3"]["reason"]
    assert [p for p, e in found.items() if e["result"] == "failed"] == ["/opt/conda/envs/train/bin/python3"]
    clean.inside("sh", "-c", f"mv '{broken}/kept' '{broken}/manifest'")
    clean.ctl("remove", "--all")
    assert clean.manifest("/opt/conda") == before


def test_an_ordinary_user(machine):
    """What is theirs is covered, root's is left alone with what to do; where that is all, it is bad news."""
    trees = (str(machine.home), "/opt/theirs", "/opt/users", "/opt/open")
    before = machine.manifest(*trees)

    def as_user(uid, *arguments, ok=0):
        done = machine.inside("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", CTL, "python", *arguments, "--json",
                              HOME="/nowhere")
        assert done.returncode == ok, done.stderr
        return {p["python"]: p for p in json.loads(done.stdout)["pythons"]}, done.stderr

    found, errors = as_user(USER + 1, "install", "--all", ok=1)
    assert "no interpreter was covered" in errors and {p["result"] for p in found.values()} == {"skipped"}
    assert found["/opt/conda/bin/python3"]["reason"] == "/opt/conda/lib is not yours to write: run this as root"
    assert machine.manifest(*trees) == before
    found, _ = as_user(USER, "install", "--all")
    assert {e for e, p in found.items() if p["changed"]} == {"/opt/users/bin/python3", "/opt/linked/bin/python3"}
    assert found["/opt/engine/venv/bin/python3"]["result"] == "by base"
    assert machine.show("/opt/users/bin/python3") == machine.show("/opt/engine/venv/bin/python3") == VARIABLES
    found, _ = as_user(USER, "remove", "--all")
    assert {e for e, p in found.items() if p["changed"]} == {"/opt/users/bin/python3", "/opt/linked/bin/python3"}
    assert machine.manifest(*trees) == before


def test_nothing_found(machine):
    """Wrong usage, and a HOME and an /opt without any."""
    assert machine.ctl("install", "--all", "--python", "/opt/conda/bin/python3", ok=2).stderr
    assert machine.ctl("install", "--all", "--method", "magic", ok=2).stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a compiler")
@pytest.mark.parametrize("what", ["directory", "pth"])
def test_a_place_that_changes_meanwhile(clean, what):
    """An interpreter that turns its library, or site-packages, into a link while it compiles the hook: nothing goes there."""
    python = OTHERS[-1]
    lib = "/opt/race/lib" if what == "directory" else f"/opt/race/lib/python{python.xy}/site-packages"
    source = clean.root / "race.c"
    source.write_text("#include <stdio.h>\n#include <unistd.h>\nint main(void) { rename(%s, %s); symlink(\"/opt/outside\", %s);\n"
                      "printf(\"cpython-3\\n1\\n\"); for (int i = 0; i < 12; i++) printf(\"16\\n0123456789abcdef\"); return 0; }\n"
                      % (json.dumps(lib), json.dumps(lib + ".real"), json.dumps(lib)))
    program = clean.root / f"python{python.xy}"
    subprocess.run(["cc", "-w", "-o", program, source], check=True)
    clean.inside("sh", "-c", f"""mkdir -p /opt/outside /opt/race/bin /opt/race/lib/python{python.xy}/site-packages
cp {program} /opt/race/bin/python{python.xy}
ln -sf python{python.xy} /opt/race/bin/python3
touch /opt/race/lib/python{python.xy}/os.py""")
    answer = json.loads(clean.ctl("install", "--all", "--json", "--method", what, ok=1).stdout)
    race = next(p for p in answer["pythons"] if p["python"].startswith("/opt/race/"))
    others = {p["result"] for p in answer["pythons"] if p["python"] in clean.bases and not p["python"].startswith("/usr/")}
    left = clean.inside("sh", "-c", f"ls -A /opt/outside; readlink {lib}; rm -rf /opt/outside /opt/race").stdout
    assert race["result"] == "failed" and ("cannot open" in race["reason"] or "cannot look" in race["reason"]), race
    assert left == "/opt/outside\n"
    assert "failed" not in others and "installed" in others
