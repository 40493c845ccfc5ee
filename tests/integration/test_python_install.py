# SPDX-License-Identifier: MIT
"""cudaenvctl python install, remove, status: on copies of interpreter trees and on venvs; what it refuses; back to the byte."""
import hashlib
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

import pytest

import pythons
from node import CTL, PREFIX, SRC, clean_environ
from published import VARIABLES, Published

PYPY = shutil.which("pypy3")
SHOW = "import json, os, sys; json.dump({n: os.environ[n] for n in %r if n in os.environ}, sys.stdout)" % list(VARIABLES)


def tree(root):
    """Every entry below ROOT: kind, mode, owner; of files also size, inode, and both times of change, the second of which no
    program can set: a file that is equal in all of it was not written to."""
    found = {}
    for directory, _, files in os.walk(root):
        st = os.lstat(directory)
        found[directory] = ("d", stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid)
        for name in files:
            path = os.path.join(directory, name)
            st = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(st.st_mode) else st.st_size
            found[path] = (stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, st.st_ino, st.st_mtime_ns,
                           st.st_ctime_ns, content)
    return found


class Place:
    """A temporary directory with a published profile; interpreters below it."""

    def __init__(self, root):
        self.root = root
        self.published = Published(root / "run")
        self.published.assign(self.published.variables())

    def ctl(self, *arguments, ok=0, **more):
        env = clean_environ(CUDAENV_RUNTIME_DIR=self.published.path, **more)
        done = subprocess.run([CTL, *map(str, arguments)], env=env, capture_output=True, timeout=60)
        if ok is not None:
            assert done.returncode == ok, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def json(self, *arguments, **more):
        return json.loads(self.ctl(*arguments, "--json", **more).stdout)

    def start(self, exe, *arguments, **env):
        """A start whose bytecode would be written, as users have it."""
        done = subprocess.run([str(exe), *arguments], env=clean_environ(**env), capture_output=True, timeout=60, cwd="/")
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
        return done.stdout.decode()

    def show(self, exe, *flags, **env):
        return json.loads(self.start(exe, *flags, "-c", SHOW, **env))


@pytest.fixture
def place():
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-", dir=pythons.MEMORY))
    root.chmod(0o755)
    yield Place(root)
    shutil.rmtree(root, ignore_errors=True)


def every(kinds=("base", "venv")):
    return [pytest.param(p, k, id=f"{p}-{k}") for p in pythons.ALL for k in kinds]


def make(place, python, kind, name="python"):
    if kind == "base":
        return pythons.copy_base(python, place.root / name)
    return pythons.make_venv(python.exe, place.root / name)


@pytest.fixture
def base(place):
    return pythons.copy_base(pythons.ALL[-1], place.root / "python")


@pytest.fixture
def own_base(place):
    """For tests that change owners and modes of its files."""
    return pythons.copy_base(pythons.ALL[-1], place.root / "python", own=True)


@pytest.fixture
def venv(place):
    return pythons.make_venv(pythons.ALL[-1].exe, place.root / "python")


def hook_of(place, exe):
    """The hook's directory, by status."""
    hooks = place.json("python", "status", "--python", exe, ok=None)["pythons"][0]["hooks"]
    return next(h for h in hooks if h["state"] not in ("absent", "foreign"))


@pytest.mark.parametrize("python, kind", every())
def test_reversible_to_the_byte(place, python, kind):
    exe = make(place, python, kind)
    for flags in ("-O", "-OO", "-I"):  # the interpreter's own compiled files
        assert place.show(exe, flags) == {}
    before = tree(place.root / "python")
    place.ctl("python", "install", "--python", exe)
    assert place.json("python", "status", "--python", exe)["pythons"][0]["kind"] == kind
    assert place.show(exe) == VARIABLES
    for flags in ("-O", "-OO", "-I", "-E", "-s"):
        assert place.show(exe, flags) == VARIABLES, flags
    assert hook_of(place, exe)["state"] == "installed", "no start changed a file of the hook"
    installed = {p: v for p, v in tree(place.root / "python").items() if p not in before}
    assert all(v[1] == (0o755 if v[0] == "d" else 0o644) for v in installed.values())
    place.ctl("python", "remove", "--python", exe)
    assert tree(place.root / "python") == before
    assert place.show(exe) == {}
    assert place.ctl("python", "status", "--python", exe, ok=1)
    assert b"No hook" in place.ctl("python", "remove", "--python", exe).stdout


@pytest.mark.parametrize("python, kind", every())
def test_compiled_files_are_used(place, python, kind):
    """Unchecked-hash files of exactly that interpreter: a start finds them and writes none."""
    exe = make(place, python, kind)
    assert place.json("python", "install", "--python", exe)["compiled"] is True
    directory = pathlib.Path(hook_of(place, exe)["path"])
    magic = place.start(exe, "-c", "import importlib.util, sys; sys.stdout.write(importlib.util.MAGIC_NUMBER.hex())")
    compiled = sorted((directory / "__pycache__").iterdir())
    assert len(compiled) == 12
    for file in compiled:
        assert file.read_bytes()[:8].hex() == magic + "01000000", file
    before = tree(directory)
    entry = next(f for f in directory.iterdir() if f.name in ("sitecustomize.py", "__init__.py"))
    out = subprocess.run([exe, "-v", "-c", ""], env=clean_environ(), capture_output=True, text=True).stderr
    cache = directory / "__pycache__" / f"{entry.stem}.cpython-{python.xy.replace('.', '')}.pyc"
    assert f"code object from '{cache}'" in out or f"code object from \"{cache}\"" in out or f"{cache} matches" in out, out[-3000:]
    assert tree(directory) == before


@pytest.mark.parametrize("kind", ["base", "venv"])
def test_install_again_changes_nothing(place, kind):
    exe = make(place, pythons.ALL[-1], kind)
    assert place.json("python", "install", "--python", exe)["changed"] is True
    before = tree(place.root)
    assert place.json("python", "install", "--python", exe)["changed"] is False
    assert tree(place.root) == before


@pytest.mark.parametrize("kind", ["base", "venv"])
def test_an_older_hook_is_replaced(place, kind):
    exe = make(place, pythons.ALL[-1], kind)
    before = tree(place.root / "python")
    place.ctl("python", "install", "--python", exe)
    directory = pathlib.Path(hook_of(place, exe)["path"])
    manifest = directory / "manifest"
    entry = next(f for f in directory.iterdir() if f.name in ("sitecustomize.py", "__init__.py"))
    old = entry.read_text().replace("hook.start(", "hook.started(")
    digests = hashlib.sha256(entry.read_bytes()).hexdigest(), hashlib.sha256(old.encode()).hexdigest()
    entry.write_text(old)
    manifest.write_text(manifest.read_text().replace("version ", "version 0.0.").replace(*digests))
    assert hook_of(place, exe)["state"] == "older"
    assert place.json("python", "install", "--python", exe)["changed"] is True
    assert hook_of(place, exe)["state"] == "installed"
    assert place.show(exe) == VARIABLES
    place.ctl("python", "remove", "--python", exe)
    assert tree(place.root / "python") == before


def test_a_hook_made_for_another_extension_is_older(place, base):
    place.ctl("python", "install", "--python", base)
    manifest = pathlib.Path(hook_of(place, base)["path"]) / "manifest"
    lines = manifest.read_text().splitlines(True)
    manifest.write_text("".join(line.replace("extension ", "extension 1") for line in lines))
    assert hook_of(place, base)["state"] == "older"
    assert place.ctl("python", "status", "--python", base).returncode == 0


def test_base_covers_its_venvs_and_a_venv_itself_alone(place, base):
    """Also a venv with copies in place of links."""
    inside = pythons.make_venv(base, place.root / "one")
    copies = place.root / "copies"
    subprocess.run([base, "-m", "venv", "--without-pip", "--copies", copies], check=True, env=clean_environ(), capture_output=True)
    other = pythons.make_venv(base, place.root / "two")
    place.ctl("python", "install", "--python", inside)
    assert (place.show(inside), place.show(base), place.show(other)) == (VARIABLES, {}, {})
    place.ctl("python", "remove", "--python", inside)
    place.ctl("python", "install", "--python", copies / "bin/python3")
    assert (place.show(copies / "bin/python3"), place.show(base)) == (VARIABLES, {})
    place.ctl("python", "remove", "--python", copies / "bin/python3")
    place.ctl("python", "install", "--python", base)
    assert [place.show(e) for e in (inside, base, other, copies / "bin/python3")] == [VARIABLES] * 4


def test_method_pth_on_a_base(place, base):
    if str(pythons.ALL[-1]).startswith("debian"):
        pytest.skip("n/a: Debian's python3 has its .pth files below /usr/local, not in the copy of its tree")
    before = tree(place.root / "python")
    assert place.json("python", "install", "--python", base, "--method", "pth")["method"] == "pth"
    assert place.show(base) == VARIABLES
    place.ctl("python", "remove", "--python", base)
    assert tree(place.root / "python") == before


def test_a_real_zip_file_stays(place, base):
    if str(pythons.ALL[-1]).startswith("debian"):
        pytest.skip("n/a: Debian's python3 has its .pth files below /usr/local, not in the copy of its tree")
    python = pythons.ALL[-1]
    zipped = place.root / f"python/lib/python{python.xy.replace('.', '')}.zip"
    shutil.make_archive(str(zipped)[:-4], "zip", SRC / "client/python", "cudaenv_apply.py")
    before = tree(place.root / "python")
    assert place.json("python", "install", "--python", base)["method"] == "pth"
    assert place.show(base) == VARIABLES
    assert place.ctl("python", "install", "--python", base, "--method", "directory", ok=1)
    place.ctl("python", "remove", "--python", base)
    assert tree(place.root / "python") == before


def zip_place(place):
    return place.root / f"python/lib/python{pythons.ALL[-1].xy.replace('.', '')}.zip"


@pytest.mark.parametrize("what", ["directory", "empty directory", "link", "dangling link", "fifo"])
def test_what_others_put_there_stays(place, base, what):
    target = zip_place(place)
    if what.endswith("directory"):
        target.mkdir()
        if what == "directory":
            (target / "README").write_text("mine")
    elif what == "fifo":
        os.mkfifo(target)
    else:
        elsewhere = place.root / "elsewhere"
        if what == "link":
            elsewhere.mkdir()
        target.symlink_to(elsewhere)
    before = {p: v for p, v in tree(place.root).items() if "fifo" not in what}  if what != "fifo" else None
    done = place.ctl("python", "install", "--python", base, "--method", "directory", ok=1)
    assert b"not cudaenv's" in done.stderr
    place.ctl("python", "remove", "--python", base, "--method", "directory", ok=1)
    if before is not None:
        assert tree(place.root) == before
    assert os.path.lexists(target)


def test_foreign_files_are_kept(place, base, venv=None):
    """Among ours on install, and on remove."""
    place.ctl("python", "install", "--python", base)
    mine = zip_place(place) / "mine.py"
    mine.write_text("x = 1\n")
    (zip_place(place) / "manifest").write_text((zip_place(place) / "manifest").read_text().replace("version ", "version 0."))
    done = place.ctl("python", "install", "--python", base, ok=1)
    assert b"mine.py" in done.stderr
    done = place.ctl("python", "remove", "--python", base, ok=1)
    assert b"mine.py" in done.stderr
    assert sorted(os.listdir(zip_place(place))) == ["__pycache__", "manifest", "mine.py"]
    mine.unlink()
    place.ctl("python", "remove", "--python", base)
    assert not zip_place(place).exists()


def test_changed_files_are_kept_until_repaired(place, base):
    before = tree(place.root / "python")
    place.ctl("python", "install", "--python", base)
    entry = zip_place(place) / "sitecustomize.py"
    entry.write_text("# mine now\n")
    assert hook_of(place, base)["state"] == "damaged"
    assert place.ctl("python", "status", "--python", base, ok=1)
    assert b"sitecustomize.py" in place.ctl("python", "remove", "--python", base, ok=1).stderr
    assert entry.read_text() == "# mine now\n"
    place.ctl("python", "install", "--python", base)
    assert hook_of(place, base)["state"] == "installed"
    place.ctl("python", "remove", "--python", base)
    assert tree(place.root / "python") == before


@pytest.mark.parametrize("manifest", ["", "cudaenv-hook 1\nversion 0.1.0\n", None, "cudaenv-hook 1\nversion 1\nfile ../x\nend\n",
                                      "cudaenv-hook 1\nversion 1\nfile " + "0" * 64 + " ../../../../tmp/x\nend\n"])
def test_without_a_whole_manifest_nothing_is_removed_but_install_repairs(place, base, manifest):
    before = tree(place.root / "python")
    place.ctl("python", "install", "--python", base)
    file = zip_place(place) / "manifest"
    file.unlink()
    if manifest is not None:
        file.write_text(manifest)
    damaged = tree(place.root / "python")
    assert b"repairs" in place.ctl("python", "remove", "--python", base, ok=1).stderr
    assert tree(place.root / "python") == damaged
    place.ctl("python", "install", "--python", base)
    assert place.show(base) == VARIABLES
    place.ctl("python", "remove", "--python", base)
    assert tree(place.root / "python") == before


def test_a_foreign_pth_is_kept(place, venv):
    packages = next((place.root / "python/lib").glob("python3*")) / "site-packages"
    (packages / "00-cudaenv.pth").write_text("import sys\n")
    before = tree(place.root / "python")
    place.ctl("python", "install", "--python", venv, ok=1)
    assert tree(place.root / "python") == before


def test_leftovers_of_an_interrupted_installation_go(place, base):
    before = tree(place.root / "python")
    stage = zip_place(place).parent / ".cudaenv-stage-0123456789abcdef"
    (stage / "__pycache__").mkdir(parents=True)
    (stage / "sitecustomize.py").write_text("half")
    (stage / "__pycache__/x.pyc").write_text("half")
    place.ctl("python", "install", "--python", base)
    assert not stage.exists()
    place.ctl("python", "remove", "--python", base)
    assert tree(place.root / "python") == before


def test_dry_run_changes_nothing(place, base):
    before = tree(place.root)
    assert b"Would install" in place.ctl("python", "install", "--python", base, "--dry-run").stdout
    assert place.json("python", "install", "--python", base, "--dry-run")["dry_run"] is True
    assert tree(place.root) == before
    place.ctl("python", "install", "--python", base)
    before = tree(place.root)
    assert b"Would remove" in place.ctl("python", "remove", "--python", base, "--dry-run").stdout
    assert tree(place.root) == before


def test_without_python_it_only_plans(place, base):
    """The pyenv layout is one of the usual places."""
    root = place.root / "pyenv/versions"
    root.mkdir(parents=True)
    (root / "9").symlink_to(place.root / "python")
    before = tree(place.root)
    for action in ("install", "remove", "status"):
        answer = place.json("python", action, PYENV_ROOT=place.root / "pyenv", ok=None)
        assert f"{root}/9/bin/python3" in [p["python"] for p in answer["pythons"]]
    assert b"Nothing was changed" in place.ctl("python", "install", PYENV_ROOT=place.root / "pyenv").stdout
    assert tree(place.root) == before


def test_names_of_the_interpreter(place, base):
    """Links from elsewhere, relative paths, PATH, a name without a version."""
    link = place.root / "mypython"
    link.symlink_to(base)
    answer = place.json("python", "install", "--python", link)
    assert answer["path"] == str(zip_place(place))
    assert place.json("python", "install", "--python", "python3", PATH=f"{base.parent}:/usr/bin:/bin")["changed"] is False
    done = subprocess.run([CTL, "python", "status", "--python", "./python3", "--json"], cwd=base.parent, capture_output=True,
                          env=clean_environ(CUDAENV_RUNTIME_DIR=place.published.path))
    assert json.loads(done.stdout)["pythons"][0]["hooks"][0]["state"] == "installed"
    plain = place.root / "python/bin/python-of-ours"
    shutil.copy2(os.path.realpath(base), plain)
    assert place.json("python", "status", "--python", plain)["pythons"][0]["version"] == pythons.ALL[-1].xy


def test_what_is_no_interpreter_is_refused(place, base):
    """By the name of the file at the end of all links: other programs of a prefix have its standard library above them, too."""
    for name in ("ls", "perl", "bash", "true"):
        program = pathlib.Path("/bin") / name
        if not program.exists():
            continue
        done = place.ctl("python", "install", "--python", program, ok=2)
        assert f"{program} is not a Python interpreter\n" in done.stderr.decode()
        beside = shutil.copy2(program, place.root / "python/bin" / name)
        assert b"not a Python" in place.ctl("python", "status", "--python", beside, ok=2).stderr
        assert b"not a Python" in place.ctl("python", "remove", "--python", name, ok=2).stderr
    link = place.root / "python/bin/python3.98"
    link.symlink_to("true")
    assert f"but a link to {place.root}/python/bin/true" in place.ctl("python", "install", "--python", link, ok=2).stderr.decode()
    script = place.root / "shim"
    script.write_text("#!/bin/sh\nexec python3 \"$@\"\n")
    script.chmod(0o755)
    assert b"script" in place.ctl("python", "install", "--python", script, ok=2).stderr
    assert place.ctl("python", "install", "--python", place.root / "nowhere", ok=2)
    assert place.ctl("python", "install", "--python", place.root, ok=2)
    assert place.ctl("python", "sideways", "--python", base, ok=2)
    assert place.ctl("python", "install", "--python", base, "--method", "ptth", ok=2)
    assert place.ctl("python", "install", "--python", base, "--runtime-dir", "relative", ok=2)


def test_a_directory_in_place_of_the_interpreter(place, venv):
    """What was meant is proposed; also for a name without '/'."""
    directory = place.root / "python"
    for given in (f"{directory}", f"{directory}/", f"{directory}/bin/..", "python"):
        done = subprocess.run([CTL, "python", "install", "--python", given], cwd=place.root, capture_output=True, text=True,
                              env=clean_environ(CUDAENV_RUNTIME_DIR=place.published.path, PATH=place.root))
        assert done.returncode == 2
        assert f"is a directory: give {given.rstrip('/')}/bin/python3\n" in done.stderr
    assert f"give {directory}/bin/python3" in place.ctl("python", "install", "--python", f"{directory}/bin", ok=2).stderr.decode()
    assert b"not a Python" in place.ctl("python", "install", "--python", place.root, ok=2).stderr
    assert place.ctl("python", "install", "--python", "", ok=2)


def test_two_versions_in_one_prefix(place, base):
    """As in /usr: the file's name tells, and where it does not, the answer is a question."""
    library = place.root / "python/lib/python3.99"
    library.mkdir()
    (library / "os.py").write_text("")
    (place.root / "python/bin/python3.99").symlink_to("/bin/true")
    assert place.json("python", "install", "--python", base)["path"] == str(zip_place(place))
    done = place.ctl("python", "status", "--python", shutil.copy2("/bin/true", place.root / "python/bin/python"), ok=2)
    assert b"several versions" in done.stderr


@pytest.mark.parametrize("layout", ["usr/local", "opt/conda", "lib64", "odd \"name\" $(x) \\ 'é'\tx"])
def test_layouts(place, layout):
    python = pythons.ALL[-1]
    prefix = place.root / ("python" if layout == "lib64" else layout)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    exe = pythons.copy_base(python, prefix)
    if layout == "lib64":
        # As Fedora has it, where the interpreter is built so: here only the paths can be tested.
        (prefix / "lib").rename(prefix / "lib64")
        answer = place.json("python", "status", "--python", exe, ok=1)["pythons"][0]["hooks"]
        assert answer[0]["path"] == f"{prefix}/lib64/python{python.xy.replace('.', '')}.zip"
        return
    before = tree(prefix)
    run = Published(place.root / f"run{layout.replace('/', '')}")
    run.assign(run.variables())
    place.published = run
    place.ctl("python", "install", "--python", exe)
    assert place.show(exe) == VARIABLES, "the recorded directory is found whatever its name"
    place.ctl("python", "remove", "--python", exe)
    assert tree(prefix) == before


@pytest.mark.parametrize("name", ["\udcff", "quote\"'\\", "{x}%s@SIZE@", "\x7f\x01"])
def test_odd_names_of_the_recorded_directory(place, venv, name):
    """Bytes that are no text as well: the hook has them in a string of Python."""
    place.published.path.rename(place.root / name)
    place.published.path = place.root / name
    place.ctl("python", "install", "--python", venv)
    assert place.show(venv) == VARIABLES
    assert place.ctl("python", "install", "--python", venv, "--runtime-dir", "/a\nb", ok=2)


def test_recorded_directory(place, base):
    """--runtime-dir before the environment of the installation; the system's is not recorded."""
    place.ctl("python", "install", "--python", base, "--runtime-dir", "/nowhere")
    assert place.show(base) == {}
    assert hook_of(place, base)["runtime_dir"] == "/nowhere"
    place.ctl("python", "install", "--python", base)
    assert place.show(base) == VARIABLES
    place.ctl("python", "install", "--python", base, "--runtime-dir", "/run/cudaenv")
    assert hook_of(place, base)["runtime_dir"] is None
    assert place.show(base, CUDAENV_RUNTIME_DIR=place.published.path) == VARIABLES


@pytest.mark.parametrize("kind", ["base", "venv"])
@pytest.mark.parametrize("before", [[], ["--runtime-dir", "/nowhere"]], ids=["none", "another"])
def test_ones_own_directory_is_recorded(place, kind, before):
    """Also the default one, which comes after the system's; a hook that has another or none is replaced."""
    exe, own = make(place, pythons.ALL[-1], kind), f"/run/user/{os.geteuid()}/cudaenv"
    if not before:
        before = ["--runtime-dir", "/run/cudaenv"]
    place.ctl("python", "install", "--python", exe, *before)
    assert hook_of(place, exe)["runtime_dir"] in (None, "/nowhere")
    for arguments, directory in ((["--user"], own), (["--runtime-dir", own], own), (["--user"], "/elsewhere/cudaenv")):
        env = clean_environ(HOME=place.root)
        if directory != own:
            env["XDG_RUNTIME_DIR"] = "/elsewhere"
        for changed in (arguments != ["--runtime-dir", own], False):
            done = subprocess.run([CTL, "python", "install", "--python", exe, "--json", *arguments], env=env, capture_output=True)
            answer = json.loads(done.stdout)
            assert (answer["changed"], answer["runtime_dir"]) == (changed, directory)
            assert (hook_of(place, exe)["runtime_dir"], hook_of(place, exe)["state"]) == (directory, "installed")
    done = place.ctl("python", "install", "--python", exe)
    assert done.stdout.startswith(b"Installed ") and f"It looks first in {place.published.path}.".encode() in done.stdout
    assert place.show(exe) == VARIABLES


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a mount")
def test_ones_own_daemon_beside_the_systems(place, venv):
    """With an empty /run of one's own, in a mount namespace: both have published, the hook of --user goes by the user's."""
    system = Published(place.root / "system")
    system.assign(system.variables({"NCCL_PROTO": "Simple"}))
    script = f"""
mount -t tmpfs -o mode=755 tmpfs /run || exit 99
set -e
mkdir -p /run/user/0
cp -a {system.path} /run/cudaenv
cp -a {place.published.path} /run/user/0/cudaenv
{CTL} python install --python {venv} >/dev/null
{venv} -c '{SHOW.replace("'", '"')}'
echo
{CTL} --user python install --python {venv} >/dev/null
{venv} -c '{SHOW.replace("'", '"')}'
"""
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, env=clean_environ(HOME=place.root))
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("no mounts here: " + done.stderr)
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"NCCL_PROTO": "Simple"}, VARIABLES]


@pytest.mark.parametrize("what, notes", [
    (dict(), ""), (dict(mode="observe"), "mode is observe: nothing is set until cudaenvctl on"),
    (dict(mode="off"), "mode is off: nothing is set until cudaenvctl on"),
    (dict(default="none"), "no profile is in use: nothing is set until cudaenvctl use PROFILE"),
    (dict(default="none", rules=["rule a none", "when uid 0"]), ""), (None, "nothing is published in")], ids=str)
def test_install_says_why_nothing_will_be_set(place, venv, what, notes):
    """It promises no profile where what is published gives none."""
    if what is None:
        (place.published.path / "assign").unlink()
    else:
        place.published.assign(**{"default": place.published.variables(), **what})
    for first in (True, False):
        done = place.ctl("python", "install", "--python", venv)
        assert done.stdout.decode().endswith("It takes effect at each start from now on.\n")
        assert done.stderr.decode().count("\n") == bool(notes) and notes in done.stderr.decode()
    assert notes in place.ctl("python", "install", "--python", venv, "--runtime-dir", place.published.path, "--json").stderr.decode()


def test_a_reason_goes_with_a_change(place, venv):
    for action in ("install", "remove"):
        place.ctl("python", action, "--python", venv, "--reason", "x")
    assert b"changes nothing" in place.ctl("python", "status", "--python", venv, "--reason", "x", ok=2).stderr


def test_status_says_that_it_shows_no_venvs(place):
    text = "venvs only with --python"
    assert text in place.ctl("python", "--help").stdout.decode()
    assert text in place.ctl("python", "status", ok=None).stdout.decode()


# --- who owns what

def replace(place, exe, body):
    """Puts a C program in the interpreter's place."""
    source = place.root / "program.c"
    source.write_text("#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\nint main(void) { %s return 0; }\n" % body)
    binary = pathlib.Path(os.path.realpath(exe))
    binary.unlink()
    subprocess.run([os.environ.get("CC", "cc").split()[0], "-o", binary, source], check=True)


def spy(place, exe):
    """It leaves a file behind when it runs."""
    marker = place.root / "it-ran"
    replace(place, exe, f'close(open("{marker}", O_CREAT | O_WRONLY, 0600));')
    return marker


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs several uids")
needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="needs a compiler")


def chown_tree(root, uid):
    for directory, names, files in os.walk(root):
        for name in [directory] + [os.path.join(directory, n) for n in files]:
            os.lchown(name, uid, uid)


@needs_cc
def test_the_spy_itself(place, base):
    """An interpreter that is safe is run: what the next tests rely on."""
    marker = spy(place, base)
    place.ctl("python", "install", "--python", base)
    assert marker.exists()


WHOLE = 'for (int i = 0; i < 12; i++) printf("16\\n0123456789abcdef");'


@needs_cc
@pytest.mark.parametrize("body", [
    'return 1;', 'printf("garbage");', 'printf("/etc/passwd\\n1\\n");', 'printf("cpython-3\\n1\\n");',
    'printf("cpython-3\\n1\\n"); for (int i = 0; i < 12; i++) printf("15\\n0123456789abcde");',
    'printf("cpython-3\\n1\\n%s");' + WHOLE + 'printf("more");', 'for (;;) puts("x");', 'close(0); close(1);',
    'printf("cpython-3\\n1\\n99999999999999999999\\n");', '*(volatile char *)0 = 1;'], ids=range(10))
def test_an_interpreter_that_does_not_compile(place, base, body):
    """Whatever it answers: the hook comes without compiled files."""
    replace(place, base, body)
    answer = place.json("python", "install", "--python", base)
    assert answer["compiled"] is False and answer["note"]
    assert not (zip_place(place) / "__pycache__").exists()


@needs_cc
def test_an_interpreter_that_looks_elsewhere(place, base):
    """Its own word on sys.path counts: no directory that it would not read."""
    replace(place, base, 'printf("cpython-3\\n1\\n");' + WHOLE)
    assert place.json("python", "install", "--python", base)["compiled"] is True
    place.ctl("python", "remove", "--python", base)
    replace(place, base, 'printf("cpython-3\\n0\\n");' + WHOLE)
    assert b"--method pth" in place.ctl("python", "install", "--python", base, ok=1).stderr
    assert not zip_place(place).exists()
    assert place.json("python", "install", "--python", base, "--method", "pth")["compiled"] is True


@needs_root
@needs_cc
@pytest.mark.parametrize("how", ["owner of all", "owner of the binary", "owner of a library file", "writable directory",
                                 "writable library file", "writable binary"])
def test_what_others_could_change_is_never_run(place, own_base, how):
    marker = spy(place, own_base)
    binary, library = os.path.realpath(own_base), next((place.root / "python/lib").glob("python3.*"))
    if how == "owner of all":
        chown_tree(place.root / "python", 12345)
    elif how == "owner of the binary":
        os.chown(binary, 12345, 12345)
    elif how == "owner of a library file":
        os.chown(library / "encodings/__init__.py", 12345, 12345)
    elif how == "writable directory":
        (place.root / "python").chmod(0o775)
    elif how == "writable library file":
        (library / "os.py").chmod(0o666)
    else:
        os.chmod(binary, 0o777)
    done = place.ctl("python", "install", "--python", own_base)
    assert b"without compiled files" in done.stderr
    assert not marker.exists()


@needs_root
def test_a_users_tree(place, own_base):
    """Its hook works without compiled files, belongs to the user, and goes again to the byte."""
    chown_tree(place.root / "python", 12345)
    before = tree(place.root / "python")
    answer = place.json("python", "install", "--python", own_base)
    assert answer["compiled"] is False and answer["owner_uid"] == 12345 and answer["note"]
    assert not (zip_place(place) / "__pycache__").exists()
    for path in [zip_place(place), *zip_place(place).iterdir()]:
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12345)
    assert place.show(own_base) == VARIABLES
    # Root's own start has left compiled files; they are taken for what they are.
    assert {e["state"] for e in hook_of(place, own_base)["files"]} == {"good", "cache"}
    place.ctl("python", "remove", "--python", own_base)
    assert tree(place.root / "python") == before


@needs_root
def test_a_user_before_a_tree_of_roots(place, base):
    before = tree(place.root / "python")
    done = subprocess.run([CTL, "python", "install", "--python", base], capture_output=True, text=True, user=12345,
                          group=12345, extra_groups=[], cwd="/", env=clean_environ(CUDAENV_RUNTIME_DIR=place.published.path))
    assert done.returncode == 3
    assert "Permission denied; hook a venv of yours, or run this as root" in done.stderr
    assert tree(place.root / "python") == before


@needs_root
def test_a_link_of_a_user_is_not_followed(place, base):
    """lib/ turned into a link after the path was computed cannot be shown; a link inside it that leads out can."""
    outside = place.root / "outside"
    outside.mkdir()
    zip_place(place).symlink_to(outside)
    place.ctl("python", "install", "--python", base, "--method", "directory", ok=1)
    assert list(outside.iterdir()) == []


@needs_root
def test_a_link_of_a_user_leads_root_nowhere(place, venv):
    """site-packages of a user's venv is a link to a directory of root's: neither install nor remove touches that."""
    outside = place.root / "outside"
    site = next((venv.parent.parent / "lib").glob("python*/site-packages"))
    site.rename(outside)
    site.symlink_to(outside)
    for path in (venv.parent.parent, *venv.parent.parent.rglob("*")):
        os.lchown(path, 12345, 12345)
    before = tree(outside)
    done = place.ctl("python", "install", "--python", venv, ok=3)
    assert b"belongs to uid 0, the interpreter that leads there to uid 12345" in done.stderr
    assert tree(outside) == before
    os.lchown(site, 0, 0)
    os.lchown(venv.parent.parent, 0, 0)
    place.ctl("python", "install", "--python", venv)
    before = tree(outside)
    os.lchown(venv.parent.parent, 12345, 12345)
    place.ctl("python", "remove", "--python", venv, ok=3)
    assert tree(outside) == before


@pytest.mark.skipif(not PYPY, reason="n/a: no PyPy here")
def test_pypy_venv(place):
    exe = pythons.make_venv(PYPY, place.root / "python")
    before = tree(place.root / "python")
    answer = place.json("python", "install", "--python", exe)
    assert (answer["implementation"], answer["method"], answer["compiled"]) == ("PyPy", "pth", True)
    assert place.show(exe) == VARIABLES
    place.ctl("python", "remove", "--python", exe)
    assert tree(place.root / "python") == before


@pytest.mark.parametrize("kind", ["base", "venv"])
@pytest.mark.parametrize("python", pythons.OLDER, ids=str)
def test_older_versions_have_the_reader(place, python, kind):
    exe = make(place, python, kind)
    for flags in ("-O", "-OO", "-I"):
        assert place.show(exe, flags) == {}
    before = tree(place.root / "python")
    answer = place.json("python", "install", "--python", exe)
    assert answer["compiled"] is (python.minor >= 7)
    for flags in ("-O", "-OO", "-I"):
        assert place.show(exe, flags) == VARIABLES
    place.ctl("python", "remove", "--python", exe)
    assert tree(place.root / "python") == before


def test_a_start_file_names_a_function(place, venv):
    """PEP 829, from 3.15 on: pkgutil.resolve_name() of each line, called without arguments."""
    place.ctl("python", "install", "--python", venv)
    packages = next((place.root / "python/lib").glob("python3*")) / "site-packages"
    (packages / "00-cudaenv.pth").unlink()
    code = f"import pkgutil; [pkgutil.resolve_name(l.strip())() for l in open({str(packages)!r} + '/00-cudaenv.start')]; exec({SHOW!r})"
    assert json.loads(place.start(venv, "-c", code)) == VARIABLES


@needs_root
@pytest.mark.skipif(not pathlib.Path("/usr/lib/python3").is_dir(), reason="no interpreter of Debian")
def test_the_distributions_interpreter(place):
    """/usr/bin/python3 itself, in a mount namespace of its own with an overlay on /usr/lib: its sitecustomize and its venvs go on."""
    for name in ("upper", "work"):
        (place.root / name).mkdir()
    mount = f"mount -t overlay overlay -o lowerdir=/usr/lib,upperdir={place.root}/upper,workdir={place.root}/work /usr/lib"
    show = place.root / "show.py"
    show.write_text(SHOW + "\nprint(getattr(sys.modules.get('sitecustomize'), '__file__', None))\n")
    script = f"""
{mount} || exit 99
set -e
/usr/bin/python3 {show}
{CTL} python install --python /usr/bin/python3 >/dev/null
/usr/bin/python3 {show}
/usr/bin/python3 -I {show}
/usr/bin/python3 -m venv --without-pip {place.root}/venv
{place.root}/venv/bin/python3 {show}
{CTL} python remove --python /usr/bin/python3 >/dev/null
"""
    env = clean_environ(CUDAENV_RUNTIME_DIR=place.published.path, PYTHONDONTWRITEBYTECODE=1)
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, env=env, timeout=120)
    if done.returncode in (1, 99) and "unshare" in done.stderr or done.returncode == 99:
        pytest.skip("no mounts here: " + done.stderr)
    assert (done.returncode, done.stderr) == (0, "")
    before, *after = done.stdout.splitlines()
    assert before.startswith("{}")
    assert after == [json.dumps(VARIABLES) + before[2:]] * 3
    assert list((place.root / "upper").iterdir()) == []


@pytest.mark.parametrize("name", ["python", "it's $(touch x) \"é\""])
def test_readme_says_how_to_get_rid_of_it(place, name):
    exe = pythons.make_venv(pythons.ALL[-1].exe, place.root / name)
    place.ctl("python", "install", "--python", exe)
    readme = next((place.root / name / "lib").glob("python3*/site-packages/cudaenv_start/README"))
    command = next(line.strip() for line in readme.read_text().splitlines() if "python remove" in line)
    env = clean_environ(CUDAENV_RUNTIME_DIR=place.published.path, PATH=f"{PREFIX}/bin:/usr/bin:/bin")
    done = subprocess.run(command, shell=True, env=env, capture_output=True, cwd=place.root)
    assert done.returncode == 0, done.stderr
    assert not readme.exists()


JOURNAL = """
import json, os, socket, subprocess, sys
os.makedirs("/run/systemd/journal")
journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
journal.bind("/run/systemd/journal/socket")
for line in json.loads(sys.argv[1]):
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
journal.setblocking(False)
found = []
while True:
    try:
        found.append(journal.recv(8192).decode())
    except BlockingIOError:
        break
print(json.dumps(found))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_leaves_a_line_in_the_journal(place):
    """One for each change, none where nothing was changed; a /run of its own holds the socket."""
    exe = str(make(place, pythons.ALL[0], "venv"))
    lines = [[str(CTL), "python", *words, "--python", exe] for words in (
        ["install", "--dry-run"], ["install", "--reason", "new image"], ["install"], ["status"], ["remove", "--dry-run"], ["remove"],
        ["remove", "--reason", "again"])]
    done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh", "/usr/bin/python3", "-c", JOURNAL,
                           json.dumps(lines)], env=clean_environ(CUDAENV_RUNTIME_DIR=place.published.path), capture_output=True,
                          text=True, timeout=60)
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.returncode == 0, done.stderr
    entries = [dict(line.split("=", 1) for line in entry.splitlines()) for entry in json.loads(done.stdout)]
    more = {"PRIORITY": "5", "SYSLOG_IDENTIFIER": "cudaenvctl", "CUDAENV_UID": "0", "CUDAENV_PATH": exe}
    assert entries == [
        {"MESSAGE": f"Python hook: install in {exe} by uid 0: new image", "CUDAENV_ACTION": "python-install",
         "CUDAENV_REASON": "new image", **more},
        {"MESSAGE": f"Python hook: remove in {exe} by uid 0", "CUDAENV_ACTION": "python-remove", **more}]
    assert b"at most 1024 bytes" in place.ctl("python", "install", "--python", exe, "--reason", "x" * 1025, ok=2).stderr
