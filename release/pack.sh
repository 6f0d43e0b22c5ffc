#!/usr/bin/env bash
# Packs a built module for users who do not build it themselves:
#
#   release/pack.sh FUNNEL.SO ARCHITECTURE
#
# It makes dist/funnel-VERSION-linux-ARCHITECTURE.tar.gz, with the module, its licence, changelog and a README;
# packages for Debian, Fedora and Alpine; and dist/SHA256SUMS for all files in dist. The same sources and the same
# module make the same bytes, anywhere and at any time.
#
#   SOURCE_DATE_EPOCH   the time of all packed files, in seconds since 1970
#                       (default: the time of the last commit)

set -euo pipefail

# Makes sort orders and tools' output the same on every machine.
export LC_ALL=C

cd "$(dirname "${BASH_SOURCE[0]}")/.." >/dev/null
. scripts/common.sh
. scripts/compile.sh
. release/packages.sh

[ $# = 2 ] || die "usage: release/pack.sh FUNNEL.SO ARCHITECTURE"
module=$1 architecture=$2
[ -f "$module" ] || die "$module is not a file: ./build.sh dist builds and packs"
tar --version 2>/dev/null | grep -q 'GNU tar' || die "tar is not GNU tar, which can make the same archive every time: run this on Linux"

version=$(version)
date=${SOURCE_DATE_EPOCH:-$(commit_time)}
[ -n "$date" ] ||
    die "the date of the last commit is not known, because there is no git repository here: set SOURCE_DATE_EPOCH"
[[ $date =~ ^[0-9]+$ ]] || die "SOURCE_DATE_EPOCH must be seconds since 1970, not '$date'"

# Until a version is released, each commit is a version of its own: package managers upgrade to a later commit and to the
# release, and go back to an earlier commit.
[[ $version != *-dev ]] || version+=.$(date -u -d "@$date" +%Y%m%d%H%M%S)$(commit | sed -e 's/^/.g/' -e 's/-dirty$/.dirty/')

name=funnel-$version-linux-$architecture
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/$name"
cp LICENSE CHANGELOG.md "$work/$name"
# Servers refuse a module without the execute bit.
install -m 755 "$module" "$work/$name/funnel.so"
musl=
[ "$architecture" != amd64 ] || musl=' or with musl (Alpine)'
sed -e "s/@VERSION@/$version/g" -e "s/@ARCHITECTURE@/$architecture/g" -e "s/@MUSL@/$musl/g" \
    release/archive-README.md >"$work/$name/README.md"

mkdir "$work/stage"
cp LICENSE "$work/$name/funnel.so" "$work/stage"
gzip -9 -n <CHANGELOG.md >"$work/stage/changelog.gz"
write_packages "$work/stage" "$architecture" "$version" "$date"

mkdir -p dist
# dist holds one version: redis-funnel_*_amd64.deb, as pages write it, is one file.
processor=x86_64
[ "$architecture" = amd64 ] || processor=aarch64
rm -f dist/*[_-]"$architecture".* dist/*[_.]"$processor".*
tar -c -C "$work" --format=ustar --sort=name --mtime="@$date" --mode=u=rwX,go=rX \
    --owner=0 --group=0 --numeric-owner "$name" | gzip -9 -n >"$work/archive"
mv "$work/archive" "dist/$name.tar.gz"
mv "$work/stage/packages"/* dist

cd dist
find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >"$work/sums"
mv "$work/sums" SHA256SUMS
# Whatever the umask is: these files are for all.
chmod 644 ./*
echo "dist/$name.tar.gz"
