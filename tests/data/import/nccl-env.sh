#!/bin/bash
# Sourced by all launch scripts. Override anything in local.sh.
here=$(dirname "${BASH_SOURCE[0]}")

: "${NCCL_ALGO:=Ring}"
: "${NCCL_PROTO:=LL}"
export NCCL_ALGO NCCL_PROTO
export NCCL_BUFFSIZE=${NCCL_BUFFSIZE:-$((16 * 1024 * 1024))}
export NCCL_NTHREADS="${NCCL_NTHREADS:-512}"
NCCL_MAX_NCHANNELS=${NCCL_MAX_NCHANNELS:-16}; export NCCL_MAX_NCHANNELS
NCCL_MIN_NCHANNELS=8

if [ -z "$NCCL_SOCKET_IFNAME" ]; then
	export NCCL_SOCKET_IFNAME=bond0
fi
[ -d /sys/class/infiniband ] || export NCCL_IB_DISABLE=1
export NCCL_IB_HCA=$(ls /sys/class/infiniband | paste -sd,)
export NCCL_NET_GDR_LEVEL=${GDR_LEVEL:-PHB}

[ -r "$here/local.sh" ] && . "$here/local.sh"
source /etc/default/nccl
