# SPDX-License-Identifier: MIT
"""cudaenvd --user as it runs: edits, damage, signals, kill -9, and who may say what on the control socket."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from node import CTL, MANAGER, clean_environ, wait_until

USER = 12345


def listed(node, name):
    return next((p for p in node.json("list")["profiles"] if p["name"] == name), None)


def status_file(node):
    return json.loads((node.run / "status").read_text())


def broker_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


@pytest.fixture
def running(node):
    node.variables("a", NCCL_PROTO="LL")
    node.variables("b", NCCL_PROTO="Simple")
    return node.start()


def test_fresh(running):
    s = status_file(running)
    assert (s["mode"], s["active"], s["digest"]) == ("observe", None, None)
    assert s["profiles_valid"] == 2 and s["manager_pid"] == running.process.pid
    assert {p["name"] for p in s["profiles"]} == {"a", "b"}
    assert s["facts_version"] and s["jobs_split"] is None
    published = {p.name for p in (running.run / "snapshots").iterdir()}
    assert published == {p["digest"] for p in s["profiles"]}
    for digest in published:
        done = subprocess.run(["sha256sum", running.run / "snapshots" / digest], capture_output=True, text=True, check=True)
        assert done.stdout.split()[0] == digest
    assert (running.run / "jobs").stat().st_mode & 0o7777 == 0o1777


def test_only_one(running):
    second = subprocess.run([MANAGER, "--user"], env=running.environ(), capture_output=True, text=True, timeout=20)
    assert second.returncode == 1 and f"process {running.process.pid}" in second.stderr
    # The same state, another runtime directory: refused as well.
    second = subprocess.run([MANAGER, "--user"], env=running.environ() | {"CUDAENV_RUNTIME_DIR": str(running.root / "run2")},
                            capture_output=True, text=True, timeout=20)
    assert second.returncode == 1 and f"process {running.process.pid}" in second.stderr
    assert running.json("list")["profiles"]


# --- edits

def test_editor_rename_and_save_in_place(running):
    running.ctl("use", "a")
    old = status_file(running)["digest"]
    running.variables("a", NCCL_PROTO="LL128")  # beside, then rename
    wait_until(lambda: status_file(running)["edited"] == ["a"], "edited")
    assert status_file(running)["digest"] == old
    entry = listed(running, "a")
    assert entry["edited"] and entry["valid"] and entry["active"] and entry["digest"] == entry["applied"] == old
    assert (running.run / "snapshots" / entry["file_digest"]).exists(), "published at load"
    running.variables("a", NCCL_PROTO="LL")
    wait_until(lambda: status_file(running)["edited"] == [], "as it was")
    (running.profiles / "a.ini").write_text("[env]\nNCCL_PROTO = Simple\nNCCL_ALGO = Tree\n")  # in place
    wait_until(lambda: status_file(running)["edited"] == ["a"], "edited")
    running.ctl("use", "a")
    assert status_file(running)["edited"] == [] and status_file(running)["digest"] != old
    running.ctl("rollback")
    assert status_file(running)["digest"] == old, "from the stored snapshot"


def test_config_map(node):
    """As the kubelet does it: a.ini -> ..data/a.ini, and ..data -> ..VERSION is renamed over."""
    def version(name, value):
        d = node.profiles / name
        d.mkdir()
        (d / "a.ini").write_text(f"[env]\nNCCL_PROTO = {value}\n")

    def point_to(name):
        (node.profiles / "..tmp").symlink_to(name)
        (node.profiles / "..tmp").rename(node.profiles / "..data")

    version("..1", "LL")
    point_to("..1")
    (node.profiles / "a.ini").symlink_to("..data/a.ini")
    node.config.joinpath("cudaenvd.conf").write_text("[cudaenvd]\nprofile = a\napply_on_change = yes\n")
    node.start()
    first = status_file(node)["digest"]
    assert first
    version("..2", "Simple")
    point_to("..2")
    wait_until(lambda: status_file(node)["digest"] not in (None, first), "applied")
    second = status_file(node)["digest"]
    assert node.json("show", "a")["variables"][0]["value"] == "Simple"
    entry = node.json("history")["entries"][-1]
    assert (entry["action"], entry["from"], entry["to"]) == ("apply", first, second)
    # A rollback is not undone by what has not changed, nor by a restart.
    node.ctl("rollback")
    node.variables("other", NCCL_ALGO="Ring")
    wait_until(lambda: listed(node, "other"), "other")
    assert status_file(node)["digest"] == first
    node.stop(signal.SIGKILL)
    node.start()
    assert status_file(node)["digest"] == first


def test_directory_appears_and_is_replaced(node):
    shutil.rmtree(node.config)
    node.start()
    assert node.json("list")["profiles"] == []
    node.profiles.mkdir(parents=True)
    node.variables("a", NCCL_PROTO="LL")
    wait_until(lambda: status_file(node)["profiles_valid"] == 1, "seen")
    new = node.root / "new"
    new.mkdir()
    for name in "bc":
        (new / f"{name}.ini").write_text("[env]\nNCCL_ALGO = Ring\n")
    node.profiles.rename(node.root / "old")
    new.rename(node.profiles)
    wait_until(lambda: {p["name"] for p in status_file(node)["profiles"]} == {"b", "c"}, "replaced")
    node.variables("d", NCCL_ALGO="Tree")
    wait_until(lambda: status_file(node)["profiles_valid"] == 3, "seen in the new one")


def test_an_error_leaves_the_last_good_version(running):
    running.ctl("use", "a")
    digest = status_file(running)["digest"]
    running.profile("a", "[env]\nNCCL_PROTO = LL\n[env\n")
    wait_until(lambda: status_file(running)["profiles_broken"] == 1, "broken")
    assert status_file(running)["digest"] == digest
    entry = listed(running, "a")
    assert not entry["valid"] and entry["edited"] and entry["digest"] == digest
    assert f"{running.profiles}/a.ini:3:" in entry["error"]
    done = running.ctl("use", "a", ok=None)
    assert done.returncode != 0 and "a.ini:3:" in done.stderr
    # Nor does its end: by restart, without run, without the file.
    (running.profiles / "a.ini").unlink()
    running.stop(signal.SIGKILL)
    shutil.rmtree(running.run)
    running.start()
    assert status_file(running)["digest"] == digest and status_file(running)["active"] == "a"
    assert listed(running, "a")["path"] is None
    assert running.json("show")["variables"][0] == {
        "name": "NCCL_PROTO", "rule": "default", "value": "LL", "group": None, "file": None, "line": None}


def test_masks_and_strange_files(running):
    (running.profiles / "dir.ini").mkdir()
    os.mkfifo(running.profiles / "fifo.ini")
    (running.profiles / "loop.ini").symlink_to("loop.ini")
    (running.profiles / "b.ini").unlink()
    (running.profiles / "b.ini").symlink_to("/dev/null")
    wait_until(lambda: status_file(running)["profiles_valid"] == 1, "b is masked")
    assert listed(running, "b") is None
    running.ctl("use", "a")


# --- settings

def test_reload_of_settings(running):
    assert status_file(running)["active"] is None
    conf = running.config / "cudaenvd.conf"
    conf.write_text("[cudaenvd]\nprofile = a\nwrong = 1\n[assign x]\nuser = 77\nprofile = b\n[jobs]\nboundaries = edge\n")
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: status_file(running)["active"] == "a", "reloaded")
    text = (running.run / "assign").read_text()
    assert f"\nrule x {listed(running, 'b')['digest']}\nwhen uid 77\n" in text and "\nboundary edge\n" in text
    assert f"{conf}:3: unknown key 'wrong'" in (running.root / "manager.log").read_text()
    done = subprocess.run([MANAGER, "--user", "--check-config"], env=running.environ(), capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and f"{conf}:3: unknown key 'wrong'" in done.stderr


def test_settings_that_name_no_profile(node):
    """A warning once, at a reload after the file has changed, not at each reading; --check-config says the same with status 0."""
    conf, log = node.config / "cudaenvd.conf", node.root / "manager.log"
    node.variables("pcie8", NCCL_ALGO="Ring")
    conf.write_text("[cudaenvd]\nprofile = pcie\n[assign x]\nuser = 77\nprofile = gone\n")
    node.start()
    ours = f"{conf}:2: warning: there is no profile 'pcie', did you mean 'pcie8'; new jobs get nothing from it"
    rule = f"{conf}:5: warning: there is no profile 'gone'; jobs of this rule get nothing"
    check = [MANAGER, "--user", "--check-config"]
    done = subprocess.run(check, env=node.environ(), capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr.splitlines()) == (0, [ours, rule])
    node.variables("other", NCCL_ALGO="Tree")
    wait_until(lambda: status_file(node)["profiles_valid"] == 2, "read again")
    assert (log.read_text().count(ours), log.read_text().count(rule)) == (1, 1)
    # Once it is there it is given, and when it goes its version stays; there is nothing to warn of.
    node.variables("gone", NCCL_ALGO="Tree")
    wait_until(lambda: "\nrule x none" not in (node.run / "assign").read_text(), "the rule gives it")
    (node.profiles / "gone.ini").unlink()
    done = subprocess.run(check, env=node.environ(), capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr.splitlines()) == (0, [ours])
    conf.write_text("[assign x]\nuser = 77\nprofile = lost\n")
    node.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "there is no profile 'lost'" in log.read_text(), "the reload says it")
    assert (log.read_text().count(ours), log.read_text().count(rule)) == (1, 1)


# --- damage

def damage_write(path):
    path.chmod(0o644)
    path.write_text("garbage")


def damage_truncate(path):
    os.truncate(path, 5)


def damage_mode(path):
    path.chmod(0o666)


def damage_remove(path):
    path.unlink()


def damage_replace(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("how", [damage_write, damage_truncate, damage_mode, damage_remove, damage_replace])
def test_damage_is_mended(running, how):
    running.ctl("use", "a")
    running.ctl("on")
    files = [running.run / "snapshots" / status_file(running)["digest"], running.run / "assign", running.run / "status"]
    before = [(p.read_bytes(), p.stat().st_mode) for p in files]
    for path in files:
        how(path)
    (running.run / "current").unlink()

    def mended():
        try:
            return [(p.read_bytes(), p.lstat().st_mode) for p in files] == before and (running.run / "current").exists()
        except OSError:
            return False
    wait_until(mended, "mended")


def test_a_damaged_snapshot_that_no_file_has_any_more(running):
    running.ctl("use", "a")
    digest = status_file(running)["digest"]
    running.variables("a", NCCL_PROTO="LL128")
    wait_until(lambda: status_file(running)["edited"], "edited")
    path = running.run / "snapshots" / digest
    path.unlink()
    wait_until(path.exists, "restored from the state directory")


def test_the_tree_is_taken_away(running):
    running.ctl("use", "a")
    pid, broker = running.process.pid, running.broker_pid()
    shutil.rmtree(running.run)
    wait_until(lambda: (running.run / "status").exists() and (running.run / "socket").exists(), "made again")
    wait_until(lambda: running.ctl("list", ok=None).returncode == 0, "answers again")
    assert running.process.poll() is None and status_file(running)["manager_pid"] == pid
    assert status_file(running)["active"] == "a" and broker_gone(broker)


# --- its own life and its children's

def test_killed_broker_comes_back(running):
    pid = running.broker_pid()
    for _ in range(3):
        os.kill(pid, signal.SIGKILL)
        pid = wait_until(lambda: (lambda p: p if p != pid else None)(running.broker_pid()), "another broker")
    assert running.ctl("list").returncode == 0


def test_kill_and_restart(running):
    running.ctl("use", "a", "--reason", "a reason")
    running.ctl("on")
    broker, before = running.broker_pid(), status_file(running)
    running.stop(signal.SIGKILL)
    wait_until(lambda: broker_gone(broker), "the broker ends with its manager")
    running.start()
    after = status_file(running)
    assert {k: v for k, v in after.items() if k != "manager_pid"} == {k: v for k, v in before.items() if k != "manager_pid"}
    entries = running.json("history")["entries"]
    assert [e["action"] for e in entries] == ["use", "on"]
    assert entries[0].items() >= {"uid": os.geteuid(), "scope": "node", "from": None, "to": after["digest"], "reason": "a reason",
                                  "profile": "a"}.items()
    assert set(entries[0]) >= {"time", "uid", "user", "action", "scope", "from", "to", "reason"}


def test_clean_end(running):
    broker = running.broker_pid()
    os.kill(broker, signal.SIGSTOP)  # a frozen child holds nobody up for long
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(20) == 0
    assert broker_gone(broker) and not (running.run / "control").exists()
    assert (running.run / "assign").exists(), "starts go by it"


def test_damaged_state_is_moved_aside(running):
    running.ctl("use", "a")
    running.ctl("on")
    running.stop(signal.SIGKILL)
    (running.state / "active").write_text("nonsense")
    with open(running.state / "history", "a") as f:
        f.write("nonsense\n")
    running.start()
    s = status_file(running)
    assert (s["mode"], s["active"]) == ("on", "a")
    assert (running.state / "active.damaged-0").read_text() == "nonsense"
    assert (running.state / "history.damaged-0").exists()
    assert "moved aside" in (running.root / "manager.log").read_text()


def switches(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return [line for line in text.splitlines() if "ctxt_switches" in line]


def test_idle_means_asleep(running):
    """With nothing to do there is no wake-up; the pause only gives one the time to happen."""
    def asleep():
        before = switches(running.process.pid)
        time.sleep(1)
        return switches(running.process.pid) == before
    wait_until(asleep, "asleep for a second")


# --- control

def as_user(node, *arguments, uid=USER):
    return subprocess.run([CTL, *arguments], env=node.environ(), capture_output=True, text=True, user=uid, group=uid,
                          extra_groups=[], cwd="/", timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_others_read_and_do_not_change(running):
    generation = status_file(running)["generation"]
    for arguments in (["list"], ["history"], ["show", "a"], ["status"]):
        done = as_user(running, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    for arguments in (["use", "a"], ["on"], ["observe"], ["rollback"]):
        done = as_user(running, *arguments)
        assert done.returncode == 1 and "root" in done.stderr, (arguments, done.stdout, done.stderr)
    assert status_file(running)["generation"] == generation


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_an_ordinary_users_own(node):
    """Not as root, and without --user: the user's own node, which another user does not change."""
    node.variables("a", NCCL_PROTO="LL")
    for directory in (node.root, node.root / "config", node.root / "state", *node.config.rglob("*"), node.config):
        os.chown(directory, USER, USER)
    with open(node.root / "manager.log", "ab") as log:
        node.log = log
        node.process = subprocess.Popen([MANAGER], env=node.environ(), user=USER, group=USER, extra_groups=[], stdin=subprocess.DEVNULL,
                                        stdout=log, stderr=log, start_new_session=True)
    wait_until((node.run / "socket").exists, "the broker's socket")
    assert as_user(node, "use", "a").returncode == 0
    assert as_user(node, "on", uid=USER + 1).returncode != 0
    assert as_user(node, "on").returncode == 0
    done = as_user(node, "history", "--json")
    assert [(e["uid"], e["action"]) for e in json.loads(done.stdout)["entries"]] == [(USER, "use"), (USER, "on")]
    assert (node.run / "assign").stat().st_uid == USER


def connect(node):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(20)
    s.connect(str(node.run / "control"))
    return s


def connect_as(node, count, uid=USER):
    """A process of UID that holds COUNT connections until its input ends; gives how many of them were not closed at once."""
    code = ("import select, socket, sys\n"
            "held = []\n"
            f"for i in range({count}):\n"
            "    s = socket.socket(socket.AF_UNIX)\n"
            f"    s.connect({str(node.run / 'control')!r})\n"
            "    try:\n"
            "        s.sendall(b'\\0AUTH EXTERNAL\\r\\n')\n"
            "        answer = s.recv(100)\n"
            "    except OSError:\n"
            "        answer = b''\n"
            "    if answer: held.append(s)\n"
            "print(len(held), flush=True)\n"
            "sys.stdin.read()\n")
    p = subprocess.Popen(["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=uid, group=uid,
                         extra_groups=[], cwd="/", env=clean_environ())
    return p, int(p.stdout.readline())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_connections_are_limited(running):
    crowd = [connect_as(running, 40, uid=USER + i) for i in range(12)]
    held = [n for _, n in crowd]
    assert max(held) == 8 and sum(held) == 64, held
    # Nobody keeps root out.
    assert running.ctl("use", "a").returncode == 0
    assert (running.root / "manager.log").read_text().count("Too many control connections") <= 3
    # Who never speaks is sent away, and then there is room again.
    wait_until(lambda: as_user(running, "list", uid=USER + 100).returncode == 0, "room", seconds=30)
    for p, _ in crowd:
        p.communicate()


def test_nonsense_ends_its_own_connection(running):
    for nonsense in (b"\0", b"GET / HTTP/1.0\r\n\r\n", b"\0AUTH EXTERNAL\r\nBEGIN\r\n" + b"\xff" * 4096, os.urandom(65536)):
        with connect(running) as s:
            try:
                s.sendall(nonsense)
                while s.recv(4096):
                    pass
            except ConnectionError:
                pass
    with connect(running):
        pass
    assert running.ctl("list").returncode == 0


def message(serial, member):
    """A method call of D-Bus, little-endian, without a body."""
    def field(code, signature, value):
        raw = bytes([code, 1]) + signature + b"\0" + len(value).to_bytes(4, "little") + value + b"\0"
        return raw + bytes(-len(raw) % 8)
    fields = field(1, b"o", b"/org/cudaenv/Manager1") + field(2, b"s", b"org.cudaenv.Manager1") + field(3, b"s", member)
    fields = fields.rstrip(b"\0") + b"\0"
    header = b"l\1\0\1" + (0).to_bytes(4, "little") + serial.to_bytes(4, "little") + len(fields).to_bytes(4, "little") + fields
    return header + bytes(-len(header) % 8)


def test_descriptors_that_are_passed_are_not_kept(running):
    """Wherever they come, and whatever the message says about them."""
    fds = pathlib.Path(f"/proc/{running.process.pid}/fd")
    before = len(list(fds.iterdir()))
    with open("/dev/null") as f:
        for auth in (b"", b"\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"):
            with connect(running) as s:
                s.sendall(auth)
                while auth and s.recv(4096).count(b"\r\n") < 3:
                    pass
                try:
                    socket.send_fds(s, [message(1, b"List") if auth else b"\0AUTH"], [f.fileno()] * 100)
                    s.recv(4096)
                except ConnectionError:
                    pass
    wait_until(lambda: len(list(fds.iterdir())) <= before, "they are closed")


def test_who_does_not_fetch_answers_is_sent_away(running):
    """The answers that wait for a client are few, whatever it asks."""
    for i in range(40):
        running.profile(f"p{i}", f"[profile]\ndescription = {'x' * 4000}\n[env]\nNCCL_PROTO = LL\n")
    wait_until(lambda: status_file(running)["profiles_valid"] == 42, "read")
    with connect(running) as s:
        s.sendall(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")
        while b"OK " not in s.recv(4096):
            pass
        s.sendall(message(1, b"List"))
        answer = b""
        while b'"p39"' not in answer:
            answer += s.recv(65536)
        serial = 1
        with pytest.raises(ConnectionError):
            while serial < 5000:
                serial += 1
                s.sendall(message(serial, b"List"))
    assert running.ctl("list").returncode == 0
    rss = int(next(line for line in pathlib.Path(f"/proc/{running.process.pid}/status").read_text().splitlines()
                   if line.startswith("VmHWM")).split()[1])
    assert rss < 64 * 1024, "KiB"
