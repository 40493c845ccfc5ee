# SPDX-License-Identifier: MIT
"""Launchers over several hosts: what the first host put into the environment is known as cudaenv's on the second, and replaced by its
own. A host is a mount namespace with another node's directories, entered by an agent in the place of ssh.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import CTL, HERE, PYTHON, Place, end, needs, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make hosts")


@pytest.fixture(scope="module")
def other():
    """A second host: the same two profile names, other values of what ranks need not agree on, and `more` in it."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-"))
    root.chmod(0o755)
    n = Place(root)
    n.variables("ring", NCCL_ALGO="Ring", NCCL_SOCKET_IFNAME="second0")
    n.variables("tree", NCCL_ALGO="Tree", NCCL_SOCKET_IFNAME="second0")
    n.start()
    n.ctl("use", "tree")
    n.ctl("on")
    yield n
    n.stop()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def hosts(place, other):
    """An agent that starts a command on the second host as sshd would: a clean environment, no registered ancestor."""
    (place.work / "sshd").symlink_to("/bin/sh")
    agent = place.work / "agent"
    agent.write_text(f"""#!/bin/sh
# agent HOST COMMAND...
shift
export CUDAENV_RUNTIME_DIR={place.run}
exec unshare -m {place.work}/sshd -c 'mount --bind {other.run} {place.run} && exec setsid -w env -i PATH="$PATH" DIR={place.work} \
HERE={HERE} PYTHON={PYTHON} PYTHONPATH={HERE} HOME={place.work} CUDAENV_RUNTIME_DIR={place.run} sh -c "$*"' sshd "$@"
""")
    agent.chmod(0o755)
    other.ctl("use", "tree")
    return agent


def algo(place, phase):
    return [(line.profile, line.algo) for line in place.lines() if line.phase == phase]


def mpirun(agent, *more):
    return ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", str(agent), "--mca", "plm", "rsh", "--mca", "btl", "self,tcp",
            "--mca", "orte_keep_fqdn_hostnames", "1", "-H", f"{os.uname().nodename}:1,second:1", *more, "-n", "2"]


def test_the_first_hosts_values_are_replaced(place, hosts):
    """A token and marks that mpirun -x carries: Ring was the first host's, and is not the user's wish on the second."""
    script = f'"$CTL" exec -- {" ".join(mpirun(hosts, "-x CUDAENV_SNAPSHOT", "-x CUDAENV_APPLIED", "-x NCCL_ALGO"))} ' \
             'sh -c \'"$PYTHON" "$HERE/worker.py" "host$OMPI_COMM_WORLD_RANK"\''
    needs("mpirun")
    p = place.launch(["/bin/sh", "-c", script])
    try:
        place.reported("host0", 1, p)
        place.reported("host1", 1, p)
        assert p.wait(60) == 0, (place.work / "log").read_text()
    finally:
        end(p)
    assert algo(place, "host0") == [("ring", "Ring")] and algo(place, "host1") == [("tree", "Tree")]


def test_require_makes_ranks_alike(place, hosts):
    """The same job, with the rank digest of the first host carried along."""
    needs("mpirun")
    rank = place.json("show", "ring")["rank_digest"]
    assert rank != place.json("show", "ring")["digest"]
    command = mpirun(hosts, "-x", "CUDAENV_REQUIRE", "-x", "CUDAENV_SNAPSHOT", "-x", "CUDAENV_APPLIED", "-x", "NCCL_ALGO")
    p = place.launch([*command, "sh", "-c", '"$PYTHON" "$HERE/worker.py" "host$OMPI_COMM_WORLD_RANK"'], CUDAENV_REQUIRE=rank,
                     CUDAENV_SNAPSHOT="0" * 64, CUDAENV_APPLIED="", NCCL_ALGO="Ring")
    try:
        place.reported("host0", 1, p)
        place.reported("host1", 1, p)
        assert p.wait(60) == 0, (place.work / "log").read_text()
    finally:
        end(p)
    assert algo(place, "host0") == [("ring", "Ring")] and algo(place, "host1") == [("ring", "Ring")]
    assert len({line.snapshot for line in place.lines()}) == 2, "each host's own snapshot, equal for ranks"


CONF = """ClusterName=one
SlurmctldHost={host}
AuthType=auth/munge
SlurmUser=root
SlurmctldPort=27817
SlurmctldPidFile={work}/ctld.pid
SlurmctldLogFile={work}/ctld.log
StateSaveLocation={work}/state
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdPidFile={work}/%n.pid
SlurmdLogFile={work}/%n.log
SlurmdSpoolDir={work}/%n.spool
ReturnToService=2
SelectType=select/linear
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=27818 CPUs=1
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port=27819 CPUs=1
PartitionName=p Nodes=n[1-2] Default=YES State=UP
"""


@pytest.fixture
def slurm(place):
    """A controller and two slurmd of one machine; munge with a key of its own."""
    needs("slurmctld", "slurmd", "munged", "srun")
    work, started = place.work, []
    work.chmod(0o755)
    (work / "state").mkdir()
    (work / "munge").mkdir(mode=0o700)
    key = work / "munge/key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    (work / "slurm.conf").write_text(CONF.format(host=os.uname().nodename, work=work) + f"AuthInfo=socket={work}/munge.socket\n")
    env = place.variables_for(SLURM_CONF=work / "slurm.conf")

    def start(*command):
        log = open(work / "log", "ab")
        started.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=work))

    start("munged", "-F", "--force", f"--key-file={key}", f"--socket={work}/munge.socket", f"--pid-file={work}/munge/pid",
          f"--log-file={work}/munge/log", f"--seed-file={work}/munge/seed")
    wait_until((work / "munge.socket").exists, "munged")
    start("slurmctld", "-D", "-f", work / "slurm.conf")
    for node in "n1", "n2":
        (work / f"{node}.spool").mkdir()
        start("slurmd", "-D", "-N", node, "-f", work / "slurm.conf")

    def idle():
        done = subprocess.run(["sinfo", "-h", "-o", "%T %D"], env=env, capture_output=True, text=True)
        return done.stdout.strip() == "idle 2"

    try:
        wait_until(idle, f"two idle nodes: {(work / 'log').read_text()[-2000:]}", 60)
        yield env
    finally:
        for p in reversed(started):
            end(p)


def test_slurm_tasks_of_a_node_are_one_job(place, slurm):
    """A node's tasks of one step, one of them late; the next step is a new job."""
    script = place.work / "task.sh"
    script.write_text('if [ "$SLURM_PROCID" = 0 ]; then exec "$PYTHON" "$HERE/worker.py" before; fi\n'
                      'until [ -e "$DIR/switched" ]; do sleep 0.02; done\nexec "$PYTHON" "$HERE/worker.py" after\n')
    place.both(["srun", "-N1", "-n2", "--overcommit", "/bin/sh", script], 1, 1, SLURM_CONF=place.work / "slurm.conf")


def test_slurm_carries_what_was_asked_for(place, slurm):
    """Two slurmd are two hosts: a job's step on each is alike where its launcher says so, whatever is in use when it starts there."""
    script = place.work / "task.sh"
    script.write_text('if [ "$SLURM_PROCID" = 0 ]; then exec "$PYTHON" "$HERE/worker.py" before; fi\n'
                      'until [ -e "$DIR/switched" ]; do sleep 0.02; done\nexec "$PYTHON" "$HERE/worker.py" after\n')
    for command, more in ((["srun"], {"CUDAENV_REQUIRE": place.json("show", "ring")["rank_digest"]}), ([CTL, "exec", "--", "srun"], {})):
        p = place.launch([*command, "-N2", "-n2", "--export=ALL", "/bin/sh", script], SLURM_CONF=place.work / "slurm.conf", **more)
        try:
            place.reported("before", 1, p)
            place.switch()
            place.reported("after", 1, p)
            assert p.wait(60) == 0
        finally:
            end(p)
        assert algo(place, "before") == algo(place, "after") == [("ring", "Ring")], (command, place.lines())
        place.ctl("use", "ring")
        (place.work / "switched").unlink()
        (place.work / "report").unlink()
