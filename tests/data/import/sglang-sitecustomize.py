# Loaded by every interpreter of the serving image. One table, so that a change is one line.
import os
import sys

MB = 1024 * 1024
CUDA_ROOT = "/opt/cuda-99.9"

NCCL = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "LL",
    "NCCL_BUFFSIZE": str(16 * MB),
    "NCCL_NTHREADS": str(1 << 9),
    "NCCL_MIN_NCHANNELS": 8,
    "NCCL_MAX_NCHANNELS": 16,
    # no NVLink on these boxes
    "NCCL_P2P_LEVEL": "SYS",
}

for name, value in NCCL.items():
    os.environ.setdefault(name, str(value))

os.environ.setdefault("CUDA_HOME", CUDA_ROOT)
os.environ.setdefault("TRITON_PTXAS_PATH", os.path.join(CUDA_ROOT, "bin", "ptxas"))

if os.environ.get("SGLANG_DEBUG_NCCL"):
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,TUNING"
else:
    os.environ.setdefault("NCCL_DEBUG", "WARN")

print("sitecustomize: NCCL tuned", file=sys.stderr)
