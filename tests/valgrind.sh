#!/bin/sh
# SPDX-License-Identifier: MIT
# One test program under valgrind, as the LOG_COMPILER of `make check` (./dev valgrind). What valgrind says of any process of
# the test fails it, also of those whose exit status nobody looks at. Programs that a test executes run without valgrind.
set -u
: "${SRCDIR:?}"
out=$(mktemp) || exit 99
trap 'rm -f "$out"' EXIT
export TEST_SLOW=1 # fewer rounds of what is only repeated
valgrind --version
valgrind -q --vgdb=no --error-exitcode=9 --leak-check=full --suppressions="$SRCDIR/tests/valgrind.supp" "$@" >"$out" 2>&1
status=$?
cat "$out"
if [ "$status" -eq 0 ] && grep -q '^==[0-9]*==' "$out"; then
	status=9
fi
exit "$status"
