#!/bin/sh
# started by the unit, runs in the container
set -eu
MODEL=${1:?which model}
TUNING=pcie
export SGLANG_HOST=0.0.0.0
export TRITON_CACHE_DIR="/var/cache/triton/$TUNING"
export HF_HOME=~/hf
if [ "$TUNING" = pcie ]; then
  NCCL_P2P_LEVEL=SYS
else
  NCCL_P2P_LEVEL=NVL
fi
export NCCL_P2P_LEVEL
export HUGGING_FACE_HUB_TOKEN=hf_not_a_real_one
export CUDA_VISIBLE_DEVICES=0,1,2,3
exec env NCCL_DEBUG=VERSION python3 -m sglang.launch_server --model "$MODEL" --tp 4
