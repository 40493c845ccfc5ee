# SPDX-License-Identifier: MIT
"""Two torch.multiprocessing spawn ranks, one a GPU: all-reduces 8 MiB and prints what NCCL's own log says of each variable.

  two-ranks.py PREFIX    NCCL writes PREFIX.RANK.log; nothing but the log's destination is set here
"""
import os
import pathlib
import re
import signal
import sys

import torch
import torch.distributed
import torch.multiprocessing

LINE = re.compile(r"NCCL INFO (NCCL_\w+) set by environment to (.*?)\.?$", re.M)


def rank_main(rank, world, prefix):
    signal.alarm(120)  # ranks with different settings hang
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,ENV,TUNING,GRAPH", NCCL_DEBUG_FILE=f"{prefix}.{rank}.log")
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", init_method=f"file://{prefix}.rendezvous", rank=rank, world_size=world)
    x = torch.full((2 << 20,), float(rank + 1), device="cuda")
    torch.distributed.all_reduce(x)
    torch.cuda.synchronize()
    assert bool((x == sum(range(1, world + 1))).all()), x[:4]
    print(f"rank {rank}: pid {os.getpid()} all-reduce right", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    prefix = sys.argv[1]
    torch.multiprocessing.spawn(rank_main, (2, prefix), nprocs=2)
    for rank in range(2):
        text = pathlib.Path(f"{prefix}.{rank}.log").read_text()
        print(f"rank {rank}: " + " ".join(sorted({f"{n}={v}" for n, v in LINE.findall(text) if not n.startswith("NCCL_DEBUG")})))
