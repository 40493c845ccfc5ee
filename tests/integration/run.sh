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

# Tests are several users, and a clone may lie in a closed home (root's, say). Then they run in a mount namespace of their own,
# where the way to the clone is open to all: an overlay of the closed directory, with the clone itself in it as it is.
closed() {
	dir=/ rest=${1#/}/
	while [ -n "$rest" ]; do
		dir=${dir%/}/${rest%%/*} rest=${rest#*/}
		case $(stat -c %A "$dir") in
		*[xt]) ;;
		*) echo "$dir" && return ;;
		esac
	done
}

open_up() {
	private=$(mktemp -d)
	mount -t tmpfs tmpfs "$private"
	mkdir "$private/real" "$private/upper" "$private/work"
	mount --bind "$1" "$private/real"
	mount -t overlay -o "lowerdir=$1,upperdir=$private/upper,workdir=$private/work" overlay "$1"
	for tree in "$SRCDIR" "$BUILDDIR"; do
		while blocked=$(closed "$tree") && [ -n "$blocked" ]; do
			chmod a+rx "$blocked"
		done
		mount --bind "$private/real/${tree#"$1"}" "$tree"
	done
}

first=$(closed "$SRCDIR")
if [ -n "$first" ] && [ "$(id -u)" = 0 ]; then
	if [ -z "${CUDAENV_TEST_NAMESPACE:-}" ]; then
		CUDAENV_TEST_NAMESPACE=1 exec unshare -m "$0" "$@"
	fi
	open_up "$first"
fi

export CUDAENV_TEST_PREFIX="$prefix" PYTHONDONTWRITEBYTECODE=1
cd "$SRCDIR/tests/integration"
exec "$PYTEST" -m pytest -p no:cacheprovider -q -rs --junitxml="$BUILDDIR/integration.xml" "$@" .
