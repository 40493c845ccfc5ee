#!/bin/sh
# Integration tests: installs this build into its own prefix (which lies inside the build directory) and runs pytest
# over the installed tree, as a user has it. Arguments go to pytest. `make integration` sets BUILDDIR, SRCDIR, PYTEST.
set -eu
: "${BUILDDIR:?}" "${SRCDIR:?}" "${PYTEST:=/usr/bin/python3}"
prefix=$(sed -n 's/^prefix = //p' "$BUILDDIR/Makefile")
case $prefix in
"$BUILDDIR"/*) ;;
*)
	echo "run.sh: prefix $prefix is not inside the build directory: configure --prefix=\$PWD/root" >&2
	exit 2
	;;
esac
make -s -C "$BUILDDIR" install >"$BUILDDIR/install.log" 2>&1 || {
	tail -20 "$BUILDDIR/install.log" >&2
	exit 1
}
export CUDAENV_TEST_PREFIX="$prefix" PYTHONDONTWRITEBYTECODE=1
cd "$SRCDIR/tests/integration"
exec "$PYTEST" -m pytest -p no:cacheprovider -q -rs --junitxml="$BUILDDIR/integration.xml" "$@" .
