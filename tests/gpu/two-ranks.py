# SPDX-License-Identifier: MIT
"""Two torch.multiprocessing spawn ranks, one a GPU: two-ranks.py PREFIX; NCCL writes PREFIX.RANK.log."""
import sys

import torch.multiprocessing

import gpu_ranks

if __name__ == "__main__":
    prefix = sys.argv[1]
    torch.multiprocessing.spawn(gpu_ranks.reduce, (2, prefix), nprocs=2)
    for rank in range(2):
        gpu_ranks.print_log(rank, prefix)
