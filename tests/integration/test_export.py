# SPDX-License-Identifier: MIT
"""export, through the real readers: each gets the exact bytes of every value, or is told what is left out."""
import ctypes.util
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import uuid

import pytest
from conftest import CTL, SRC, clean_environ, wait_until
from published import Published

SHELLS = ["bash", "dash", "zsh"]
FORMATS = ["sh", "fish", "systemd", "docker", "k8s", "json", "nccl-conf"]
PLAIN = ["systemd", "docker", "k8s", "json", "nccl-conf"]

# What a profile may hold (test_the_values_are_possible).
VALUES = {
    "EMPTY": "",
    "PLAIN": "LL",
    "BLANKS": "a b  c   d",
    "TABS": "a\tb\t\tc",
    "SINGLE": "it's 'quoted' ''twice''",
    "ONLY_SINGLE": "'",
    "TWO_SINGLE": "''",
    "DOUBLE": 'say "no" ""',
    "HALF_DOUBLE": '"',
    "DOLLAR": "$HOME ${X} $(id) $1 $$ $",
    "TICKS": "`id` `",
    "BACKSLASHES": "C:\\new\\t \\\\ \\' \\\" \\$ \\n",
    "END_BACKSLASH": "ends in \\",
    "HASH": "#not a comment # no",
    "SEMICOLON": "; a;b && c || d | e & f > g < h",
    "PERCENT": "50% %h %% %n",
    "EQUALS": "=a=b==",
    "GLOBS": "* ? [a-z] {a,b} ~ !x ^y",
    "DASH": "-n",
    "PAREN": "( ! )",
    "COLONS": "a::b:c:",
    "CARET": "^=mlx5_3:1,mlx5_5:1",
    "UMLAUTS": "grüß Gott, Ā ā Ą \u0107 日本語 🚀",
    "BYTES_OF_DASH": "".join(chr(c) for c in range(0xa1, 0x180)),
    "SPACES_OF_UNICODE": "\u00a0a\u2003b\u3000",
    "LINE_SEPARATOR": "a\u2028b\u2029c\u0085d".replace("\u0085", ""),
    "BOM": "\ufeffa",
    "PRIVATE": "\ue000\uf600\uf6ff\uf8ff",
    "LONG": "x" * 100 * 1024,
    "LONG_QUOTES": "'\\\"$` " * 2000 + "end",
    "LD_LIBRARY_PATH": "/opt/x:/opt/y",
    "ODD_PATH": ":/a::/b:",
    "CUDA_PATH": "/usr/local/cuda 13",
    "PYTHONHASHSEED": "7",
}
NCCL = {"NCCL_" + name: value for name, value in VALUES.items() if len(value.encode()) <= 1023}


def snapshot_text(entries, profile="p", toolkit=None):
    """ENTRIES: lines without order."""
    head = ["cudaenv-snapshot 1", f"profile {profile}", "scope any"] + ([toolkit] if toolkit else [])
    rules = ["default", "force", "unset", "together", "prepend", "append"]

    def key(line):
        rule, _, rest = line.partition(" ")
        rest = rest.split(" ", 1)[1] if rule == "together" else rest
        return rest.partition("=")[0].encode(), rules.index(rule)

    return "".join(line + "\n" for line in head + sorted(entries, key=key))


class Tree:
    """A runtime directory without any daemon."""

    def __init__(self, path):
        path.chmod(0o755)
        self.published = Published(path / "run")
        self.env = clean_environ(CUDAENV_RUNTIME_DIR=path / "run")

    def put(self, entries, **more):
        return self.published.snapshot(snapshot_text(entries, **more))

    def export(self, *arguments, ok=0):
        done = subprocess.run([CTL, "export", *arguments], env=self.env, capture_output=True, timeout=60)
        assert done.returncode == ok, (arguments, done)
        return done


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def block(data):
    """An environment block by name."""
    return dict(e.split(b"=", 1) for e in data.split(b"\0") if b"=" in e)


def expected(values):
    return {k.encode(): v.encode() for k, v in values.items()}


# Their rules have a reader of ours here, which is tested everywhere; the programs themselves are a check of it where they are.
EXTRA = ("docker", "kubectl")


def need(program):
    path = shutil.which(program)
    if not path:
        pytest.skip(f"{'n/a: ' if program in EXTRA else ''}no {program} here")
    return path


def test_the_values_are_possible():
    profile = "[env]\n" + "".join(f"{k} = {v}\n" for k, v in {**VALUES, **NCCL}.items())
    done = subprocess.run([CTL, "--user", "check", "-", "--json"], input=profile.encode(), env=clean_environ(HOME="/nonexistent"),
                          capture_output=True, timeout=60)
    assert json.loads(done.stdout)["errors"] == 0, done.stdout


# --- shells


def in_shell(shell, script, env, path, stdin=None):
    """SCRIPT in SHELL, then the environment of a process that it starts."""
    file = path / "script"
    file.write_bytes(script)
    options = {"zsh": ["-f"], "bash": ["--norc", "--noprofile"], "fish": ["--no-config"], "dash": []}[shell]
    env = {k.encode(): v if isinstance(v, bytes) else str(v).encode() for k, v in env.items()}
    # env(1) may be too much for a large environment with arguments: cat reads the block it was started with.
    done = subprocess.run([need(shell), *options, file], env=env, capture_output=True, timeout=60, stdin=stdin)
    assert done.returncode == 0 and done.stderr == b"", (done.returncode, done.stderr[:500])
    return block(done.stdout)


def end_of(shell):
    return b"\nexec /bin/cat /proc/self/environ\n"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("shell", [*SHELLS, "fish"])
def test_each_value_in_a_shell(tree, tmp_path, shell, locale):
    text = tree.export("-p", tree.put([f"default {k}={v}" for k, v in VALUES.items()]),
                       "--format", "fish" if shell == "fish" else "sh")
    assert text.stderr == b""
    strict = b"" if shell == "fish" else b"set -eu\n"
    got = in_shell(shell, strict + text.stdout + end_of(shell), {"PATH": os.environ["PATH"], "LC_ALL": locale, "HOME": tmp_path},
                   tmp_path)
    assert {k: v for k, v in got.items() if k.decode() in VALUES} == expected(VALUES)


@pytest.mark.parametrize("shell, command", [
    ("bash", 'eval "$({ctl} export -p {digest} --format sh)"'), ("dash", 'eval "$({ctl} export -p {digest} --format sh)"'),
    ("zsh", 'eval "$({ctl} export -p {digest} --format sh)"'), ("bash", ". <({ctl} export -p {digest} --format sh)"),
    ("zsh", "source <({ctl} export -p {digest} --format sh)"), ("fish", "{ctl} export -p {digest} --format fish | source"),
    ("fish", "eval ({ctl} export -p {digest} --format fish | string collect)"),
])
def test_as_it_is_called(tree, tmp_path, shell, command):
    digest = tree.put([f"default {k}={v}" for k, v in VALUES.items()])
    script = command.format(ctl=CTL, digest=digest).encode() + end_of(shell)
    got = in_shell(shell, script, {**tree.env, "HOME": tmp_path}, tmp_path)
    assert {k: v for k, v in got.items() if k.decode() in VALUES} == expected(VALUES)


@pytest.mark.parametrize("shell, options", [("bash", ["--norc"]), ("zsh", ["-f"]), ("fish", ["--no-config"])])
def test_at_a_prompt(tree, tmp_path, shell, options):
    """Interactive shells have rules of their own for comments, ! and ''."""
    digest = tree.put([f"default {k}={v}" for k, v in VALUES.items() if not k.startswith("LONG")])
    line = f"{CTL} export -p {digest} --format fish | source" if shell == "fish" else f'eval "$({CTL} export -p {digest} --format sh)"'
    extra = {"zsh": "setopt rcquotes ksharrays nounset\n", "bash": "set -o histexpand -u\n", "fish": ""}[shell]
    done = subprocess.run([need(shell), *options, "-i"], input=f"{extra}{line}\ncat /proc/self/environ >{tmp_path}/out\nexit\n".encode(),
                          env={**tree.env, "HOME": str(tmp_path), "TERM": "dumb"}, capture_output=True, timeout=60,
                          start_new_session=True)
    got = block((tmp_path / "out").read_bytes())
    short = {k: v for k, v in VALUES.items() if not k.startswith("LONG")}
    assert {k: v for k, v in got.items() if k.decode() in VALUES} == expected(short), done.stderr


RULES = ["default KEPT=ours", "default NEW=ours", "default WAS_EMPTY=ours", "force FORCED=ours", "unset GONE", "unset NEVER",
         "together full FULL_A=a", "together full FULL_B=b", "together same SAME_A=a b", "together same SAME_B=*",
         "together half HALF_A=a", "together half HALF_B=b",
         "prepend LIST=/x:/y", "append LIST=/z:/with blank", "prepend NEWLIST=/a:/b:/a", "prepend EMPTYLIST=/a",
         "append MANPATH=/m:/n", "prepend THERE=/q", "append THERE=/r", "prepend ODD=/[a-z]*:/b'q\\", "append TAIL_PATH=/tail"]
HAD = {"KEPT": "mine", "WAS_EMPTY": "", "FORCED": "mine", "GONE": "x", "SAME_B": "*", "HALF_B": "other", "LIST": "/old:/y",
       "EMPTYLIST": "", "MANPATH": "/n:", "THERE": "/r:/q", "ODD": "/abc", "TAIL_PATH": "/one:/two"}
OURS = {*HAD, *(re.split("[ =]", line.removeprefix("together "))[1] for line in RULES)}


def by_apply(tree, digest, env):
    """What `exec` makes of it, without the token: the same rules."""
    done = subprocess.run([CTL, "exec", "-p", digest, "--", "/bin/cat", "/proc/self/environ"], env={**tree.env, **env},
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {k: v for k, v in block(done.stdout).items() if not k.startswith(b"CUDAENV_")}


def by_shell(tree, tmp_path, shell, digest, env):
    text = tree.export("-p", digest, "--format", "fish" if shell == "fish" else "sh").stdout
    strict = b"" if shell == "fish" else b"set -eu\n"
    # Read twice: nothing is added a second time.
    return in_shell(shell, strict + text + text + end_of(shell), {**tree.env, "HOME": tmp_path, **env}, tmp_path)


def differences(got, wanted, names):
    return {n: (got.get(n.encode()), wanted.get(n.encode())) for n in names if got.get(n.encode()) != wanted.get(n.encode())}


@pytest.mark.parametrize("had", [HAD, {}], ids=["had", "bare"])
@pytest.mark.parametrize("shell", [*SHELLS, "fish"])
def test_rules_in_a_shell(tree, tmp_path, shell, had):
    digest = tree.put(RULES)
    wanted = by_apply(tree, digest, had)
    assert not differences(by_shell(tree, tmp_path, shell, digest, had), wanted, OURS)
    if had:
        assert (wanted[b"KEPT"], wanted[b"WAS_EMPTY"], wanted[b"FORCED"], wanted.get(b"GONE")) == (b"mine", b"", b"ours", None)
        assert (wanted[b"LIST"], wanted[b"HALF_B"], wanted.get(b"HALF_A")) == (b"/x:/old:/y:/z:/with blank", b"other", None)


@pytest.mark.parametrize("rule", ["default", "force"])
@pytest.mark.parametrize("shell", [*SHELLS, "fish"])
def test_the_toolkit_in_a_shell(tree, tmp_path, shell, rule):
    root = tmp_path / "cu da'13"
    lines = [f"together toolkit CUDA_HOME={root}", f"together toolkit CUDA_PATH={root}", f"together toolkit PATH={root}/bin",
             f"prepend PATH={tmp_path}/own", f"append PATH={tmp_path}/last"]
    digest = tree.put(lines, toolkit=f"toolkit {rule} {root}")
    names = ["CUDA_HOME", "CUDA_PATH", "PATH"]
    path = "/usr/bin:/bin"
    for there in False, True:
        if there:
            root.mkdir()
        for had in {}, {"CUDA_HOME": "/other"}, {"CUDA_HOME": str(root)}:
            env = {"PATH": path, **had}
            wanted = by_apply(tree, digest, env)
            assert not differences(by_shell(tree, tmp_path, shell, digest, env), wanted, names)
            if os.geteuid() == 0:
                assert f"{root}/bin".encode() not in wanted[b"PATH"].split(b":")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("shell", [*SHELLS, "fish"])
def test_the_toolkits_path_of_ordinary_users(tree, tmp_path, shell):
    for directory in [tmp_path, *tmp_path.parents]:
        if directory.stat().st_uid == 0 and "pytest" in str(directory):
            directory.chmod(0o755)
    digest = tree.put([f"together toolkit CUDA_HOME={tmp_path}", f"together toolkit PATH={tmp_path}/bin", "prepend PATH=/own"],
                      toolkit=f"toolkit default {tmp_path}")
    text = tree.export("-p", digest, "--format", "fish" if shell == "fish" else "sh").stdout
    (tmp_path / "script").write_bytes(text + end_of(shell))
    (tmp_path / "home").mkdir(mode=0o777)
    done = subprocess.run([need(shell), tmp_path / "script"], env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")}, user=65534,
                          group=65534, extra_groups=[], capture_output=True, timeout=60)
    got = block(done.stdout)
    assert (got[b"PATH"], got[b"CUDA_HOME"]) == (f"{tmp_path}/bin:/own:/usr/bin:/bin".encode(), str(tmp_path).encode()), done.stderr


def test_the_shells_are_left_clean(tree, tmp_path):
    """No variable or function of ours stays behind."""
    digest = tree.put(RULES)
    text = tree.export("-p", digest, "--format", "sh").stdout
    script = b"before=$(set)\n" + text + b"set >after; printf '%s\\n' \"$before\" >before; declare -F >functions\n"
    (tmp_path / "script").write_bytes(script)
    subprocess.run(["bash", "script"], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, check=True, timeout=60)
    names = [{line.split("=")[0] for line in (tmp_path / f).read_text(errors="replace").splitlines()} for f in ("before", "after")]
    assert names[1] - names[0] <= OURS | {"before", "_", "BASH_LINENO", "PIPESTATUS"} and (tmp_path / "functions").read_text() == ""


# --- plain values


def plain_lines(text):
    return [line for line in text.decode().splitlines() if not line.startswith("#")]


def test_what_plain_formats_cannot_say(tree):
    digest = tree.put([*RULES, "together toolkit CUDA_HOME=/opt/cuda 13", "together toolkit PATH=/opt/cuda 13/bin",
                       "default NCCL_ALGO=Ring", "force NCCL_DEBUG=WARN"], toolkit="toolkit default /opt/cuda 13", profile="Some.One_@x")
    for name in PLAIN:
        done = tree.export("-p", digest, "--format", name)
        notes = done.stderr.decode()
        document = json.loads(tree.export("-p", digest, "--format", name, "--json").stdout)
        assert document["text"].encode() == done.stdout and document["notes"] == [
            line.removeprefix("cudaenvctl: note: ") for line in notes.splitlines()]
        left = {(v["name"], v["rule"]): v["why"] for v in document["left_out"]}
        assert {("GONE", "unset"), ("LIST", "prepend"), ("LIST", "append"), ("PATH", "together")} <= left.keys()
        assert "left out: GONE NEVER (is to be removed, which cannot be said)" in notes
        for line in notes.splitlines():
            assert name in ("k8s", "json") or "# " + line.removeprefix("cudaenvctl: note: ") in done.stdout.decode().splitlines()
        if name == "nccl-conf":
            assert plain_lines(done.stdout) == ["NCCL_ALGO=Ring", "NCCL_DEBUG=WARN"] and "rule force is lost" in notes
        else:
            assert "rule default is lost" in notes and "rule together is lost" in notes
        if name in ("systemd", "docker", "json"):
            assert "the toolkit is set also where /opt/cuda 13 does not exist" in notes
    assert tree.export("-p", digest, "--format", "sh").stderr == b""


def test_half_a_group_is_not_written(tree):
    digest = tree.put(["together g NCCL_ALGO=Ring", "together g TORCH_X=1", "together h HOST=/opt/x", "together h OTHER=1", "default A=b"])
    assert plain_lines(tree.export("-p", digest, "--format", "nccl-conf").stdout) == []
    done = tree.export("-p", digest, "--format", "k8s")
    assert json.loads(done.stdout)["data"] == {"A": "b", "NCCL_ALGO": "Ring", "TORCH_X": "1"}
    assert b"left out: HOST (is a path of this host)" in done.stderr
    assert b"left out: OTHER (goes together with one that is left out)" in done.stderr


def test_json_values(tree):
    done = tree.export("-p", tree.put([f"default {k}={v}" for k, v in VALUES.items()]), "--format", "json")
    assert json.loads(done.stdout) == VALUES


# --- docker: the real command line tool reads the file. The daemon that it sends the values to is a fake.


class FakeDockerd(http.server.BaseHTTPRequestHandler):
    """Answers /_ping, keeps what is to be created."""

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Api-Version", "1.45")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        self.answer(200, {})

    do_HEAD = do_GET

    def do_POST(self):
        size = self.headers.get("Content-Length")
        if size:
            data = self.rfile.read(int(size))
        else:
            data = b""
            while (n := int(self.rfile.readline(), 16)):
                data += self.rfile.read(n)
                self.rfile.readline()
        self.server.created.append(json.loads(data))
        self.answer(201, {"Id": "0" * 64, "Warnings": []})

    def log_message(self, *arguments):
        pass

    def address_string(self):
        return "docker"


class Server(socketserver.UnixStreamServer):
    def get_request(self):
        connection, _ = super().get_request()
        return connection, ("docker", 0)


@pytest.fixture
def docker(tmp_path):
    need("docker")
    with Server(str(tmp_path / "docker.sock"), FakeDockerd) as server:
        server.created = []
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def create(file):
            done = subprocess.run(["docker", "create", "--env-file", file, "image"], capture_output=True, timeout=60,
                                  env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/docker.sock"})
            return done, (dict(v.split("=", 1) for v in server.created[-1]["Env"] or []) if done.returncode == 0 else None)

        yield create
        server.shutdown()


def named_reader_of_docker_env_files(data):
    """A fake: what docker does with an env file, for machines without docker; test_the_fake_reads_as_docker holds it against docker.

    https://github.com/docker/cli/blob/v28.2.2/pkg/kvfile/kvfile.go: lines by bufio.Scanner (64 KiB at most), a BOM before the first,
    Unicode blanks in front and lines that begin with # dropped, the name up to the first =, the rest as it is.
    """
    values = {}
    for n, line in enumerate(data.split(b"\n")):
        assert len(line) < 65536, "bufio.Scanner: token too long"
        line = line.removesuffix(b"\r").decode("utf-8", errors="strict")
        line = (line.removeprefix("\ufeff") if n == 0 else line).lstrip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        assert name and not re.search(r"\s", name)
        assert equals, "a name alone is taken from the caller's environment"
        values[name] = value
    return values


def docker_file(tree, tmp_path, values):
    done = tree.export("-p", tree.put([f"default {k}={v}" for k, v in values.items()]), "--format", "docker")
    (tmp_path / "env").write_bytes(done.stdout)
    return tmp_path / "env", done.stderr.decode()


def test_each_value_in_docker(tree, tmp_path, docker):
    file, notes = docker_file(tree, tmp_path, VALUES)
    assert "left out: LONG (is longer than a line that docker reads)" in notes
    done, got = docker(file)
    short = {k: v for k, v in VALUES.items() if k != "LONG"}
    assert got == short, done.stderr


def test_the_longest_line_of_docker(tree, tmp_path, docker):
    for size, written in (65534, True), (65535, False):
        value = "x" * (size - len("NAME="))
        file, notes = docker_file(tree, tmp_path, {"NAME": value, "B": "c"})
        assert ("left out" in notes) != written
        done, got = docker(file)
        assert got == ({"NAME": value, "B": "c"} if written else {"B": "c"}), done.stderr
    file.write_text("NAME=" + "x" * 65531 + "\n")
    assert docker(file)[1] is None, "longer ones are refused indeed"


def test_the_fake_reads_as_docker(tree, tmp_path, docker):
    file, _ = docker_file(tree, tmp_path, VALUES)
    assert named_reader_of_docker_env_files(file.read_bytes()) == docker(file)[1]


def test_each_value_in_a_fake_of_docker(tree, tmp_path):
    file, _ = docker_file(tree, tmp_path, VALUES)
    assert named_reader_of_docker_env_files(file.read_bytes()) == {k: v for k, v in VALUES.items() if k != "LONG"}


# --- Kubernetes


def config_map(tree, **more):
    digest = tree.put([f"default {k}={v}" for k, v in VALUES.items()], **more)
    return digest, tree.export("-p", digest, "--format", "k8s")


PATHS = {"LD_LIBRARY_PATH", "CUDA_PATH", "ODD_PATH", "SEMICOLON"}


def test_a_config_map(tree):
    yaml = pytest.importorskip("yaml")
    digest, done = config_map(tree, profile="Cuda_13.pcie@x")
    document = yaml.safe_load(done.stdout.decode())
    assert document == json.loads(done.stdout)
    assert (document["apiVersion"], document["kind"], document["immutable"]) == ("v1", "ConfigMap", True)
    name = document["metadata"]["name"]
    assert name == f"cudaenv-cuda-13-pcie-x-{digest[:12]}" and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name)
    assert document["metadata"]["annotations"]["cudaenv/snapshot"] == digest
    left = set(re.search(r"left out: ([A-Z_ ]*) \(is a path of this host\)", done.stderr.decode())[1].split())
    assert left >= {"LD_LIBRARY_PATH", "CUDA_PATH", "ODD_PATH"}
    assert document["data"] == {k: v for k, v in VALUES.items() if k not in left}


def test_kubectl_reads_it(tree, tmp_path):
    """kubectl's own decoder, strict, without a cluster."""
    need("kubectl")
    _, done = config_map(tree)
    (tmp_path / "map.json").write_bytes(done.stdout)
    read = subprocess.run(["kubectl", "annotate", "--local", "-f", tmp_path / "map.json", "a=b", "-o", "json"], capture_output=True, timeout=60,
                          env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert read.returncode == 0, read.stderr
    document, ours = json.loads(read.stdout), json.loads(done.stdout)
    assert document["data"] == ours["data"] and document["immutable"] is True


@pytest.mark.parametrize("value, path", [
    ("/opt/x", True), ("a:/opt/x", True), ("x=/opt", True), ("a b,/c", True), ("http://proxy:3128", False), ("eth0", False),
    ("LL", False), ("a/b", False), ("1/2", False), ("file:///etc/x", True),
])
def test_paths_of_the_host_stay_out(tree, value, path):
    done = tree.export("-p", tree.put([f"default V={value}"]), "--format", "k8s")
    assert (json.loads(done.stdout)["data"] == {}) == path


# --- NCCL


CONF_PROGRAM = """
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1])
assert nccl.ncclGetUniqueId(ctypes.create_string_buffer(128)) == 0
libc = ctypes.CDLL(None)
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
i = 0
with open(sys.argv[2], "wb") as f:
    while environ[i]:
        f.write(environ[i] + bytes(1))
        i += 1
"""


def libnccl():
    names = [*sorted(pathlib.Path("/usr/local").glob("cuda*/lib*/libnccl.so.2")), ctypes.util.find_library("nccl")]
    if not names[0]:
        pytest.skip("no libnccl here")
    return names[0]


def test_each_value_in_nccl(tree, tmp_path):
    library = libnccl()
    long = {"NCCL_TWO": "x" * 1023, "NCCL_LONGER": "x" * 1024}
    values = {k: v for k, v in {**NCCL, **long, "NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "lo", "OTHER": "x"}.items()}
    done = tree.export("-p", tree.put([f"default {k}={v}" for k, v in values.items()]), "--format", "nccl-conf")
    notes = done.stderr.decode()
    assert "left out: NCCL_LONGER (is longer than NCCL reads)" in notes and "left out: OTHER (is no name of NCCL)" in notes
    (tmp_path / "nccl.conf").write_bytes(done.stdout)
    (tmp_path / "program.py").write_text(CONF_PROGRAM)
    read = subprocess.run([sys.executable, tmp_path / "program.py", library, tmp_path / "out"], capture_output=True, timeout=60,
                          env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NCCL_CONF_FILE": str(tmp_path / "nccl.conf"),
                               "NCCL_PLAIN": "mine"})
    assert read.returncode == 0, (read.stdout, read.stderr)
    assert b"NCCL_SOCKET_IFNAME set by environment to lo" in read.stdout + read.stderr
    got = block((tmp_path / "out").read_bytes())
    wanted = {k: v for k, v in values.items() if k not in ("NCCL_LONGER", "OTHER")}
    assert got[b"NCCL_PLAIN"] == b"mine", "the process's own wins: the rule default"
    assert {k: v for k, v in got.items() if k.startswith(b"NCCL_") and k not in (b"NCCL_CONF_FILE", b"NCCL_PLAIN")} == \
        expected({k: v for k, v in wanted.items() if k != "NCCL_PLAIN"})


# --- systemd


def test_each_value_in_systemd(tree, tmp_path):
    """A real systemd, booted over an overlay of / for one unit with this EnvironmentFile=."""
    if os.geteuid() != 0:
        pytest.skip("booting a container needs root")
    need("systemd-nspawn")
    values = {**VALUES, "OURS": "wins", "NONCHARACTER": "a\ufdd0b", "LAST": "a\U0001ffffb"}
    done = tree.export("-p", tree.put([f"default {k}={v}" for k, v in values.items()]), "--format", "systemd")
    assert "left out: LAST NONCHARACTER (has a character that systemd refuses)" in done.stderr.decode()
    for name in "upper", "work", "root":
        (tmp_path / name).mkdir()
    inside = tmp_path / "root"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={tmp_path}/upper,workdir={tmp_path}/work", inside],
                   check=True)
    try:
        (inside / "etc/machine-id").write_text(uuid.uuid4().hex + "\n")
        (inside / "result").mkdir()
        (inside / "result/env").write_bytes(done.stdout)
        (inside / "etc/systemd/system/exported.service").write_text(
            "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nEnvironment=OURS=loses\nEnvironmentFile=/result/env\n"
            "ExecStart=/bin/sh -c 'cat /proc/self/environ >/result/out'\nExecStopPost=/bin/systemctl --force --force poweroff\n")
        with open(tmp_path / "console", "wb") as console:
            subprocess.run(["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "-D", inside, "--private-network",
                            "--console=pipe", "-b", "systemd.unit=exported.service"], stdin=subprocess.DEVNULL, stdout=console,
                           stderr=subprocess.STDOUT, timeout=120, check=False)
        out = tmp_path / "upper/result/out"
        assert out.exists(), (tmp_path / "console").read_text(errors="replace")[-2000:]
        got = block(out.read_bytes())
    finally:
        subprocess.run(["umount", "-l", inside], check=False)
    wanted = {k: v for k, v in values.items() if k not in ("NONCHARACTER", "LAST")}
    assert {k: v for k, v in got.items() if k.decode() in values} == expected(wanted)


# --- the verb


def test_the_one_in_use(pcie8):
    text = pcie8.ctl("export", "--format", "sh").stdout
    assert text.startswith("# cudaenv profile pcie8, snapshot ") and "export NCCL_PROTO='LL'\n" in text
    assert pcie8.ctl("export", "-p", "pcie8", "--format", "sh").stdout == text
    digest = pcie8.json("status")["digest"]
    pcie8.stop(signal.SIGKILL)
    assert pcie8.ctl("export", "-p", digest, "--format", "sh").stdout == text
    assert pcie8.ctl("export", "--format", "sh").stdout == text


def test_bad_news(node):
    node.variables("a", A="b")
    node.start()
    assert "name one: export -p PROFILE" in node.ctl("export", "--format", "sh", ok=1).stderr
    assert "no valid profile nothere is published" in node.ctl("export", "-p", "nothere", "--format", "sh", ok=1).stderr
    assert node.ctl("export", "-p", "a.ini", "--format", "sh", ok=1).stderr.endswith("; leave out .ini: cudaenvctl export -p a\n")
    assert "is not published here" in node.ctl("export", "-p", "0" * 64, "--format", "sh", ok=3).stderr
    for name in FORMATS:
        assert node.ctl("export", "-p", "a", f"--format={name}").stdout
    wait_until(lambda: node.json("status")["profiles_valid"] == 1, "it is published")
    digest = {p["name"]: p["digest"] for p in node.json("list")["profiles"]}["a"]
    file = node.run / "snapshots" / digest
    node.stop()
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b"A=b", b"A=c"))
    file.chmod(0o444)
    done = node.ctl("export", "-p", "a", "--format", "sh", ok=3)
    assert done.stdout == "" and "damaged" in done.stderr
    subprocess.run(["rm", "-r", node.run], check=True)
    assert "nothing is published" in node.ctl("export", "--format", "sh", ok=3).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone takes no such snapshot")
def test_root_takes_none_that_others_could_change(tree):
    digest = tree.published.snapshot(snapshot_text(["default CUDA_HOME=/tmp/x"]).replace("scope any", "scope user"))
    for arguments in ["export", "-p", digest, "--format", "sh"], ["exec", "-p", digest, "--dry-run", "true"]:
        done = subprocess.run([CTL, *arguments], env=tree.env, capture_output=True, timeout=60)
        assert done.returncode == 1 and done.stdout == b"" and b"root takes no snapshot" in done.stderr


def test_a_full_disk(pcie8):
    with open("/dev/full", "w") as full:
        done = subprocess.run([CTL, "export", "--format", "sh"], env=pcie8.environ(), stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=60)
    assert done.returncode == 3 and "cannot write" in done.stderr


def test_the_torture_profile(node):
    """A profile of the tree that is full of traps, through a shell."""
    text = (SRC / "tests/data/profiles/torture.ini").read_text()
    lines = [line for line in text.splitlines() if line.startswith(("PCT", "DOLLAR", "BS", "SEMI", "EMPTY", "QUOTED", "NCCL_IB", "NCCL_SOCK"))]
    node.profile("torture", "[env]\n" + "\n".join(lines) + "\n")
    node.start()
    wanted = {line.split("=", 1)[0].strip(): line.split("=", 1)[1].strip() for line in lines}
    out = node.ctl("export", "-p", "torture", "--format", "sh").stdout
    done = subprocess.run(["sh", "-c", out + "cat /proc/self/environ"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, timeout=60)
    got = block(done.stdout)
    assert {k: got.get(k.encode()) for k in wanted} == {k: v.encode() for k, v in wanted.items()}
