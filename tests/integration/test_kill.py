# SPDX-License-Identifier: MIT
"""kill -9 of manager and broker in random order, under starts and switches.

CUDAENV_KILL_SECONDS (10) and CUDAENV_KILL_RATE (200 starts a second) say how long and how much; CUDAENV_SEED replays a run.
"""
import collections
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

from node import SRC, clean_environ

CLIENT = pathlib.Path(os.environ["BUILDDIR"]) / "tests/start-client"
SECONDS = float(os.environ.get("CUDAENV_KILL_SECONDS", "10"))
RATE = float(os.environ.get("CUDAENV_KILL_RATE", "200"))
CHILDREN = 4


def test_kill(node):
    seed = int(os.environ.get("CUDAENV_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    node.profile("pcie8", (SRC / "tests/data/profiles/pcie8.ini").read_text())
    node.variables("other", NCCL_PROTO="Simple", NCCL_ALGO="Tree")
    node.start()
    node.ctl("use", "pcie8")
    node.ctl("on")
    digests = {p["digest"] for p in node.json("list")["profiles"]}
    count = collections.Counter()
    wrong = []
    over = threading.Event()
    env = clean_environ(CUDAENV_RUNTIME_DIR=node.run)

    def jobs(lane, lanes):
        """One lane starts jobs at its share of the rate, each of CHILDREN + 1 starts."""
        period = lanes * (CHILDREN + 1) / RATE
        due = time.monotonic() + period * lane / lanes
        while not over.wait(max(0, due - time.monotonic())):
            due = max(due + period, time.monotonic() - period)
            job = subprocess.run(node.new_job([CLIENT, CHILDREN]), env=env, capture_output=True, text=True)
            lines = [line.split() for line in job.stdout.splitlines()]
            count["jobs"] += 1
            count["starts"] += len(lines)
            count["by broker"] += sum(line[3] == "1" for line in lines)
            if job.returncode != 0 or job.stderr or len(lines) != CHILDREN + 1:
                wrong.append(("failed", job.returncode, job.stdout, job.stderr))
            elif len({line[0] for line in lines}) != 1 or lines[0][0] not in digests:
                wrong.append(("split or bare", job.stdout))

    lanes = [threading.Thread(target=jobs, args=(i, 4)) for i in range(4)]
    for lane in lanes:
        lane.start()
    active = "pcie8"
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            what = chance.choice(["broker", "broker", "manager", "both", "switch", "switch"])
            count[what] += 1
            if what in ("broker", "both"):
                os.kill(node.broker_pid(), signal.SIGKILL)
            if what in ("manager", "both"):
                node.process.send_signal(signal.SIGKILL)
                node.process.wait()
                node.start()  # as systemd does
                assert node.json("status")["active"] == active, "the active profile survives"
            if what == "switch":
                name = chance.choice(["pcie8", "other"])
                if node.ctl("use", name, ok=None).returncode == 0:
                    active = name
                else:
                    wrong.append(("switch refused", name))
            over.wait(chance.uniform(0.02, 0.3))
    finally:
        over.set()
        for lane in lanes:
            lane.join()
    print(dict(count), "wrong:", len(wrong))
    with open(pathlib.Path(os.environ["BUILDDIR"]) / "kill-counts.txt", "w") as f:
        f.write(f"seed {seed} seconds {SECONDS:g} {dict(count)} wrong {len(wrong)}\n")
    assert not wrong, (seed, wrong[:5])
    assert count["starts"] > 0
