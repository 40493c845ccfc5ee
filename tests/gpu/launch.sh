#!/usr/bin/env bash
# A launcher of two ranks with time for a switch between their starts: launch.sh PYTHON PREFIX [CTL]. With CTL each rank is
# given by hand what is in force when it starts.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$1 prefix=$2 ctl=${3-}
rank() {
	[ -z "$ctl" ] || eval "$("$ctl" export --format sh)"
	timeout -k 5 90 "$python" "$here/one-rank.py" "$1" "$prefix"
	echo "rank $1: exit status $?"
}
rank 0 &
until [ -e "$prefix.started.0" ] && [ -e "$prefix.switched" ]; do sleep 0.05; done
rank 1 &
wait
