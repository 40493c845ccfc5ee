# SPDX-License-Identifier: MIT
"""The units under a real systemd: one container, booted twice, that a module's tests share; each says by its fixture how far set up it
must be: booted, installed, activated or applied, so that it runs alone as well. Needs root and systemd-nspawn."""
import json
import re
import shutil

import pytest

from box import BUILD
from node import SRC, wait_until

SERVICES = ["cudaenvd.service", "cudaenv-broker.service"]
SOCKETS = ["cudaenvd.socket", "cudaenv-broker.socket"]
MOUNTS = ["run-cudaenv-jobs.mount", "run-cudaenv-procs.mount"]
UNITS = [*SERVICES, *SOCKETS, *MOUNTS]
CLIENT = "/usr/local/bin/start-client"
PROTO = "import os; print(os.environ.get('NCCL_PROTO'), os.environ.get('CUDAENV_SNAPSHOT'))"

# The documented interface, as somebody else's program uses it.
PROGRAM = r"""
#include <cudaenv.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
	int r = cudaenv_start(NULL, NULL);
	const char *proto = getenv("NCCL_PROTO");
	printf("%s\n", proto ? proto : "None");
	return r < 0;
}
"""

# A unit's main process: its own start, then one more each time it is asked, with a cleaned environment.
WORKER = r"""
import os, subprocess, sys, time
print(os.environ.get("NCCL_PROTO"), flush=True)
while True:
    time.sleep(0.02)
    if os.path.exists("/run/ask"):
        os.unlink("/run/ask")
        subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('NCCL_PROTO'), flush=True)"], env={})
"""

# Starts without end, each in a job of its own; a line for what each had and how it ended.
STARTS = r"""
while [ ! -e /run/enough ]; do
	setsid cron -c 'python3 -c "import os; print(os.environ.get(\"NCCL_PROTO\"))"; echo "python $?"' 2>&1
	setsid cron -c '/usr/local/bin/program; echo "program $?"' 2>&1
done
"""


def state(box, *units):
    return box.run(f"systemctl is-active {' '.join(units)}").out.split()


def main_pid(box, service):
    return int(box.sh(f"systemctl show -P MainPID {service}"))


def kill_and_wait(box, service, how="KILL"):
    """Ends SERVICE so, and waits until it runs again as another process."""
    old = main_pid(box, service)
    assert old > 1
    box.sh(f"kill -{how} {old}")
    if service == "cudaenv-broker.service":
        box.run(f"systemd-run --quiet --wait --pipe {CLIENT}")
    wait_until(lambda: main_pid(box, service) not in (0, old) and state(box, service) == ["active"], f"{service} again")


def unit_start(box, properties="", command=CLIENT):
    """A start as a unit of its own."""
    return box.sh(f"systemd-run --quiet --wait --pipe {properties} {command}")


def status(box):
    return json.loads(box.run("cudaenvctl status --json").out)


def current(box):
    return status(box)["digest"]


@pytest.fixture(scope="module")
def installed(booted, node_build):
    """Nothing of it runs yet."""
    booted.write("/usr/local/bin/start-client", "")
    shutil.copy2(BUILD / "tests/start-client", booted.path(CLIENT))
    booted.sh("make -s install", directory=node_build)
    booted.sh("systemd-sysusers; systemd-tmpfiles --create; systemctl daemon-reload")
    booted.sh(f"systemctl preset {' '.join([*SERVICES, *SOCKETS])} 2>&1")
    return booted


@pytest.fixture(scope="module")
def activated(installed):
    """The sockets, and what a question to the manager started."""
    installed.sh(f"systemctl start {' '.join(SOCKETS)} && cudaenvctl list")
    installed.until("systemctl is-active cudaenv-broker.service")
    return installed


@pytest.fixture(scope="module")
def applied(activated):
    """Profile pcie8 in use, another one beside it, mode on, Debian's Python covered."""
    activated.write("/etc/cudaenv/profiles.d/pcie8.ini", (SRC / "tests/data/profiles/pcie8.ini").read_text())
    activated.write("/etc/cudaenv/profiles.d/other.ini", "[env]\nNCCL_PROTO = Simple\n")
    activated.until("cudaenvctl show pcie8 && cudaenvctl show other")
    activated.sh("cudaenvctl use pcie8 --reason 'first try' && cudaenvctl on")
    activated.sh("cudaenvctl python install --python /usr/bin/python3")
    return activated


def test_install_and_presets(booted, installed):
    assert booted.sh("getent passwd cudaenv")
    enabled = booted.run(f"systemctl is-enabled {' '.join([*SERVICES, *SOCKETS])}").out.split()
    assert enabled == ["enabled", "disabled", "enabled", "enabled"]
    assert state(booted, *UNITS) == ["inactive"] * 6, "nothing was started by installing"


def test_socket_activation(booted, installed):
    """The sockets alone: a question starts the manager, a start the broker."""
    booted.sh(f"systemctl start {' '.join(SOCKETS)}")
    assert state(booted, *UNITS) == ["inactive"] * 2 + ["active"] * 4
    booted.sh("cudaenvctl list")
    assert state(booted, "cudaenvd.service") == ["active"]
    booted.until("systemctl is-active cudaenv-broker.service")


def test_fresh_install_observes(booted, activated):
    s = status(booted)
    assert (s["mode"], s["active"]) == ("observe", None)
    assert unit_start(booted).split()[0] == "none"
    assert json.loads(booted.sh("cudaenvctl history --json"))["entries"] == []


def test_limited_file_systems(booted, activated):
    """jobs/ and procs/ are file systems of their own; the rest of the tree is as tmpfiles made it."""
    for name in ("jobs", "procs"):
        options = booted.sh(f"findmnt -n -o FSTYPE,OPTIONS /run/cudaenv/{name}")
        assert options.startswith("tmpfs")
        assert {"nosuid", "nodev", "noexec", "size=16384k", "nr_inodes=81920"} <= set(re.split(r"[ ,\n]", options))
    tree = {line.split()[2]: line.split()[:2]
            for line in booted.sh('stat -c "%A %U %n" /run/cudaenv /run/cudaenv/* /run/cudaenvd/control').splitlines()}
    assert tree["/run/cudaenv"] == ["drwxr-xr-x", "root"]
    assert tree["/run/cudaenv/socket"][0] == "srw-rw-rw-"
    assert tree["/run/cudaenv/jobs"] == tree["/run/cudaenv/procs"] == ["drwxrwxrwt", "cudaenv"]
    assert tree["/run/cudaenv/assign"] == ["-r--r--r--", "root"]
    assert tree["/run/cudaenvd/control"][0] == "srw-rw-rw-"


def test_users_capabilities_and_notify(booted, activated):
    assert booted.sh(f"stat -c %U /proc/{main_pid(booted, 'cudaenv-broker.service')}") == "cudaenv\n"
    for service in SERVICES:
        assert booted.sh(f"grep CapEff /proc/{main_pid(booted, service)}/status").split()[1] == "0" * 16
        assert booted.sh(f"systemctl show -P Type -P StatusText {service}").split("\n")[0] == "notify"
    assert "observe" in booted.sh("systemctl show -P StatusText cudaenvd.service")


def test_a_unit_gets_its_variables(booted, applied):
    digest, outcome, job, by_broker = unit_start(booted).split()
    assert digest == current(booted) and outcome == "1" and job.startswith("unit-0-") and by_broker == "1"
    booted.write("/etc/systemd/system/engine.service", f"[Service]\nType=oneshot\nExecStart=/usr/bin/python3 -c \"{PROTO}\"\n"
                 "StandardOutput=file:/root/engine\n")
    booted.sh("systemctl daemon-reload && systemctl start engine.service")
    assert booted.sh("cat /root/engine").split() == ["LL", digest]
    assert unit_start(booted, "-p User=nobody", f'/usr/bin/python3 -c "{PROTO}"').split() == ["LL", digest]


@pytest.mark.parametrize("properties, by_broker", [
    ("-p ProtectSystem=strict -p ProtectHome=yes -p PrivateTmp=yes", True),
    # As a container has the tree: bound into a /run of its own.
    ("-p TemporaryFileSystem=/run -p BindPaths=/run/cudaenv", True),
    # These bring a system call filter, which may kill on socket(2): the client goes by the files alone.
    ("-p DynamicUser=yes", False),
    ("-p ProtectSystem=strict -p PrivateTmp=yes -p RestrictAddressFamilies=AF_INET", False),
    ("-p DynamicUser=yes -p PrivateUsers=yes -p ProtectProc=invisible -p ProcSubset=pid", False),
])
def test_sandboxed_units(booted, applied, properties, by_broker):
    answer = unit_start(booted, properties).split()
    assert answer[0] == current(booted) and answer[3] == str(int(by_broker)), answer
    assert unit_start(booted, properties, f'/usr/bin/python3 -c "{PROTO}"').split() == ["LL", current(booted)]


def test_the_sandbox_that_pins(booted, applied):
    """What OPERATIONS.md says of a unit with a filter and a read-only system: with these paths its job is pinned."""
    booted.write("/root/twice.sh", f"{CLIENT}\ncudaenvctl use other >/dev/null\nenv -i {CLIENT}\n")
    lines = unit_start(booted, "-p ProtectSystem=strict -p SystemCallFilter=~@reboot -p ReadWritePaths=/run/cudaenv/jobs "
                       "-p ReadWritePaths=/run/cudaenv/procs", "/bin/sh /root/twice.sh").split("\n")
    assert lines[0].split()[0] == lines[1].split()[0] and lines[0].split()[3] == "0"
    booted.sh("cudaenvctl rollback")


def test_what_an_administrator_may_set(booted, applied):
    """Membership in the group chooses and tunes; it gives no code to other people's processes."""
    booted.sh("id -u tuner >/dev/null 2>&1 || useradd -M -G cudaenv-admin tuner")
    as_member = "setpriv --reuid=tuner --regid=tuner --init-groups cudaenvctl"
    booted.sh(f"{as_member} set NCCL_DEBUG=INFO NCCL_NTHREADS=256 --unit probe.service")
    for name in ("NCCL_NET_PLUGIN", "CUDA_INJECTION64_PATH", "TRITON_PTXAS_PATH", "NCCL_COMM_ID", "NCCL_CONF_FILE", "LESSOPEN",
                 "CUDA_HOME", "NCCL_NOT_KNOWN"):
        for dry in ("", "--dry-run "):
            done = booted.run(f"{as_member} set {dry}{name}=/tmp/x NCCL_DEBUG=INFO --unit probe.service")
            assert (done.status, done.out) == (1, "") and done.err.startswith(f"cudaenvctl: set: {name} is not known as a plain"), done
    booted.sh("cudaenvctl set NCCL_NET_PLUGIN=none --unit probe.service")
    assert booted.run(f"{as_member} set --dry-run NCCL_DEBUG=WARN --unit probe.service").status == 0
    booted.sh("cudaenvctl use --reset --unit probe.service && userdel tuner")


def test_a_running_unit_is_released(booted, applied):
    """With the rights that the units leave them: the broker tells what another user's process reported, and replaces its pin."""
    booted.write("/etc/systemd/system/hold.service",
                 '[Service]\nUser=nobody\nExecStart=/usr/bin/python3 -c "import time; time.sleep(3600)"\n')
    booted.sh("systemctl daemon-reload && systemctl start hold.service")
    pid, before = main_pid(booted, "hold.service"), current(booted)
    booted.until(f"cudaenvctl why {pid}")
    why = json.loads(booted.sh(f"cudaenvctl why {pid} --json"))
    assert why["unit"] == "hold.service" and why["kind"] == "unit" and not why["report"]["alone"] and why["uid"] != 0
    assert {v["reported"] for v in why["variables"]} == {"set"}
    assert booted.run(f"cudaenvctl why {pid}", user="daemon").status == 1
    booted.sh("cudaenvctl use other")
    stale = json.loads(booted.run(f"cudaenvctl why {pid} --json").out)
    assert "To do: systemctl restart hold.service; or cudaenvctl release " in stale["advice"]
    booted.sh(f"cudaenvctl release {pid} --reason 'a test'")
    assert booted.sh(f"readlink /run/cudaenv/jobs/{why['job']}").split() == [current(booted), before]
    assert booted.sh(f"stat -c %U /run/cudaenv/jobs/{why['job']}") == "cudaenv\n"
    assert booted.sh("cudaenvctl history").splitlines()[-1].endswith(f"{before[:12]}\t{current(booted)[:12]}\ta test")
    booted.sh("systemctl stop hold.service; rm /etc/systemd/system/hold.service; systemctl daemon-reload; cudaenvctl rollback")


def test_killed_pieces_come_back(booted, applied):
    digest = current(booted)
    for service in SERVICES:
        kill_and_wait(booted, service)
    assert unit_start(booted).split()[0] == digest
    s = status(booted)
    assert (s["mode"], s["active"], s["digest"]) == ("on", "pcie8", digest)


def test_watchdog(booted, applied):
    """Frozen: systemd ends it and starts it again. (The units' own 30 and 60 s would be waited for.)"""
    for service in SERVICES:
        booted.write(f"/etc/systemd/system/{service}.d/test.conf", "[Service]\nWatchdogSec=500ms\n")
    booted.sh(f"systemctl daemon-reload; systemctl restart {' '.join(SERVICES)}")
    for service in SERVICES:
        kill_and_wait(booted, service, "STOP")
        assert booted.sh(f"journalctl -b -u {service} -g 'Watchdog timeout' -o cat")
    booted.sh("rm -r /etc/systemd/system/cudaenv*.d; systemctl daemon-reload; systemctl restart " + " ".join(SERVICES))
    assert unit_start(booted).split()[0] == current(booted)


def test_crash_loop(booted, applied):
    """However often it dies, the socket stays and the next start has its answer."""
    booted.sh("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do"
              " systemctl kill -s KILL cudaenv-broker.service cudaenvd.service;"
              f" {CLIENT} >/dev/null; done")
    assert state(booted, *SOCKETS) == ["active"] * 2
    for service in SERVICES:
        booted.until(f"systemctl is-active {service}")
    assert unit_start(booted).split()[0] == current(booted)


def test_journal_has_fields(booted, applied):
    booted.sh("cudaenvctl use other && cudaenvctl rollback")
    entries = [json.loads(line) for line in booted.sh("journalctl -b -o json -u cudaenvd -u cudaenv-broker").splitlines()]
    ours = [e for e in entries if e.get("SYSLOG_IDENTIFIER") in ("cudaenvd", "cudaenv-broker")]
    assert {e["SYSLOG_IDENTIFIER"] for e in ours} == {"cudaenvd", "cudaenv-broker"}
    switches = [e for e in ours if "CUDAENV_ACTION" in e]
    assert [(e["CUDAENV_ACTION"], e["CUDAENV_PROFILE"], e["CUDAENV_MODE"], e["CUDAENV_UID"]) for e in switches[-2:]] == [
        ("use", "other", "on", "0"), ("rollback", "pcie8", "on", "0")]
    assert switches[-1]["CUDAENV_DIGEST"] == current(booted)
    assert booted.sh("journalctl -b -o cat CUDAENV_ACTION=rollback").count("rollback by uid 0") >= 1


def test_upgrade_over_itself(booted, applied, node_build):
    """Other binaries, the same units, while jobs run and others start: none fails, none is forgotten, nothing is split."""
    booted.write("/root/program.c", PROGRAM)
    booted.sh("gcc -o /usr/local/bin/program program.c $(pkg-config --cflags --libs libcudaenv)")
    booted.write("/root/worker.py", WORKER)
    booted.write("/root/starts.sh", STARTS)
    booted.link("/usr/local/bin/cron", "/bin/sh")
    booted.sh("rm -f /run/enough; systemd-run --quiet --unit=worker -p StandardOutput=append:/root/worker python3 /root/worker.py;"
              "systemd-run --quiet --unit=starts -p StandardOutput=append:/root/starts sh /root/starts.sh")
    booted.until("grep -q LL /root/worker && grep -q program /root/starts")
    worker = main_pid(booted, "worker")

    def of_worker():
        row, = [p for p in json.loads(booted.sh("cudaenvctl workers --json"))["processes"] if p["pid"] == worker]
        return row["job"], row["snapshot"], row["profile"]

    before, pids = of_worker(), [main_pid(booted, s) for s in SERVICES]
    pin = booted.sh(f"readlink /run/cudaenv/jobs/{before[0]}")
    for file in ("cudaenvd", "cudaenvctl", "daemon/broker/cudaenv-broker", ".libs/libcudaenv.so.0.0.0"):
        booted.sh(f"printf '\\n' >>{node_build}/{file}")  # another file, the same program
    booted.sh("make -s install", directory=node_build)
    units = booted.sh(f"systemctl show -P NeedDaemonReload {' '.join(UNITS)}").split()
    assert units == ["no"] * len(UNITS), "units that did not change need no daemon-reload"
    booted.sh(f"systemctl try-restart {' '.join(SERVICES)}")
    assert all(main_pid(booted, s) not in (0, old) for s, old in zip(SERVICES, pids))
    for program in ("/usr/sbin/cudaenvd", "/usr/libexec/cudaenv/cudaenv-broker"):
        assert booted.path(program).read_bytes().endswith(b"\n")
    assert of_worker() == before and booted.sh(f"readlink /run/cudaenv/jobs/{before[0]}") == pin
    booted.sh("cudaenvctl use other; touch /run/ask")
    booted.until("[ $(wc -l </root/worker) = 2 ]")
    assert booted.sh("cat /root/worker").split() == ["LL", "LL"], "the running job's next child"
    booted.sh("touch /run/enough")
    booted.until("! systemctl is-active starts")
    starts = booted.sh("cat /root/starts").splitlines()
    assert len(starts) >= 20 and set(starts) <= {"LL", "Simple", "python 0", "program 0"}, set(starts)
    booted.sh("cudaenvctl rollback; systemctl stop worker")


def fill(box, directory, how):
    """As nobody, until the directory takes no more. What stays open or linked fills it on."""
    box.write("/root/fill.py", "import os, sys\n"
              "directory, how = sys.argv[1:]\nos.chdir(directory)\ni = 0\ntry:\n    while True:\n"
              "        if how == 'names':\n            os.symlink('x', f'x{i}')\n"
              "        else:\n            with open(f'x{i}', 'wb') as f:\n                f.write(bytes(1 << 20))\n"
              "        i += 1\nexcept OSError as e:\n    print(e.strerror)\n", 0o644)
    box.path("/root").chmod(0o755)
    return box.sh(f"python3 -I -S /root/fill.py {directory} {how}", user="nobody")


def test_full_directories(booted, applied):
    """Somebody fills jobs/ and procs/: /run has the room that it had, starts have their variables, and it is cleared up."""
    free = lambda: [int(n) for n in booted.sh("df --output=avail,iavail /run | tail -1").split()]  # noqa: E731
    before = free()
    broker = main_pid(booted, "cudaenv-broker.service")
    booted.sh(f"kill -STOP {broker}")  # it clears up faster than one fills
    for how in ("names", "bytes"):
        for name in ("jobs", "procs"):
            assert fill(booted, f"/run/cudaenv/{name}", how) == "No space left on device\n"
            digest, outcome, job, by_broker = unit_start(booted).split()
            assert (digest, by_broker) == (current(booted), "0")
        after = free()
        assert before[0] - after[0] < 2048 and before[1] - after[1] < 200, (before, after)
        assert unit_start(booted, "", f'/usr/bin/python3 -c "{PROTO}"').split() == ["LL", digest]
        booted.sh("cudaenvctl use other && cudaenvctl rollback")  # publishing has room
        booted.sh(f"kill -CONT {broker}")
        booted.until("! ls /run/cudaenv/jobs /run/cudaenv/procs | grep -q ^x")
        assert unit_start(booted).split()[3] == "1"
        booted.sh(f"kill -STOP {broker}")
    booted.sh(f"kill -CONT {broker}")


def test_a_unit_that_began_before_the_rules(booted, applied):
    """Its later processes have no more than its first."""
    booted.sh(f"systemctl stop {' '.join([*SERVICES, *SOCKETS])} && rm /run/cudaenv/assign")
    booted.sh(f"systemd-run --quiet --unit=unruled sh -c '{CLIENT} >/root/unruled; until [ -e /run/go ]; do sleep 0.05; done; "
              f"{CLIENT} >>/root/unruled'")
    booted.until("test -s /root/unruled")
    booted.sh(f"systemctl start {' '.join(SOCKETS)} cudaenvd.service; touch /run/go")
    booted.until("[ $(wc -l </root/unruled) = 2 ]")
    first, second = [line.split() for line in booted.sh("cat /root/unruled").splitlines()]
    assert first[:3] == second[:3] and first[0] == "none" and first[2].startswith("unit-0-")


def test_stopped_and_off(booted, applied):
    """Stopped altogether starts have their variables from the files, and the directories stay; off holds without a daemon."""
    pins = booted.sh("ls /run/cudaenv/jobs")
    booted.sh(f"systemctl stop {' '.join([*SERVICES, *SOCKETS])}")
    assert state(booted, *MOUNTS) == ["active"] * 2 and set(pins.split()) <= set(booted.sh("ls -A /run/cudaenv/jobs").split() + [""])
    digest, _, _, by_broker = unit_start(booted).split()
    assert digest == current(booted) and by_broker == "0"
    booted.sh("cudaenvctl off")
    assert unit_start(booted).split()[0] == "none"
    booted.sh(f"systemctl start {' '.join(SOCKETS)}; systemctl start cudaenvd.service; cudaenvctl on")


def test_a_directory_in_use_is_not_covered(booted, applied):
    """An update from a version without the mounts, while jobs run: their pins stay in sight until a reboot."""
    booted.sh(f"systemctl stop {' '.join([*SERVICES, *SOCKETS, *MOUNTS])} && ln -s none /run/cudaenv/jobs/old")
    booted.sh(f"systemctl start {' '.join(SOCKETS)} cudaenvd.service")
    assert state(booted, *MOUNTS) == ["inactive", "active"]
    assert booted.sh("systemctl --failed --no-legend") == ""
    assert unit_start(booted).split()[0] == current(booted)
    booted.sh(f"systemctl stop {' '.join([*SERVICES, *SOCKETS])}; find /run/cudaenv/jobs -mindepth 1 -delete")
    booted.sh(f"systemctl start {' '.join(SOCKETS)} cudaenvd.service")
    assert state(booted, *MOUNTS) == ["active"] * 2 and unit_start(booted).split()[3] == "1"


def test_units_verify_and_their_exposure(booted, installed):
    known = [f"/usr/lib/systemd/system/{u}" for u in UNITS]
    man = "" if shutil.which("man") else "--man=no"
    done = booted.run(f"systemd-analyze verify {man} {' '.join(known)}")
    assert (done.status, done.out, done.err) == (0, "", "")
    recorded = (SRC / "HACKING.md").read_text()
    version = booted.sh("systemctl --version").split()[1]
    for service in SERVICES:
        line = booted.sh(f"systemd-analyze security --offline=yes --no-pager /usr/lib/systemd/system/{service} | tail -1")
        print(line)
        exposure = re.search(rf"for {service}: ([\d.]+)", line)[1]
        if f"by systemd {version}" in recorded:
            assert re.search(rf"{service} +{exposure} ", recorded), (service, exposure)


def test_after_a_reboot(booted, applied):
    """What was in force is in force, with its history; ordinary units are ordered after the manager."""
    booted.write("/etc/systemd/system/early.service", f"[Service]\nType=oneshot\nExecStart={CLIENT} 1\n"
                 "StandardOutput=append:/root/early\n[Install]\nWantedBy=multi-user.target\n")
    booted.sh("systemctl enable early.service")
    before, history = status(booted), booted.sh("cudaenvctl history --json")
    booted.reboot()
    after = status(booted)
    assert [after[k] for k in ("mode", "active", "digest")] == [before[k] for k in ("mode", "active", "digest")]
    assert after["digest"] and booted.sh("cudaenvctl history --json") == history
    lines = [line.split() for line in booted.sh("cat /root/early").splitlines()]
    assert [line[0] for line in lines] == [after["digest"]] * 2
    assert lines[0][2] == lines[1][2] and lines[0][2].startswith("unit-0-")
    assert state(booted, *MOUNTS, *SOCKETS, "cudaenvd.service") == ["active"] * 5
    assert booted.sh("systemctl --failed --no-legend") == ""
    assert {line.split()[1] for line in booted.sh('stat -c "%n %U" /run/cudaenv/jobs /run/cudaenv/procs').splitlines()} == {"cudaenv"}
