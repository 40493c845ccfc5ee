#!/usr/bin/env bash
# The main job on this machine, in user mode: demo/run.sh PREFIX DIRECTORY. Everything it makes is in DIRECTORY.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$1 dir=$2
ctl=$prefix/bin/cudaenvctl
example=$prefix/share/cudaenv/examples/pcie8.ini

rm -rf "$dir"
mkdir -p "$dir/config/cudaenv/profiles.d" "$dir/state"
export CUDAENV_RUNTIME_DIR=$dir/run XDG_CONFIG_HOME=$dir/config XDG_STATE_HOME=$dir/state PATH=$prefix/bin:$PATH
profiles=$dir/config/cudaenv/profiles.d
for v in $(compgen -e | grep -E '^(NCCL_|CUDA_|TRITON_|CUDAENV_SNAPSHOT|CUDAENV_PROFILE|CUDAENV_APPLIED)' || true); do unset "$v"; done

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
run() {
	printf '$ %s\n' "${*//$prefix\/bin\//}"
	"$@"
}

# What is started below a process named demo-prompt is a job of its own, as below a shell prompt (cudaenvd.conf says so).
printf '[jobs]\nboundaries = demo-prompt\n' >"$dir/config/cudaenv/cudaenvd.conf"
ln -s /bin/sh "$dir/demo-prompt"
new_job() { "$dir/demo-prompt" -c '"$@"; exit $?' demo-prompt "$@"; }
seen() { new_job "$python" -c 'import worker; s = worker.SEEN; print("NCCL_PROTO=%(NCCL_PROTO)s NCCL_ALGO=%(NCCL_ALGO)s CUDA_HOME=%(CUDA_HOME)s" % s)'; }

pieces=() # the manager first
cleanup() {
	if [ ${#pieces[@]} -gt 0 ]; then
		kill -CONT "${pieces[@]}" 2>/dev/null || true
		kill "${pieces[0]}" 2>/dev/null || true
		wait "${pieces[0]}" 2>/dev/null || true
	fi
	rm -rf "$dir"
}
trap cleanup EXIT

say "1. A daemon of our own, and the example profile"
cp "$example" "$profiles/pcie8.ini"
sed -e 's/^NCCL_PROTO = .*/NCCL_PROTO = Simple/' -e 's/^NCCL_ALGO = .*/NCCL_ALGO = Tree/' "$example" >"$profiles/candidate.ini"
"$prefix/sbin/cudaenvd" --user >"$dir/daemon.log" 2>&1 &
pieces=($!)
tries=0
until "$ctl" history --json >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ $tries -gt 200 ] || ! kill -0 "${pieces[0]}" 2>/dev/null; then
		cat "$dir/daemon.log"
		exit 1
	fi
	sleep 0.05
done
run "$ctl" use pcie8
run "$ctl" on
run "$ctl" list

say "2. A venv, and the start hook in that venv only"
python3 -m venv --without-pip "$dir/venv"
python=$dir/venv/bin/python3
run "$ctl" python install --python "$python"

say "3. Workers that inherit nothing: what each had when its module was imported"
"$ctl" show pcie8 --json >"$dir/show.json"
cd "$here"
export PYTHONDONTWRITEBYTECODE=1
coproc program { new_job "$python" program.py "$dir/show.json"; }
# shellcheck disable=SC2154 # coproc sets program_PID
program_in=${program[1]} program_out=${program[0]} program_job=$program_PID
until_ready() { while IFS= read -r line <&"$program_out" && [ "$line" != ready ]; do printf '%s\n' "$line"; done; }
until_ready

say "4. A switch while that program runs"
run "$ctl" use candidate
echo >&"$program_in"
until_ready
# Another job, so that both are seen at once: it starts, says what it has, and waits.
mkfifo "$dir/said"
exec {other}> >(new_job "$python" -c 'import worker; print("a new job:                     NCCL_PROTO=%(NCCL_PROTO)s NCCL_ALGO=%(NCCL_ALGO)s" % worker.SEEN, flush=True); input()' >"$dir/said")
IFS= read -r line <"$dir/said" && echo "$line"
run "$ctl" workers
echo >&"$other"
exec {other}>&-

say "5. Taken back"
run "$ctl" rollback
printf 'a new job: '
seen
echo >&"$program_in"
wait "$program_job" || true

say "6. Every piece frozen (SIGSTOP): a new job still has its variables"
read -ra children <"/proc/${pieces[0]}/task/${pieces[0]}/children" || true # the file has no newline
pieces+=("${children[@]}")
# The median of nine starts, in milliseconds, and what the last one had.
timed() {
	local begin times=()
	for _ in 1 2 3 4 5 6 7 8 9; do
		begin=$(date +%s%N)
		new_job "$python" -c pass
		times+=($((($(date +%s%N) - begin) / 10000)))
	done
	mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -n)
	printf '%s: %s.%02d ms for a whole start, median of 9; ' "$1" $((times[4] / 100)) $((times[4] % 100))
	seen
}
timed "before"
kill -STOP "${pieces[@]}"
timed "frozen"
kill -CONT "${pieces[@]}"

say "7. Off"
run "$ctl" off
printf 'a new job: '
seen
run "$ctl" status || true
