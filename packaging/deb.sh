#!/bin/sh
# SPDX-License-Identifier: MIT
# A .deb of a finished build that was configured for /usr (./dev package makes one), by dpkg-deb alone:
#   packaging/deb.sh BUILD-DIRECTORY OUTPUT-DIRECTORY
# Prints the package's path.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
build=${1:?a build directory} output=${2:?an output directory}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"

grep -q '^prefix = /usr$' "$build/Makefile" || {
	echo "deb.sh: $build is not configured with --prefix=/usr" >&2
	exit 2
}
make -s -C "$build" install DESTDIR="$stage" >"$build/install.log" 2>&1 || {
	cat "$build/install.log" >&2
	exit 1
}
rm -f "$stage"/usr/lib/*.la
find "$stage" -type f -name '*.[1-8]' -path '*/man/*' -exec gzip -9n {} +

programs="$stage/usr/bin/cudaenvctl $stage/usr/sbin/cudaenvd $stage/usr/libexec/cudaenv/cudaenv-broker"

# The packages of the libraries that the programs name, with what the packages' own scripts need.
needs() {
	# shellcheck disable=SC2086
	objdump -p $programs | sed -n 's/^ *NEEDED *//p' | sort -u | while read -r name; do
		# shellcheck disable=SC2086
		library=$(ldd $programs | sed -n "s|.*$name => \(/[^ ]*\) .*|\1|p" | head -1)
		dpkg-query -S "$library" "$(readlink -f "$library")" 2>/dev/null | cut -d: -f1 | head -1
	done | sort -u | paste -sd, | sed 's/,/, /g'
}

version=$(sed -n 's/^PACKAGE_VERSION = //p' "$build/Makefile")
architecture=$(dpkg --print-architecture)
mkdir "$stage/DEBIAN"
cat >"$stage/DEBIAN/control" <<CONTROL
Package: cudaenv
Version: $version
Architecture: $architecture
Maintainer: cudaenv <cudaenv@localhost>
Section: admin
Priority: optional
Depends: $(needs), systemd (>= 252)
Installed-Size: $(du -sk "$stage" | cut -f1)
Description: CUDA and NCCL environment for the processes of a GPU node
 One file says which CUDA and NCCL variables the processes of a GPU node
 have. cudaenv puts them into every Python process at its start, keeps the
 processes of one job on one snapshot, and switches a node by one command.
CONTROL
echo /etc/cudaenv/cudaenvd.conf >"$stage/DEBIAN/conffiles"
for script in postinst prerm postrm; do
	install -m 755 "$source/$script" "$stage/DEBIAN/$script"
done
mkdir -p "$output"
package=$output/cudaenv_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$stage" "$package" >/dev/null
echo "$package"
