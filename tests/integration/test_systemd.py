# SPDX-License-Identifier: MIT
"""The units under a real systemd, booted in a container over an overlay of /. Needs root and systemd-nspawn."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import uuid

import pytest

from node import BROKER, CTL, PREFIX, SRC

CLIENT = pathlib.Path(os.environ["BUILDDIR"]) / "tests/start-client"
UNITS = PREFIX / "lib/systemd/system"

# Runs inside. Each step's output and status land in /result/NAME; the first line of a step names it.
STEPS = r"""
step() { name=$1; shift; "$@" >/result/$name 2>&1; echo $? >/result/$name.status; }
until_() { n=0; until "$@" >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 200 ] || return 1; sleep 0.1; done; }
main_pid() { systemctl show -P MainPID "$1"; }
signal_() { [ "$2" -gt 1 ] && kill "$1" "$2"; }
changed() { [ "$(main_pid "$1")" != "$2" ] && [ "$(systemctl is-active "$1")" = active ] && [ "$(main_pid "$1")" != 0 ]; }
client() { systemd-run --quiet --wait --pipe "$@" CLIENT; }

if [ ! -e /result/enable ]; then # the first boot
step sysusers systemd-sysusers
step tmpfiles systemd-tmpfiles --create
step reload systemctl daemon-reload
step sockets systemctl start cudaenvd.socket cudaenv-broker.socket
step listening sh -c 'systemctl is-active cudaenvd.socket cudaenv-broker.socket; systemctl is-active cudaenvd.service'
step fresh CTL status --json
step fresh_client client
step use CTL use pcie8
step on CTL on
step enable systemctl enable cudaenvd.service cudaenvd.socket cudaenv-broker.socket early.service
exit 0
fi

step after_boot CTL status --json
step unit_client client
step user_client client -p User=nobody
step broker_started until_ systemctl is-active cudaenv-broker.service
step broker_user sh -c 'stat -c %U /proc/$(systemctl show -P MainPID cudaenv-broker.service)'
step broker_caps sh -c 'grep CapEff /proc/$(systemctl show -P MainPID cudaenv-broker.service)/status'
step manager_caps sh -c 'grep CapEff /proc/$(systemctl show -P MainPID cudaenvd.service)/status'
step tree sh -c 'stat -c "%A %U %n" /run/cudaenv /run/cudaenv/* /run/cudaenvd/control'
step notify systemctl show -P Type,StatusText,WatchdogUSec cudaenvd.service cudaenv-broker.service

# Killed: back at once, nothing lost.
old=$(main_pid cudaenvd.service); signal_ -9 $old; step manager_back until_ changed cudaenvd.service $old
old=$(main_pid cudaenv-broker.service); signal_ -9 $old; client >/dev/null; step broker_back until_ changed cudaenv-broker.service $old
step after_kill client
step after_kill_status CTL status --json

# Frozen: the watchdog ends it, systemd starts it again.
old=$(main_pid cudaenv-broker.service); signal_ -STOP $old; step broker_watchdog until_ changed cudaenv-broker.service $old

# A crash loop leaves no dead socket behind.
for i in 1 2 3 4 5 6 7 8; do signal_ -9 $(main_pid cudaenv-broker.service); client >/dev/null; done
step after_crashes client
step socket_active systemctl is-active cudaenv-broker.socket

# Stopped altogether: starts still have their variables, from the files.
step stop systemctl stop cudaenvd.service cudaenvd.socket cudaenv-broker.service cudaenv-broker.socket
step stopped_client client
step stopped_status CTL status

# A unit that began before the rules were published, and goes on after.
mv /run/cudaenv/assign /run/assign
systemd-run --quiet --unit=unruled sh -c 'CLIENT >/result/unruled; until [ -e /run/go ]; do sleep 0.05; done; CLIENT >>/result/unruled'
until_ test -s /result/unruled
mv /run/assign /run/cudaenv/assign
touch /run/go
until_ sh -c '[ $(wc -l </result/unruled) = 2 ]'

step off CTL off
step off_client client
step journal journalctl -o json -u cudaenvd.service -u cudaenv-broker.service --no-pager
step verify systemd-analyze verify --man=no UNITS/cudaenvd.service UNITS/cudaenvd.socket UNITS/cudaenv-broker.service UNITS/cudaenv-broker.socket
step security sh -c 'for u in cudaenvd cudaenv-broker; do systemd-analyze security --offline=yes --no-pager UNITS/$u.service | tail -1; done'
"""


def boot(root):
    """Boots Debian's systemd twice over an overlay of /, runs STEPS in it, returns their results by name."""
    for name in ("upper", "work", "root"):
        (root / name).mkdir()
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                    f"lowerdir=/,upperdir={root}/upper,workdir={root}/work", root / "root"], check=True)
    inside = root / "root"
    try:
        (inside / "etc/machine-id").write_text(uuid.uuid4().hex + "\n")
        (inside / "result").mkdir()
        for unit in UNITS.glob("cudaenv*"):
            shutil.copy2(unit, inside / "etc/systemd/system")
        for kind in ("sysusers.d", "tmpfiles.d"):
            (inside / "etc" / kind).mkdir(exist_ok=True)
            for file in (PREFIX / "lib" / kind).glob("cudaenv*"):
                shutil.copy2(file, inside / "etc" / kind)
        # The watchdog's 30 s would be waited for, and the build may lie in a home that is closed to others.
        for service in ("cudaenvd", "cudaenv-broker"):
            drop_ins = inside / f"etc/systemd/system/{service}.service.d"
            drop_ins.mkdir()
            (drop_ins / "test.conf").write_text("[Service]\nWatchdogSec=2\nProtectHome=no\n")
        for directory in [PREFIX, *PREFIX.parents]:
            copy = inside / str(directory).lstrip("/")
            copy.chmod(copy.stat().st_mode | 0o555)
        (inside / "etc/cudaenv/profiles.d").mkdir(parents=True, exist_ok=True)
        shutil.copy2(SRC / "tests/data/profiles/pcie8.ini", inside / "etc/cudaenv/profiles.d")
        (inside / "usr/local/bin").mkdir(parents=True, exist_ok=True)
        shutil.copy2(CLIENT, inside / "usr/local/bin/start-client")
        steps = STEPS.replace("CLIENT", "/usr/local/bin/start-client").replace("CTL", str(CTL)).replace("UNITS", "/etc/systemd/system")
        (inside / "steps.sh").write_text(steps)
        (inside / "etc/systemd/system/steps.service").write_text(
            "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/bin/sh /steps.sh\n"
            "ExecStopPost=/bin/systemctl poweroff\nTimeoutStartSec=150\n")
        # An ordinary unit that is started at boot, with no word about cudaenv in it.
        (inside / "etc/systemd/system/early.service").write_text(
            "[Service]\nType=oneshot\nExecStart=/usr/local/bin/start-client 1\nStandardOutput=append:/result/early\n"
            "[Install]\nWantedBy=multi-user.target\n")
        wants = inside / "etc/systemd/system/multi-user.target.wants"
        # What this machine happens to have enabled is not what is tested.
        shutil.rmtree(wants, ignore_errors=True)
        wants.mkdir()
        (wants / "steps.service").symlink_to("../steps.service")
        with open(root / "console", "wb") as console:
            for _ in ("first boot", "second boot"):
                subprocess.run(["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "-D", inside, "--private-network",
                                "--console=pipe", "-b", "systemd.unit=multi-user.target"], stdin=subprocess.DEVNULL, stdout=console,
                               stderr=subprocess.STDOUT, timeout=240, check=False,
                               # Clients under a seccomp filter do not ask the broker, and nspawn puts everything under one.
                               env=dict(os.environ, SYSTEMD_SECCOMP="0"))
        return {p.name: p.read_text(errors="replace") for p in (root / "upper/result").iterdir()}
    finally:
        subprocess.run(["umount", "-l", inside], check=False)


@pytest.fixture(scope="module")
def booted():
    if os.geteuid() != 0:
        pytest.skip("booting a container needs root")
    if not shutil.which("systemd-nspawn"):
        pytest.skip("no systemd-nspawn")
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-boot-"))
    try:
        results = boot(root)
        assert "security" in results, (sorted(results), (root / "console").read_text(errors="replace")[-3000:])
        yield results
    finally:
        shutil.rmtree(root, ignore_errors=True)


def passed(booted, *names):
    for name in names:
        assert booted[f"{name}.status"] == "0\n", (name, booted[name])
    return booted[names[-1]]


def test_socket_activation(booted):
    assert passed(booted, "sysusers", "tmpfiles", "reload", "sockets") == ""
    assert booted["listening"].split()[:2] == ["active", "active"]


def test_fresh_install_observes(booted):
    status = json.loads(booted["fresh"])
    assert (status["mode"], status["active"]) == ("observe", None)
    assert passed(booted, "fresh_client").split()[0] == "none"


def test_a_unit_gets_its_variables(booted):
    passed(booted, "use", "on", "broker_started")
    digest, outcome, job, by_broker = passed(booted, "unit_client").split()
    assert len(digest) == 64 and outcome == "1" and job.startswith("unit-0-") and by_broker == "1"
    assert passed(booted, "user_client").split()[0] == digest


def test_a_unit_at_boot_gets_its_variables(booted):
    """Ordinary units are ordered after the manager: the second boot's lines, of the unit's process and its child."""
    passed(booted, "enable", "after_boot")
    status = json.loads(booted["after_boot"])
    assert (status["mode"], status["active"]) == ("on", "pcie8"), "what was in force is in force after a reboot"
    lines = [line.split() for line in booted["early"].splitlines()]
    assert [line[0] for line in lines] == [status["digest"]] * 2
    assert lines[0][2] == lines[1][2] and lines[0][2].startswith("unit-0-")


def test_users_and_capabilities(booted):
    assert passed(booted, "broker_user").strip() == "cudaenv"
    assert passed(booted, "broker_caps").split()[1] == passed(booted, "manager_caps").split()[1] == "0" * 16
    tree = {line.split()[2]: line.split()[:2] for line in passed(booted, "tree").splitlines()}
    assert tree["/run/cudaenv"] == ["drwxr-xr-x", "root"]
    assert tree["/run/cudaenv/socket"][0] == "srw-rw-rw-"
    assert tree["/run/cudaenv/jobs"] == tree["/run/cudaenv/procs"] == ["drwxrwxrwt", "cudaenv"]
    assert tree["/run/cudaenv/assign"] == ["-r--r--r--", "root"]
    assert tree["/run/cudaenvd/control"][0] == "srw-rw-rw-"


def test_killed_pieces_come_back(booted):
    passed(booted, "manager_back", "broker_back")
    digest = booted["unit_client"].split()[0]
    assert passed(booted, "after_kill").split()[0] == digest
    status = json.loads(passed(booted, "after_kill_status"))
    assert (status["mode"], status["active"], status["digest"]) == ("on", "pcie8", digest)


def test_watchdog_and_crash_loop(booted):
    passed(booted, "broker_watchdog", "after_crashes", "socket_active")
    assert booted["after_crashes"].split()[0] == booted["unit_client"].split()[0]


def test_stopped_and_off(booted):
    passed(booted, "stop")
    digest, _, _, by_broker = passed(booted, "stopped_client").split()
    assert digest == booted["unit_client"].split()[0] and by_broker == "0"
    passed(booted, "off")
    assert passed(booted, "off_client").split()[0] == "none"


def test_a_unit_that_began_before_the_rules(booted):
    """Its later processes have no more than its first."""
    first, second = [line.split() for line in booted["unruled"].splitlines()]
    assert first[:3] == second[:3] and first[0] == "none" and first[2].startswith("unit-0-")


def test_journal_has_structured_entries(booted):
    entries = [json.loads(line) for line in passed(booted, "journal").splitlines()]
    ours = [e for e in entries if e.get("SYSLOG_IDENTIFIER") in ("cudaenvd", "cudaenv-broker")]
    assert ours and all("MESSAGE" in e for e in ours)


def test_units_verify(booted):
    assert passed(booted, "verify") == ""
    print(booted["security"])
