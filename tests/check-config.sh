#!/bin/sh
# SPDX-License-Identifier: MIT
# The shipped cudaenvd.conf is what the table prints, and the manager takes it without complaint, commented or not.
set -eu
: "${BUILDDIR:?}" "${SRCDIR:?}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$BUILDDIR/cudaenvd" --print-config >"$dir/printed"
diff -u "$SRCDIR/etc/cudaenvd.conf" "$dir/printed"

check() {
	mkdir -p "$dir/config/cudaenv"
	cat >"$dir/config/cudaenv/cudaenvd.conf"
	XDG_CONFIG_HOME=$dir/config XDG_STATE_HOME=$dir/state XDG_RUNTIME_DIR=$dir \
		"$BUILDDIR/cudaenvd" --user --check-config
}
check <"$dir/printed"
sed '/^# Rules/,$d; s/^#\([a-z_]* =\)/\1/' "$dir/printed" | check
echo 'nonsense = 1' | check 2>"$dir/complaints" && exit 1
grep -q 'cudaenvd.conf:1:' "$dir/complaints"
