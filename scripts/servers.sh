#!/usr/bin/env bash
# Fetches Redis and Valkey servers of several versions from Debian's suites. The
# tests run one funnel.so against all of them. One is built with musl, Alpine's C library.
#
#   scripts/servers.sh [NAME...]       without names: all but unstable ones
#
# Prints a line for each server, separated by tabs: its name, version, and path of redis-server;
# or its name, "-" and the reason if it cannot be had. Fails if none can. In the same folder are
# redis-cli, redis-sentinel, redis-benchmark, redis-check-aof and redis-check-rdb, under these
# names for every kind of server; for Valkey, also valkey-server and so on.
#
# A server that was fetched once stays as it is: remove its folder to renew it.
#
#   FUNNEL_CACHE           cache folder ($XDG_CACHE_HOME/funnel or ~/.cache/funnel)
#   FUNNEL_DEBIAN_MIRROR   mirror to use (the one apt uses, or deb.debian.org)
#   FUNNEL_ARCHITECTURE    amd64 or arm64 (this machine's): servers for another one
#                          than this machine's run emulated, by qemu-user
#
# Needs mmdebstrap, on Debian or a derivative, but neither root nor a chroot: the packages are unpacked, not installed,
# and see the host's files and ports. The server that is built from source also needs gcc, make and musl-tools.

set -euo pipefail

# Name, suites, package; or, to build with musl, Debian's file of its source. No suite
# has Redis 6.2, 7.2 or 7.4; Redict 7.3 is a fork of 7.2.
servers='
redis-7.0       bookworm          redis-server
redis-7.0-musl  bookworm          r/redis/redis_7.0.15.orig.tar.gz
redict-7.3      forky             redict-server
redis-8         trixie            redis-server
redis-8-latest  sid,experimental  redis-server
valkey-8        trixie            valkey-server
valkey-9        forky             valkey-server
redict-unstable sid,experimental  redict-server
valkey-unstable sid,experimental  valkey-server
'
source_sum=4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh

cache=$(funnel_cache)/servers

# Debian's name for it, and the kernel's.
machine=$(uname -m)
case ${FUNNEL_ARCHITECTURE:-$machine} in
amd64 | x86_64) architecture=amd64 cpu=x86_64 ;;
arm64 | aarch64) architecture=arm64 cpu=aarch64 ;;
*) die "FUNNEL_ARCHITECTURE must be amd64 or arm64, not '${FUNNEL_ARCHITECTURE:-$machine}'" ;;
esac
emulator=
if [ "$cpu" != "$machine" ]; then
    cache+=-$architecture
    # One of them may be missing.
    emulator=$(command -v "qemu-$cpu-static" "qemu-$cpu" | head -n 1) || true
    [ -n "$emulator" ] || die "nothing runs servers for $architecture here: apt-get install qemu-user-static"
fi

# Finds the tools for fetching; with a full cache, none are needed.
prepare() {
    [ -z "${work-}" ] || return 0
    need_package mmdebstrap
    need_package flock util-linux
    need_debian_keys
    mirror=$(debian_mirror)
    mirror=${mirror%/}

    # Only one run at a time writes to the cache.
    mkdir -p "$cache" || die "cannot make $cache"
    exec 9>"$cache/.lock"
    flock 9 || die "cannot lock $cache"

    work=$(mktemp -d) || die "cannot make a temporary folder"
    trap 'rm -rf "$work" "$cache/.new"' EXIT
}

# unpack SUITES PACKAGE ROOT: unpacks the package and its dependencies. On failure, $reason says why.
unpack() {
    local suite sources=()
    for suite in ${1//,/ }; do
        sources+=("deb $mirror $suite main")
    done
    reason="$2 cannot be had from Debian $1 at $mirror"
    # Servers may come from experimental, which apt avoids; their libraries may not.
    # shellcheck disable=SC2016 # mmdebstrap sets $1
    mmdebstrap --quiet --variant=extract --mode=chrootless --architectures="$architecture" --keyring="$debian_keys" \
        --aptopt='Acquire::Retries "3"' --aptopt='Acquire::Check-Valid-Until "false"' \
        --setup-hook='printf "Package: redis-* redict-* valkey-*\nPin: release a=*\nPin-Priority: 500\n" \
            >"$1/etc/apt/preferences.d/servers"' \
        --include="$2" '' "$3" "${sources[@]}" >&2 </dev/null || return
    rm -rf "${3:?}"/{usr/share,etc,var}
}

# build SOURCE ROOT: builds the server as its authors publish it. Debian's patches
# are for the libraries that Debian links it with. On failure, $reason says why.
build() {
    local loader=/lib/ld-musl-x86_64.so.1 source=$work/source
    reason="built on amd64 for amd64 only, where the module is tried with musl"
    [ "$architecture" = amd64 ] && [ -z "$emulator" ] || return
    reason="musl-gcc, gcc and make are missing, and cannot be installed: apt-get install musl-tools gcc make"
    (need_package musl-gcc musl-tools && need_package gcc && need_package make) >&2 || return

    reason="$1 cannot be had from $mirror"
    mkdir "$source" || return
    /usr/lib/apt/apt-helper -qq download-file "$mirror/pool/main/$1" "$work/source.tar" "SHA256:$source_sum" >&2 || return
    tar -C "$source" --no-same-owner --strip-components 1 -xf "$work/source.tar" || return

    reason="$1 cannot be built with musl-gcc"
    make -C "$source/src" -j "$(nproc)" MALLOC=libc USE_SYSTEMD=no CC=musl-gcc PREFIX="$2/usr" install \
        >"$work/make.log" 2>&1 </dev/null || { tail -n 20 "$work/make.log" >&2; return 1; }
    # The C library is also the loader.
    mkdir "$2/lib" && cp "$loader" "$2/lib/"
}

# wrap FOLDER KIND: writes the commands that start the programs in FOLDER/root.
wrap() {
    local loader libs tool program
    loader=$(cd "$1" && find root \( -path '*-linux-gnu*' -name 'ld-linux*.so.*' -o -name 'ld-musl-*' \) -type f -print -quit)
    [ -n "$loader" ] || return
    # The libraries are where the loader is, with or without /usr before the path.
    libs=${loader#root}
    libs=${libs#/usr}
    libs=${libs%/*}
    for tool in server cli sentinel benchmark check-aof check-rdb; do
        program=$tool
        # A sentinel is a server under another name.
        [ "$tool" != sentinel ] || program=server
        # Each brings its own C library and loader. Locales are the host's, in a format for the host's C library, and a
        # server stops at one it cannot read. A program's name decides what it does, and a server that restarts itself
        # calls that name again.
        cat >"$1/redis-$tool" <<END
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")
export LC_ALL=C
exec $emulator "\$here/$loader" --argv0 "\$here/$2-$tool" \\
    --library-path "\$here/root$libs:\$here/root/usr$libs" \\
    "\$here/root/usr/bin/$2-$program" "\$@"
END
        chmod +x "$1/redis-$tool"
        [ "$2" = redis ] || ln -s "redis-$tool" "$1/$2-$tool"
    done
}

# fetch NAME SUITES PACKAGE: on failure, $reason says why.
fetch() {
    local name=$1 suites=$2 package=$3 new=$cache/.new
    prepare
    [ ! -e "$cache/$name" ] || return 0 # by another run, while we waited for the lock
    echo "fetching $name: $package of Debian $suites for $architecture from $mirror" >&2

    rm -rf "$new"
    mkdir "$new"
    case $package in
    */*) build "$package" "$new/root" && package=redis ;;
    *) unpack "$suites" "$package" "$new/root" ;;
    esac || return

    reason="$package does not start"
    wrap "$new" "${package%-server}" || return
    "$new/redis-server" --version | sed -n 's/.* v=\([^ ]*\) .*/\1/p' >"$new/version"
    [ -s "$new/version" ] || return

    # Whole or not at all: an interrupted run leaves only .new.
    reason="$cache/$name cannot be written"
    mv -T "$new" "$cache/$name"
}

for name in "$@"; do
    grep -q "^$name " <<<"$servers" || die "there is no server named $name: see the table in $0"
done

had=0
while read -r name suites package <&3; do
    [ -n "$name" ] || continue
    [ $# != 0 ] || [[ $name != *-unstable ]] || continue
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    if [ -e "$cache/$name" ] || fetch "$name" "$suites" "$package"; then
        printf '%s\t%s\t%s\n' "$name" "$(<"$cache/$name/version")" "$cache/$name/redis-server"
        had=$((had + 1))
    else
        printf '%s\t-\t%s\n' "$name" "$reason"
    fi
done 3<<<"$servers"
[ "$had" -gt 0 ]
