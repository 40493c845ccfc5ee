# SPDX-License-Identifier: MIT
"""What every worker of a launcher's test does: one line about its environment, in one write. `worker.py PHASE [wait]`."""
import os
import sys
import time


def report(phase):
    line = " ".join([str(os.getpid()), phase] + [os.environ.get(n) or "-" for n in ("CUDAENV_PROFILE", "NCCL_ALGO", "CUDAENV_SNAPSHOT")])
    fd = os.open(os.environ["DIR"] + "/report", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(fd, line.encode() + b"\n")
    os.close(fd)
    return os.getpid()


def wait_for_switch():
    while not os.path.exists(os.environ["DIR"] + "/switched"):
        time.sleep(0.02)


if __name__ == "__main__":
    report(sys.argv[1])
    if sys.argv[2:] == ["wait"]:
        wait_for_switch()
