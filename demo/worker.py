# SPDX-License-Identifier: MIT
"""The target module of the demo's workers: records the environment at its import, before anything else."""
import os

NAMES = ["CUDA_HOME", "TRITON_PTXAS_PATH", "NCCL_PROTO", "NCCL_ALGO", "NCCL_P2P_LEVEL", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE",
         "NCCL_NTHREADS"]
SEEN = {name: os.environ.get(name) for name in NAMES}


def report(queue):
    queue.put(SEEN)


if __name__ == "__main__":
    import json
    print(json.dumps(SEEN))
