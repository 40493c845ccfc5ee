#!/usr/bin/env bash
# The GPU run: tests/gpu/run.sh PREFIX PYTHON. PYTHON is a venv's interpreter with torch; its hook is installed and removed
# again. One GPU a rank where there are two, else both share it. Prints what docs/GPU-RUNS.md records.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$1 python=$2
ctl=$prefix/bin/cudaenvctl
dir=$(mktemp -d)
for v in $(compgen -e | grep -E '^(NCCL_|CUDA_|TRITON_)' | grep -v '^NCCL_NVLS_ENABLE$' || true); do unset "$v"; done
export CUDAENV_RUNTIME_DIR=$dir/run XDG_CONFIG_HOME=$dir/config XDG_STATE_HOME=$dir/state
mkdir -p "$dir/config/cudaenv/profiles.d" "$dir/state"
cp "$prefix/share/cudaenv/examples/pcie8.ini" "$dir/config/cudaenv/profiles.d/pcie8.ini"
sed -e 's/^NCCL_PROTO = .*/NCCL_PROTO = Simple/' "$prefix/share/cudaenv/examples/pcie8.ini" >"$dir/config/cudaenv/profiles.d/simple.ini"
printf '[jobs]\nboundaries = gpu-prompt\n' >"$dir/config/cudaenv/cudaenvd.conf"
ln -s /bin/sh "$dir/gpu-prompt"
new_job() { "$dir/gpu-prompt" -c '"$@"; exit $?' gpu-prompt "$@"; }

"$prefix/sbin/cudaenvd" --user 2>"$dir/daemon.log" &
daemon=$!
cleanup() {
	"$ctl" python remove --python "$python" || true
	kill "$daemon" || true
	wait "$daemon" || true
	rm -rf "$dir"
}
trap cleanup EXIT
for _ in $(seq 200); do
	"$ctl" list >/dev/null 2>&1 && break
	sleep 0.05
done
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$python" -c 'import torch; print("torch", torch.__version__, "NCCL", ".".join(map(str, torch.cuda.nccl.version())))'
"$ctl" use pcie8
"$ctl" on
"$ctl" python install --python "$python"
echo "-- exported here: $(env | grep -cE '^(NCCL_(PROTO|ALGO|P2P|MAX|BUFF|NTH)|CUDA_|TRITON_)') variables of the profile"
for profile in pcie8 simple; do
	"$ctl" use "$profile" >/dev/null
	echo "-- profile $profile"
	new_job "$python" "$here/two-ranks.py" "$dir/$profile"
done

# switch_between NAME [CTL]: two ranks of one launcher, with a switch from pcie8 to simple between their starts
switch_between() {
	"$ctl" use pcie8 >/dev/null
	new_job "$here/launch.sh" "$python" "$dir/$1" ${2:+"$2"} &
	until [ -e "$dir/$1.started.0" ]; do sleep 0.05; done
	"$ctl" use simple >/dev/null
	touch "$dir/$1.switched"
	wait $!
	"$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import gpu_ranks
for rank in range(2): gpu_ranks.print_log(rank, sys.argv[2])' "$here" "$dir/$1"
}
echo "-- a switch between the starts of rank 0 and rank 1, with cudaenv"
switch_between with
"$ctl" off >/dev/null
echo "-- off"
new_job "$python" "$here/two-ranks.py" "$dir/off"
echo "-- a switch between the starts of rank 0 and rank 1, each given what is in force by hand"
switch_between by-hand "$ctl"
