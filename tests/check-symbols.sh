#!/bin/sh
# SPDX-License-Identifier: MIT
# libcudaenv is a guest in other people's processes: it exports what cudaenv.h declares and nothing else, needs libc
# alone, runs nothing when it is loaded, and calls nothing that prints, ends the process or starts a thread.
set -eu

lib=$BUILDDIR/.libs/libcudaenv.so
header=$SRCDIR/client/cudaenv.h
objdump=${OBJDUMP:-objdump}
failed=0

fail() {
	echo "$1" >&2
	failed=1
}

[ -e "$lib" ] || { echo "no shared library in this build"; exit 77; }
symbols=$("$objdump" -T "$lib")
case $symbols in
*__asan_*|*__ubsan_*|*__sanitizer_*) echo "a sanitizer brings symbols of its own"; exit 77 ;;
esac

exported=$(echo "$symbols" | awk '$0 !~ /\*UND\*/ && NF > 5 && $NF !~ /^CUDAENV_/ { print $NF }' | sort)
declared=$(sed -n 's/^CUDAENV_PUBLIC .*[ *]\(cudaenv_[a-z_]*\)(.*/\1/p' "$header" | sort)
[ -n "$declared" ] || fail "$header declares nothing"
[ "$exported" = "$declared" ] || fail "exported: $exported
declared: $declared"

needed=$("$objdump" -p "$lib" | awk '$1 == "NEEDED" && $2 !~ /^(libc\.so|ld-linux|ld64)/ { print $2 }')
[ -z "$needed" ] || fail "needs more than libc: $needed"

# The compiler's own entry is always there.
entries=$("$objdump" -h "$lib" | awk '$2 == ".init_array" { print $3 }')
[ "${entries:-00000008}" = 00000008 ] || fail "runs code when it is loaded: .init_array of $entries bytes"

called=$(echo "$symbols" | awk '/\*UND\*/ { print $NF }' |
	grep -Ex '(v?f?printf|_*f?printf_chk|f?puts|putchar|perror|fopen|fdopen|fwrite|write|syslog|_?exit|_Exit|abort|__assert_fail|atexit|setenv|putenv|unsetenv|clearenv|signal|sigaction|sigprocmask|pthread_create|fork|sleep|usleep)' || true)
[ -z "$called" ] || fail "calls what a guest does not call: $called"

echo '#include "client/cudaenv.h"' |
	${CC:-cc} -std=c99 -pedantic-errors -Wall -Werror -I"$SRCDIR" -fsyntax-only -x c - || fail "cudaenv.h does not stand alone"
exit $failed
