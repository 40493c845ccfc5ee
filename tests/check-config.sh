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

# complains TEXT: what is on stdin gets exactly this complaint, and exit status 1.
complains() {
	status=0
	check 2>"$dir/complaints" || status=$?
	if [ "$status" != 1 ] || [ "$(wc -l <"$dir/complaints")" != 1 ] || ! grep -qF "$1" "$dir/complaints"; then
		echo "status $status, expected: $1" >&2
		cat "$dir/complaints" >&2
		exit 1
	fi
}
echo 'nonsense = 1' | complains 'cudaenvd.conf:1:'
printf '[cudaenvd]\n\nprofil = pcie8\n' | complains "cudaenvd.conf:3: unknown key 'profil' in [cudaenvd], did you mean 'profile'?: left out"
mkdir "$dir/config/cudaenv/cudaenvd.conf.d"
printf '[cudaenvd]\nprofile = two words\n' >"$dir/config/cudaenv/cudaenvd.conf.d/50-site.conf"
check <"$dir/printed" 2>/dev/null && exit 1
echo '[cudaenvd]' | complains '/cudaenvd.conf.d/50-site.conf:2: profile = two words is not none, auto or the name of a profile'
ln -sf /dev/null "$dir/config/cudaenv/cudaenvd.conf.d/50-site.conf"
check <"$dir/printed"

# A profile that there is not is a warning, with its line; one in profiles.d is none.
rm -r "$dir/config/cudaenv/cudaenvd.conf.d"
mkdir "$dir/config/cudaenv/profiles.d"
printf '[env]\nNCCL_ALGO = Ring\n' >"$dir/config/cudaenv/profiles.d/pcie8.ini"
printf '[assign a]\nuser = 0\nprofile = pcie\n[assign b]\nuser = 1\nprofile = pcie8\n' | check 2>"$dir/warnings"
echo "$dir/config/cudaenv/cudaenvd.conf:3: warning: there is no profile 'pcie', did you mean 'pcie8'; jobs of this rule get nothing" |
	diff -u - "$dir/warnings"
