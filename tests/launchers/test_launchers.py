# SPDX-License-Identifier: MIT
"""Launchers of one host: all workers of a job have one snapshot across a switch, and a new job has the new one."""
import os
import subprocess

import pytest

from conftest import HERE, PYTHON, Place, end, needs, needs_module, wait_until

ELASTIC = """
import os, subprocess, sys
from worker import wait_for_switch
# torch.distributed.run: workers are children with a copy of its environment; when one fails all are started again.
def generation(phase):
    ranks = [subprocess.Popen([sys.executable, os.environ["HERE"] + "/worker.py", phase], env=dict(os.environ, RANK=str(r))) for r in (0, 1)]
    assert [p.wait() for p in ranks] == [0, 0]
generation("before"); wait_for_switch(); generation("after")
"""
TORCHRUN = """
import os
from worker import report, wait_for_switch
# Rank 0 fails after the switch: torchrun ends all, and starts all again.
again = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
report("after" if again else "before")
if not again:
    wait_for_switch()
    raise SystemExit(os.environ["RANK"] == "0")
"""
SPAWN = """
import multiprocessing as mp
from worker import report, wait_for_switch
# torch.multiprocessing.spawn and the workers of SGLang and vLLM.
def generation(context, phase):
    ranks = [mp.get_context(context).Process(target=report, args=(phase,)) for r in (0, 1)]
    [p.start() for p in ranks]; [p.join() for p in ranks]
    assert all(p.exitcode == 0 for p in ranks)
if __name__ == "__main__":
    for context in "spawn", "forkserver":
        generation(context, "before")
    wait_for_switch()
    for context in "spawn", "forkserver":
        generation(context, "after")
"""
JOBLIB = """
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from worker import report, wait_for_switch
if __name__ == "__main__":
    Parallel(n_jobs=2)(delayed(report)("before") for _ in range(2))
    wait_for_switch()
    get_reusable_executor().shutdown(wait=True, kill_workers=True)
    Parallel(n_jobs=2)(delayed(report)("after") for _ in range(2))
"""
DASK = """
import dask, os
from dask.distributed import Client, LocalCluster
from worker import report, wait_for_switch
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        old = set(client.run(report, "before").values())
        wait_for_switch()
        cluster.scale(2)
        client.wait_for_workers(2)
        client.run(report, "after")
"""
RAY = """
import os, ray
from worker import report, wait_for_switch
@ray.remote(num_cpus=0.1)
class Worker:
    def report(self, phase):
        return report(phase)
ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, _temp_dir="/tmp/ray-" + str(os.getpid()),
         object_store_memory=80 * 1024 * 1024)
first = [Worker.remote() for _ in range(2)]
ray.get([w.report.remote("before") for w in first])
wait_for_switch()
second = [Worker.remote() for _ in range(2)]
ray.get([w.report.remote("after") for w in second])
ray.shutdown()
"""
GUNICORN = """
import os
from worker import report
report("after" if os.path.exists(os.environ["DIR"] + "/hup") else "before")
def app(environ, start_response):
    start_response("200 OK", [])
    return [b""]
"""


def write(place, name, text):
    (place.work / name).write_text(text)
    return place.work / name


@pytest.mark.parametrize("name, text, module, workers", [
    ("elastic", ELASTIC, "os", 2), ("spawn", SPAWN, "os", 4), ("joblib", JOBLIB, "joblib", 2), ("dask", DASK, "distributed", 1),
    ("ray", RAY, "ray", 2)], ids=["elastic", "spawn", "joblib", "dask", "ray"])
def test_python_launchers(place, name, text, module, workers):
    needs_module(module)
    lines = place.both([PYTHON, write(place, f"job_{name}.py", text)], workers, workers)
    if name != "dask":
        pids = {phase: {line.pid for line in lines if line.phase == phase} for phase in ("before", "after")}
        assert not pids["before"] & pids["after"], "other processes did the second part"


def test_torchrun(place):
    needs_module("torch")
    script = write(place, "job_torchrun.py", TORCHRUN)
    place.both([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1", script], 2, 2)


def test_gunicorn(place):
    """Its workers are forks of the master, which keeps its environment: HUP loads the program anew in new ones."""
    needs_module("gunicorn")
    write(place, "app.py", GUNICORN)
    command = [PYTHON, "-m", "gunicorn", "-w", "2", "--chdir", place.work, "-b", f"unix:{place.work}/socket", "--pid", "pid",
               "app:app"]
    for in_use in "ring", "tree":
        for name in "hup", "report", "pid":
            (place.work / name).unlink(missing_ok=True)
        p = place.launch(command)
        try:
            place.reported("before", 2, p)
            if in_use == "ring":
                place.switch()
            (place.work / "hup").touch()
            os.kill(int((place.work / "pid").read_text()), 1)
            place.reported("after", 2, p)
        finally:
            end(p)
        assert {line.profile for line in place.lines()} == {in_use}, place.lines()


def test_mpirun(place):
    """Ranks of one mpirun; one of them is slow to start."""
    needs("mpirun")
    script = write(place, "rank.sh", 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exec "$PYTHON" "$HERE/worker.py" before; fi\n'
                   'until [ -e "$DIR/switched" ]; do sleep 0.02; done\nexec "$PYTHON" "$HERE/worker.py" after\n')
    place.both(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", "/bin/sh", script], 1, 2, OMPI_MCA_plm="isolated",
               OMPI_MCA_btl="self,tcp", OMPI_MCA_rmaps_base_oversubscribe="1")


def test_supervisord(place):
    """Each of its programs is a job, from one start of it to the next."""
    needs("supervisord")
    program = write(place, "program.sh", '"$PYTHON" "$HERE/worker.py" before\nuntil [ -e "$DIR/switched" ]; do sleep 0.02; done\n'
                    '"$PYTHON" "$HERE/worker.py" after\nexec sleep 600\n')
    conf = write(place, "supervisord.conf", f"[unix_http_server]\nfile={place.work}/s\n[supervisord]\nnodaemon=true\n"
                 f"logfile={place.work}/supervisord.log\npidfile={place.work}/pid\n[supervisorctl]\nserverurl=unix://{place.work}/s\n"
                 "[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n"
                 f"[program:engine]\ncommand=/bin/sh {program}\nprocess_name=%(program_name)s%(process_num)d\nnumprocs=2\n"
                 "stopasgroup=true\nkillasgroup=true\n")
    p = place.launch(["supervisord", "-c", conf])
    try:
        place.reported("before", 2, p)
        place.switch()
        place.reported("after", 2, p)
        assert {line.profile for line in place.lines()} == {"ring"}
        subprocess.run(["supervisorctl", "-c", conf, "restart", "engine:engine0"], check=True, capture_output=True)
        place.reported("after", 3, p)
        assert [line.profile for line in place.lines()[4:]] == ["tree", "tree"]
    finally:
        end(p)


def test_tmux(place):
    """Two windows are two jobs; the server, whoever started it, is none."""
    needs("tmux")
    script = write(place, "job.sh", '"$PYTHON" "$HERE/worker.py" before\nuntil [ -e "$DIR/switched" ]; do sleep 0.02; done\n'
                   '"$PYTHON" "$HERE/worker.py" after\n')
    tmux = ["tmux", "-S", str(place.work / "tmux"), "-f", "/dev/null"]
    env = place.variables_for(TERM="xterm")
    subprocess.run([*tmux, "new-session", "-d", "-s", "s", "/bin/sh", str(script)], env=env, check=True, cwd=place.work)
    try:
        place.reported("before", 1)
        place.switch()
        place.reported("after", 1)
        assert [line.profile for line in place.lines()] == ["ring", "ring"]
        subprocess.run([*tmux, "new-session", "-d", "-s", "t", "/bin/sh", str(script)], env=env, check=True, cwd=place.work)
        place.reported("after", 2)
        assert [line.profile for line in place.lines()[2:]] == ["tree", "tree"]
    finally:
        subprocess.run([*tmux, "kill-server"], env=env, capture_output=True)
