# sitecustomize.py of the training image
import os

IFACE = "bond0"
HCAS = ["mlx5_0", "mlx5_1"]
SETTINGS = dict(
    NCCL_SOCKET_IFNAME=IFACE,
    GLOO_SOCKET_IFNAME=IFACE,
    NCCL_IB_HCA=",".join(HCAS),
    NCCL_IB_GID_INDEX="3",
)
EXTRA = {}
if os.path.exists("/sys/class/infiniband"):
    EXTRA["NCCL_NET"] = "IB"

os.environ.update(SETTINGS)
os.environ.update(EXTRA)
os.environ.update({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}, NCCL_CROSS_NIC="1")
os.environ["NCCL_TOPO_FILE"] = "/etc/nccl/topo-%s.xml" % os.uname().nodename
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = (
    "expandable_segments:True,"
    "max_split_size_mb:512"
)
for key in ("NCCL_LAUNCH_MODE", "NCCL_SHM_DISABLE"):
    os.environ.pop(key, None)
