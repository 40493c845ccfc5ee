# SPDX-License-Identifier: MIT
"""What the ranks of the GPU runs do: one all-reduce over NCCL; which variables took effect is in NCCL's own log.

With one GPU both ranks share it: NCCL takes them for ranks of two hosts (NCCL_HOSTID), which talk by sockets.
"""
import os
import pathlib
import re
import signal

import torch
import torch.distributed

LINE = re.compile(r"NCCL INFO (NCCL_\w+) set by environment to (.*?)\.?$", re.M)
OWN = re.compile(r"NCCL_(DEBUG\w*|HOSTID|SOCKET_IFNAME)")


def reduce(rank, world, prefix, limit=120):
    """All-reduces 8 MiB; SIGALRM ends it after LIMIT seconds, for ranks with different settings hang."""
    signal.alarm(limit)
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,ENV,TUNING,GRAPH", NCCL_DEBUG_FILE=f"{prefix}.{rank}.log")
    if torch.cuda.device_count() < world:
        os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_SOCKET_IFNAME="lo")
    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.distributed.init_process_group("nccl", init_method=f"file://{prefix}.rendezvous", rank=rank, world_size=world)
    x = torch.full((2 << 20,), float(rank + 1), device="cuda")
    torch.distributed.all_reduce(x)
    torch.cuda.synchronize()
    assert bool((x == sum(range(1, world + 1))).all()), x[:4]
    print(f"rank {rank}: pid {os.getpid()} all-reduce right", flush=True)
    torch.distributed.destroy_process_group()


def print_log(rank, prefix):
    text = pathlib.Path(f"{prefix}.{rank}.log").read_text(errors="replace")
    print(f"rank {rank}: " + " ".join(sorted({f"{n}={v}" for n, v in LINE.findall(text) if not OWN.fullmatch(n)})), flush=True)
