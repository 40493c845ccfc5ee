# SPDX-License-Identifier: MIT
"""import: each kind of source against its own reader (Python, shells, systemd), what is left out and why, hostile files; and the
way of a hand-written sitecustomize.py into use and back."""
import json
import os
import random
import subprocess
import time

import pytest
from conftest import CTL, PCIE8, SRC, Node, clean_environ

SEED = SRC / "tests/data/import/sitecustomize.py"


def ctl(*arguments, ok=0, **more):
    done = subprocess.run([CTL, *map(str, arguments)], capture_output=True, timeout=60, **{"env": clean_environ(), **more})
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    assert ok is None or done.returncode == ok, (arguments, done)
    return done


def document(*arguments, ok=0, **more):
    """What was imported; its text passes check, in which a profile without variables is a warning."""
    d = json.loads(ctl("import", *arguments, "--json", ok=ok, **more).stdout)
    checked = json.loads(ctl("check", "-", "--json", input=d["text"].encode()).stdout)
    assert checked["errors"] == 0 and {f["rule"] for f in checked["findings"]} <= {
        "no-variables", "toolkit-root", "toolkit-incomplete", "scope-user", "inline-comment", "quotes", "expansion", "too-late",
        "relative-path", "repeated-element", "backslash-at-end", "case-twins"}, checked
    return d


def values(d):
    return {v["name"]: v["value"] for v in d["variables"]}


def reasons(d):
    return {n["name"]: n["reason"] for n in d["left_out"]}


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path
    return write


def test_the_hand_written_file_into_use_and_back(node):
    """DESIGN's own story: imported, checked, applied, rolled back."""
    d = document(SEED, "--as", "tuned")
    assert values(d) == PCIE8 and d["left_out"] == [] and d["kind"] == "python"
    lines = SEED.read_text().splitlines()
    for v in d["variables"]:
        assert v["file"] == str(SEED) and f'"{v["name"]}"' in lines[v["line"] - 1]
        assert (v["rule"], v["group"]) == ("together", "nccl" if v["name"].startswith("NCCL_") else "toolkit")
    node.variables("before", NCCL_DEBUG="WARN")
    node.start()
    node.ctl("use", "before")
    node.ctl("on")
    text = node.ctl("import", SEED, "--as", "tuned").stdout
    assert text == d["text"] and "cudaenvctl use tuned" in text
    node.profile("tuned", text)
    node.ctl("check", "tuned")
    node.ctl("use", "tuned")
    shown = {v["name"]: v["value"] for v in node.json("show")["variables"]}
    assert PCIE8.items() <= shown.items()
    inside = node.ctl("exec", "env", "-0").stdout.split("\0")
    assert {f"{k}={v}" for k, v in PCIE8.items() if k.startswith("NCCL_")} <= set(inside)
    node.ctl("rollback")
    assert "NCCL_DEBUG=WARN" in node.ctl("exec", "env", "-0").stdout.split("\0")


# --- Python


def run_python(path):
    """os.environ after a real interpreter ran PATH."""
    code = ("import os, runpy, sys\nfor k in list(os.environ): del os.environ[k]\nrunpy.run_path(sys.argv[1])\n"
            "sys.stdout.buffer.write(b'\\0'.join(os.fsencode(k) + b'=' + os.fsencode(v) for k, v in os.environ.items()))")
    done = subprocess.run(["/usr/bin/python3", "-I", "-X", "utf8", "-c", code, path], capture_output=True, timeout=20, check=True)
    return dict(s.split(b"=", 1) for s in done.stdout.split(b"\0") if s)


def literal(r, value):
    """One of the ways to write VALUE in Python."""
    def quoted(part):
        kind = r.randrange(5)
        if kind == 0:
            return repr(part)
        if kind == 1:
            return r.choice(["", "u"]) + '"' + "".join(r.choice([f"\\u{ord(c):04x}", f"\\x{ord(c):02x}" if ord(c) < 256 else c])
                                                       if r.random() < 0.3 else c.replace("\\", "\\\\").replace('"', '\\"')
                                                       for c in part) + '"'
        if kind == 2 and "'" not in part and not part.endswith("\\") and "\n" not in part:
            return f"r'{part}'" if "\\'" not in part else repr(part)
        if kind == 3 and '"' not in part:
            return '"""' + part.replace("\\", "\\\\") + '"""'
        return "'" + "".join(f"\\{ord(c):03o}" if ord(c) < 128 and r.random() < 0.3 else c.replace("\\", "\\\\").replace("'", "\\'")
                             for c in part) + "'"
    if r.random() < 0.3 and value:
        cut = r.randrange(len(value))
        return "(" + quoted(value[:cut]) + r.choice([" ", "\n    ", "  # 'x\n    "]) + quoted(value[cut:]) + ")"
    return quoted(value)


STATEMENTS = ["os.environ[{0}] = {1}", "o.environ.setdefault({0}, {1})", "e.update({{{0}: {1}}})", "e.update(\n    {{{0}: {1},}},\n)",
              "if {0} not in os.environ:\n    os.environ[{0}] = {1}", "if {0} not in e: e[{0}] = {1}", "x = 1; e[{0}] = {1}; y = 2",
              "try:\n\te[{0}] = {1}\nexcept Exception:\n\tpass", "e |= {{{0}: {1}}}"]


def test_strings_as_python_reads_them(write):
    r = random.Random(7)
    letters = "ab=01 \t\\'\"#{}()[],;:$%\u00e9\u20ac\U0001F600"
    program, wanted = ["import os, os as o", "from os import environ as e"], {}
    for i in range(400):
        value = "".join(r.choice(letters) for _ in range(r.randrange(12))).strip(" \t")
        key = r.choice([f'"V{i}"', f"'V{i}'", f"r'V{i}'", f"('V' '{i}')"])
        program.append(r.choice(STATEMENTS).format(key, literal(r, value)))
        wanted[f"V{i}"] = value
    source = write("sitecustomize.py", "\n".join(program) + "\n")
    real = {k.decode(): v.decode() for k, v in run_python(source).items()}
    assert real == wanted, "the test itself"
    assert values(document(source)) == wanted


FORMS = r'''
import os, sys
BASE = "/usr/local/cuda-13.0"
os.environ["A"] = BASE + "/bin"
os.environ["B"] = f"{BASE}"
os.environ["C"] = str(16)
os.environ.setdefault("D", os.environ.get("A", "x"))
os.environ.update({"E": "good", "F": BASE, **{"G": "h"}})
if sys.platform == "linux":
    os.environ["H"] = "i"
def later():
    os.environ["J"] = "k"
for name in ("L", "M"):
    os.environ[name] = "n"
os.environ["HF_TOKEN"] = "hunter2"
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
os.environ["O"] = "two\nlines"
os.environ["P"] = " blank"
os.environ["Q"] = "\udcff"
os.environ["R"], x = "s", "t"
'''


def test_what_is_no_constant_is_left_out(write):
    source = write("sitecustomize.py", FORMS)
    d = document(source)
    base = "/usr/local/cuda-13.0"
    assert values(d) == {"A": f"{base}/bin", "B": base, "C": "16", "E": "good", "F": base, "G": "h", "L": "n", "M": "n"}
    real = run_python(source)
    assert all(real[name.encode()] == value.encode() for name, value in values(d).items())
    why = {n["name"] or n["line"]: n["reason"] for n in d["left_out"]}
    for name in "DHJOPQR":
        assert name in why, name
    assert "environment" in why["D"] and "condition (if, line 9)" in why["H"]
    assert "function" in why["J"] and "several lines" in why["O"]
    assert "secret" in why["HF_TOKEN"] and "scheduler" in why["CUDA_VISIBLE_DEVICES"]
    assert "hunter2" not in json.dumps(d)
    for n in d["left_out"]:
        assert n["file"] == str(source) and f"{source}:{n['line']}: " in d["text"]


@pytest.mark.parametrize("name", ["sglang-sitecustomize.py", "vllm-helper.py", "nccl-update.py", "launcher.py"])
def test_what_is_taken_is_what_python_does(name):
    """Files as they are written by hand (the unit test has their profiles)."""
    source = SEED.parent / name
    real = run_python(source)
    for n, value in values(document(source)).items():
        assert real.get(n.encode()) == (value.encode() if value is not None else None), n


def test_left_out_lines_are_told_where_the_profile_goes_to_a_file(write, tmp_path):
    source = write("sitecustomize.py", FORMS)
    done = ctl("import", source, "-o", tmp_path / "a.ini")
    assert f"{source}:10: H: it depends on a condition (if, line 9)\n" in done.stderr and "hunter2" not in done.stderr
    assert done.stderr.count("\n") == len(document(source)["left_out"]) and f"{done.stderr.count(chr(10))} remarks" in done.stdout
    many = write("many.py", "import os\nos.environ['A'] = 'b'\n" + "".join(f"os.environ['B{i}'] = x\n" for i in range(30)))
    done = ctl("import", many, "-o", tmp_path / "b.ini")
    assert len(done.stderr.splitlines()) == 21
    assert done.stderr.endswith(f"10 more were left out: see the comments at the end of {tmp_path}/b.ini\n")
    none = write("none.py", "import os\nos.environ['A'] = x\n")
    assert f"{none}:2: A: x is not bound in this file\n" in ctl("import", none, "-o", tmp_path / "c.ini", ok=1).stderr


def test_the_head_is_true_of_the_file(write):
    head = lambda text: ctl("import", write("sitecustomize.py", "import os\n" + text)).stdout.splitlines()[2]
    two = "os.environ.setdefault('NCCL_ALGO', 'Ring')\nos.environ.setdefault('NCCL_PROTO', 'LL')\n"
    assert head(two) == "# setdefault has become [together nccl]: what a process has stays."
    assert head(two + "os.environ.setdefault('A', 'b')\nos.environ['C'] = 'd'\n") == (
        "# setdefault has become [together nccl] and [env], an assignment has become [env.force]: it replaces what a process has.")
    assert head("os.environ['C'] = 'd'\n") == "# An assignment has become [env.force]: it replaces what a process has."


# --- shells


SHELL = r"""
# comment
export A=plain B='single $x `y` "z"' C="double \$x \`y \"z\" 'w' \q" D=a\ b\\c E='it'"'"'s' F=
G=later; export G
export H I=x#y; J=not # J stays
export H
H=set
if true; then export K=branch; fi
set -a; L=all; set +a
cat <<'E' >/dev/null
export M=document
E
export N=one\
two O='three
four'
export P=$A Q=${A} R=$(echo x) S=`echo x` T=~
export U=first; export U=second
export V=gone; unset V
f() { export W=function; }
[ -n "$A" ] && export X=and
Y=/y; export Y1=$Y/bin:"${Y}x" Y2=${Y2:-$Y/z} "Y3=$Y"; : "${Y4:=d e}" ${Y5=f}; export Y4 Y5
export Y6=$((16*1024*1024)) Y7="$(( (1<<4) + 2 - 3 / 2 ))" Y8=${A:-no} Y9=${F:-empty} Z1=${F-unset} Z2="a${Y}b$Y"
Z3=${Z3:=g}; export Z3
Y=later; export Z4=$Y Z5=${NOT_SET:-x}
"""


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh"])
def test_shell_values_are_those_of_the_shell(write, shell):
    source = write("env.sh", SHELL)
    done = subprocess.run(["env", "-i", shell, "-c", f'. "{source}"; /usr/bin/env -0'], capture_output=True, check=True, timeout=20)
    real = dict(s.split("=", 1) for s in done.stdout.decode().split("\0") if s)
    d = document(source)
    got = values(d)
    assert set("ABCDEFGHILNUPQ") <= got.keys() and got["V"] is None
    assert {f"Y{i}" for i in range(1, 10)} | {"Z1", "Z2", "Z3", "Z4"} <= got.keys()
    for name, value in got.items():
        assert real.get(name) == value, name
    why = reasons(d)
    assert set("KORSTX") | {"Z5"} <= why.keys() and "needs expansion" in why["T"] and "not exported" in why["J"]
    # Nothing that the shell exported is passed over in silence.
    assert real.keys() - got.keys() - why.keys() <= {"PWD", "SHLVL", "_", "OLDPWD", "HOME", "LOGNAME"}


# --- nccl.conf and environment files


def test_nccl_conf(write):
    d = document(write("nccl.conf", "# c\nNCCL_ALGO=Ring\nNCCL_PROTO=LL # not a comment\nNCCL_ALGO=Tree\n NCCL_DEBUG=INFO\nNCCL_X =y\n"
                                    "CUDA_VISIBLE_DEVICES=0\nLD_PRELOAD=/x.so\nNCCL_Y= z\n"))
    assert values(d) == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL # not a comment", "LD_PRELOAD": "/x.so"}
    assert "before, which counts" in reasons(d)["NCCL_ALGO"] and "blank" in reasons(d)["NCCL_Y"]
    assert [n["line"] for n in d["left_out"] if n["name"] is None] == [5, 6]


# --- units


UNIT = r"""[Unit]
Description=x
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/env -0
StandardOutput=file:/out
Environment=A=plain "B=two words" 'C=single "x"' D=a"b c"d E=x\x41\t\101\u00e9 F=
Environment=G=1 \
  # comment in between
  ; and another
  "H=2 \
3"
Environment="I=100%%" J=%n
Environment=K=\"quoted\" L='it\'s' "M=a\sb"
Environment=N=before-bad "O=unclosed
Environment=P=bad\q
Environment=HF_TOKEN=hunter2 CUDA_VISIBLE_DEVICES=0
EnvironmentFile=/etc/job.env
PassEnvironment=LANG
UnsetEnvironment=Q
Environment=Q=unset R=dropped
"""
DROPIN = "[Service]\nEnvironment=A=from-drop-in S=new\nEnvironment=NCCL_ALGO=Ring NCCL_PROTO=LL\n"
ENVFILE = r"""# c
; d
T=a b  c
U='single $x \y'
V="double \"x\" \$ \q"
W=one\
two
X=back\slash
Y= lead
Z="a" b
"""


@pytest.fixture
def units(tmp_path):
    """Two directories of units, and what finds them."""
    for name, text in {"etc/job.service": UNIT, "lib/job.service": "[Service]\nEnvironment=A=hidden\n",
                       "lib/job.service.d/50-x.conf": "[Service]\nEnvironment=A=hidden-too\n", "etc/job.service.d/50-x.conf": DROPIN,
                       "lib/job.service.d/10-y.conf": "[Service]\nEnvironment=AA=earlier A=overridden\n",
                       "etc/job.service.d/99-empty.conf": "", "lib/job.service.d/99-empty.conf": "[Service]\nEnvironment=BB=masked\n",
                       "lib/service.d/60-all.conf": "[Service]\nEnvironment=CC=all\n",
                       "lib/w@.service": "[Service]\nEnvironment=A=template B=b\n",
                       "lib/w@.service.d/x.conf": "[Service]\nEnvironment=C=of-template\n",
                       "etc/w@one.service.d/y.conf": "[Service]\nEnvironment=B=of-instance\n",
                       "lib/a-b.service": "[Service]\nEnvironment=A=b\n", "etc/a-.service.d/z.conf": "[Service]\nEnvironment=B=prefix\n",
                       "etc/masked.service": "", "lib/masked.service": "[Service]\n"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "job.env").write_text(ENVFILE)
    return tmp_path, clean_environ(SYSTEMD_UNIT_PATH=f"{tmp_path}/etc:{tmp_path}/lib")


def test_a_unit_by_name(units):
    root, env = units
    d = document("job.service", env=env)
    got = values(d)
    assert got["A"] == "from-drop-in" and got["S"] == "new" and got["AA"] == "earlier" and got["CC"] == "all" and "BB" not in got
    files = {v["name"]: (v["file"], v["line"]) for v in d["variables"]}
    assert files["A"] == (f"{root}/etc/job.service.d/50-x.conf", 2) and files["H"] == (f"{root}/etc/job.service", 9)
    assert {v["name"] for v in d["variables"] if v["group"] == "nccl"} == {"NCCL_ALGO", "NCCL_PROTO"}
    assert got["Q"] is None and {"J", "LANG", "HF_TOKEN", "CUDA_VISIBLE_DEVICES"} <= reasons(d).keys()
    assert "hunter2" not in d["text"] and "EnvironmentFile= is not followed" in d["text"]
    assert values(document("w@one.service", env=env)) == {"A": "template", "B": "of-instance", "C": "of-template", "CC": "all"}
    assert values(document("a-b.service", env=env)) == {"A": "b", "B": "prefix", "CC": "all"}
    assert "masked" in ctl("import", "masked.service", env=env, ok=1).stderr
    assert "no unit nothere.service" in ctl("import", "nothere.service", env=env, ok=1).stderr
    # A path is that file alone.
    assert values(document(root / "lib/job.service", env=env)) == {"A": "hidden"}


@pytest.mark.skipif(os.geteuid() != 0, reason="boots a container")
def test_units_and_environment_files_as_systemd_reads_them(units):
    """The same files in a booted systemd: what the job has is what was imported."""
    box = pytest.importorskip("box")
    root, env = units
    b = box.Box()
    try:
        for path in root.rglob("*"):
            relative = path.relative_to(root)
            if path.is_file() and relative.parts[0] in ("etc", "lib") and "service.d" != relative.parts[1]:
                b.write(f"/{'etc' if relative.parts[0] == 'etc' else 'usr/local/lib'}/systemd/system/{'/'.join(relative.parts[1:])}",
                        path.read_text())
        b.write("/etc/job.env", ENVFILE)
        b.boot()
        assert b.run("systemctl start job.service").status == 0
        real = dict(s.split("=", 1) for s in b.path("/out").read_text().split("\0") if s)
    finally:
        b.close()
    got = values(document("job.service", env=env))
    del got["CC"]  # of all services
    got.update(values(document(root / "job.env")))
    assert len(got) > 20
    for name, value in got.items():
        assert real.get(name) == value, name
    assert "O" not in real and "P" not in real


# --- processes


def test_a_process(tmp_path):
    env = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL", "CUDA_HOME": "/x", "TORCH_NCCL_A": "b", "TRITON_Z": "c", "VLLM_NCCL_SO_PATH": "/y",
           "CUDA_VISIBLE_DEVICES": "0", "NCCL_API_KEY": "hunter2", "EDITOR": "vi", "RANK": "0", "SLURM_JOB_ID": "7"}
    p = subprocess.Popen(["/bin/sleep", "60"], env=env)
    try:
        d = document(p.pid)
        assert values(d) == {k: env[k] for k in ("NCCL_ALGO", "NCCL_PROTO", "CUDA_HOME", "TORCH_NCCL_A", "TRITON_Z", "VLLM_NCCL_SO_PATH")}
        assert d["kind"] == "process" and d["others"] == 3 and {v["line"] for v in d["variables"]} == {None}
        assert reasons(d).keys() == {"CUDA_VISIBLE_DEVICES", "NCCL_API_KEY"} and "hunter2" not in json.dumps(d)
        done = ctl("import", p.pid)
        assert "started with" in done.stderr and "EDITOR" not in done.stdout
        # A path of /proc is that file: all of it.
        assert values(document(f"/proc/{p.pid}/environ"))["EDITOR"] == "vi"
        if os.geteuid() == 0:
            done = ctl("import", os.getpid(), ok=1, user=65534, group=65534, extra_groups=[])
            assert "uid 0" in done.stderr and "only root" in done.stderr
    finally:
        p.kill()
        p.wait()
    assert f"no process {p.pid}" in ctl("import", p.pid, ok=1).stderr


# --- options, wrong and hostile files


def test_output_and_names(write, tmp_path):
    out = tmp_path / "new.ini"
    done = ctl("import", SEED, "-o", out)
    assert done.stdout == f"8 variables written to {out}, 0 remarks in its comments.\n"
    assert out.read_text() == ctl("import", SEED).stdout
    out.write_text("mine")
    assert "exists" in ctl("import", SEED, "--output", out, ok=1).stderr and out.read_text() == "mine"
    assert ctl("import", SEED, "-o", tmp_path / "no/such/place", ok=3).stdout == ""
    for wrong in ["--as=../x"], ["--as="], ["--from=csh"]:
        assert ctl("import", SEED, *wrong, ok=2).stdout == ""
    assert values(document("-", "--from", "python", input=SEED.read_bytes())) == PCIE8
    assert values(document("-", "--from", "env", input=b"A=b\nC=d")) == {"A": "b", "C": "d"}
    unknown = write("settings", "A=b\n")
    assert "--from=python" in ctl("import", unknown, ok=2).stderr
    assert values(document(unknown, "--from=nccl-conf")) == {"A": "b"}


def test_nothing_to_import(write):
    d = document(write("sitecustomize.py", "import sys\n"), ok=1)
    assert d["variables"] == []
    done = ctl("import", write("a.sh", "export HF_TOKEN=hunter2\n"), ok=1)
    assert "# Left out:" in done.stdout and "hunter2" not in done.stdout + done.stderr
    assert done.stderr.endswith("a.sh can be imported: the comments say why\n")


@pytest.mark.parametrize("name, text, where", [
    ("a.py", "import os\nx = 'open\n", ":2: a string is not closed"),
    ("a.py", "os.environ['A'] = 'b'\n\0\n", ":2: this is no Python"),
    ("a.py", "x = [\n1,\n", ":1: a bracket is not closed"),
    ("a.sh", "export A=b\n\nexport C='d\n", ":3: a ' is not closed"),
    ("a.service", "[Service]\n[broken\n", ":2: the section line is broken"),
    ("a.service", b"[Service]\nEnvironment=A=b\0\n", ":2: there is a NUL byte"),
    ("a.env", "A='b\n", ":1: the quote is not closed"),
])
def test_what_is_not_of_its_kind(write, name, text, where):
    source = write(name, text)
    done = ctl("import", source, ok=1)
    assert done.stdout == "" and done.stderr.startswith(f"cudaenvctl: {source}{where}") and "--from" in done.stderr


def test_hostile_files(write, tmp_path):
    start = time.monotonic()
    fifo = tmp_path / "fifo.py"
    os.mkfifo(fifo)
    for source in fifo, tmp_path, "/dev/zero", "/nonexistent", write("big.py", b"#" * (5 << 20)):
        done = ctl("import", source, ok=1)
        assert done.stdout == "" and str(source) in done.stderr, source
    # Lines of 1 MiB, each judged by itself.
    long = "x" * (1 << 20)
    for name, text in ("a.py", f"import os\nos.environ['A'] = '{long}'\nos.environ['B'] = 'c'\n"), \
            ("nccl.conf", f"A={long}\nB=c\n"), ("a.sh", f"export A={long}\nexport B=c\n"), ("a.env", f"A={long}\nB=c\n"), \
            ("a.service", f"[Service]\nEnvironment=A={long}\nEnvironment=B=c\n"):
        d = document(write(name, text))
        assert values(d) == {"B": "c"} and "A" in reasons(d) and len(d["text"]) < 2000
    # Bytes that are no UTF-8, controls, sequences for a terminal: nothing of it comes out.
    for name, text in ("b.env", b"A=\xff\nB=\x1b[31m\nC=\x9b1m\nD=good\n"), ("b.sh", b"export A='\xff' B='\x1b' C='\xc2\x9b' D=good\n"):
        done = ctl("import", write(name, text))
        assert "\x1b" not in done.stdout and values(document(tmp_path / name)) == {"D": "good"}
    odd = write("odd\n[env]\nX = \x1b y.py", SEED.read_bytes())
    assert values(document(odd)) == PCIE8
    assert time.monotonic() - start < 60


def test_many_variables_fit_into_a_profile(write):
    d = document(write("a.env", "".join(f"N{i}={'v' * 60}\n" for i in range(20000))))
    assert 1000 < len(d["variables"]) and len(d["text"]) < 512 * 1024 and d["left_out_more"] > 0
