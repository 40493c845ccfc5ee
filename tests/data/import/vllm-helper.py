"""Defaults for vLLM workers; an operator's own export wins."""
import logging
import os
import socket

log = logging.getLogger(__name__)
BASE = "/opt/cuda-99.9"
CACHE = f"/var/cache/vllm/{os.getuid()}"


def _default(key: str, val: str) -> None:
    """Only if the operator has not said otherwise."""
    if key not in os.environ:
        os.environ[key] = str(val)


def _force(key, val):
    old = os.environ.get(key)
    if old is not None and old != val:
        log.warning("%s: %r replaced", key, old)
    os.environ[key] = val


_default("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
_default("VLLM_ATTENTION_BACKEND", "FLASHINFER")
_default("OMP_NUM_THREADS", 8)
_force("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
_default("CUDA_HOME", BASE)
_default("TRITON_PTXAS_PATH", f"{BASE}/bin/ptxas")
_default("TRITON_CACHE_DIR", CACHE + "/triton")
_default("HF_TOKEN", "placeholder")

if socket.gethostname().startswith("pcie"):
    _default("NCCL_P2P_DISABLE", "1")
