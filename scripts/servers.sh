#!/usr/bin/env bash
# Fetches Redis and Valkey servers of several versions from Debian's suites. The
# tests run one funnel.so against all of them. One is built from source with
# another C library: musl, which Alpine has.
#
#   scripts/servers.sh [NAME...]       without names: all
#
# Prints a line per server, tab separated: name, version, path of redis-server;
# or name, "-" and the reason, for a server that cannot be had. Fails if none
# can. In the same folder are redis-cli, redis-sentinel, redis-benchmark,
# redis-check-aof and redis-check-rdb, under these names for every kind of
# server; for Valkey, also valkey-server and so on.
#
# A server that was fetched once stays as it is: remove its folder to renew it.
#
#   FUNNEL_CACHE           cache folder ($XDG_CACHE_HOME/funnel or ~/.cache/funnel)
#   FUNNEL_DEBIAN_MIRROR   mirror to use (the one apt uses, or deb.debian.org)
#   FUNNEL_ARCHITECTURE    amd64 or arm64 (this machine's): servers for another one
#                          than this machine's run emulated, by qemu-user
#
# Needs apt, on Debian or a derivative, but neither root nor a chroot: the packages
# are unpacked, not installed, and see the host's files and ports. The server that is
# built from source also needs gcc, make and musl-tools; for root they are installed.

set -euo pipefail

# Name, suites, package, or "source:" and the source package to build with musl. No suite
# has Redis 6.2, 7.2 or 7.4; Redict 7.3 is a fork of 7.2.
servers='
redis-7.0       bookworm          redis-server
redis-7.0-musl  bookworm          source:redis
redict-7.3      forky             redict-server
redis-8         trixie            redis-server
redis-8-latest  sid,experimental  redis-server
valkey-8        trixie            valkey-server
valkey-9        forky             valkey-server
'

cache=${FUNNEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/funnel}/servers
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh

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

# install_quietly PACKAGE: for root only; other users are told what to do.
install_quietly() { [ "$(id -u)" = 0 ] && (packages "$1") >&2; }

# Finds the tools for fetching; with a full cache, none are needed.
prepare() {
    [ -z "${work-}" ] || return 0
    local tool
    for tool in apt-get dpkg-deb flock; do
        command -v "$tool" >/dev/null || die "$tool is missing: apt, dpkg and util-linux are needed"
    done
    [ -e "$keyring" ] || install_quietly debian-archive-keyring ||
        die "$keyring is missing: apt-get install debian-archive-keyring"
    mirror=$(debian_mirror)

    # Only one run at a time writes to the cache.
    mkdir -p "$cache" || die "cannot make $cache"
    exec 9>"$cache/.lock"
    flock 9 || die "cannot lock $cache"

    # Not in the cache: apt drops root for the user _apt, who cannot enter a home.
    work=$(mktemp -d) || die "cannot make a temporary folder"
    trap 'rm -rf "$work" "$cache/.new"' EXIT
    chmod 755 "$work"
}

# update SUITES TYPE: makes our own apt in the folder $apt. It knows these suites, their
# binary packages (deb) or sources (deb-src), and no installed package. Its other settings,
# such as a proxy, are the host's.
update() {
    local dir=$work/$2/$1
    apt=$dir
    [ ! -e "$dir/done" ] || return 0
    mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial"
    : >"$dir/status"
    cat >"$dir/debian.sources" <<END
Types: $2
URIs: $mirror
Suites: ${1//,/ }
Components: main
Architectures: $architecture
Signed-By: $keyring
END
    # Servers may come from experimental, which apt avoids; their libraries may not.
    cat >"$dir/preferences" <<END
Package: redis-* redict-* valkey-*
Pin: release a=*
Pin-Priority: 500
END
    cat >"$dir/apt.conf" <<END
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
Dir::State "$dir/state";
Dir::State::status "$dir/status";
Dir::Cache "$dir/cache";
Dir::Etc::sourcelist "$dir/debian.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "$dir/preferences";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::trusted "/dev/null";
Dir::Etc::trustedparts "/dev/null";
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Get::AllowUnauthenticated "false";
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
END
    apt-get -qq -c "$dir/apt.conf" update >&2 </dev/null || return
    : >"$dir/done"
}

# unpack SUITES PACKAGE ROOT: unpacks the package and its dependencies. On failure, $reason
# says why.
unpack() {
    local deb
    reason="the package lists of Debian $1 cannot be had from $mirror"
    update "$1" deb || return

    reason="$2 cannot be had from Debian $1"
    apt-get -c "$apt/apt.conf" clean || return
    apt-get -qq -y -c "$apt/apt.conf" --download-only install "$2" >&2 </dev/null || return

    reason="the packages cannot be unpacked"
    for deb in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$deb" "$3" || return
    done
    rm -rf "${3:?}"/{usr/share,etc,var}
}

# build SUITES SOURCE ROOT: builds the server as its authors publish it. Debian's patches
# are for the libraries that Debian links it with. On failure, $reason says why.
build() {
    local loader=/lib/ld-musl-x86_64.so.1 tool source=$work/source
    reason="built on amd64 for amd64 only, where the module is tried with musl"
    [ "$architecture" = amd64 ] && [ -z "$emulator" ] || return
    for tool in musl-gcc:musl-tools gcc:gcc make:make; do
        reason="${tool%:*} is missing: apt-get install ${tool#*:}"
        command -v "${tool%:*}" >/dev/null || install_quietly "${tool#*:}" || return
    done

    reason="the source lists of Debian $1 cannot be had from $mirror"
    update "$1" deb-src || return

    reason="the source of $2 cannot be had from Debian $1"
    rm -rf "$source"
    mkdir "$source" || return
    # For root, apt downloads as this user, into the current folder.
    [ "$(id -u)" != 0 ] || chown _apt "$source" || return
    (cd "$source" && apt-get -qq -c "$apt/apt.conf" --download-only --tar-only source "$2" >&2 </dev/null) || return
    tar -C "$source" --no-same-owner --strip-components 1 -xf "$source"/*.orig.tar.* || return

    reason="$2 cannot be built with musl-gcc"
    make -C "$source/src" -j "$(nproc)" MALLOC=libc USE_SYSTEMD=no CC=musl-gcc PREFIX="$3/usr" install \
        >"$work/make.log" 2>&1 </dev/null || { tail -n 20 "$work/make.log" >&2; return 1; }
    # The C library is also the loader.
    mkdir "$3/lib" && cp "$loader" "$3/lib/"
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
        # Each brings its own C library and loader. Locales are the host's, in a
        # format for the host's C library, and a server stops at one it cannot read.
        # A program's name decides what it does, and a server that restarts itself
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
    source:*) build "$suites" "${package#source:}" "$new/root" ;;
    *) unpack "$suites" "$package" "$new/root" ;;
    esac || return

    reason="$package does not start"
    package=${package#source:}
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
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    if [ -e "$cache/$name" ] || fetch "$name" "$suites" "$package"; then
        printf '%s\t%s\t%s\n' "$name" "$(<"$cache/$name/version")" "$cache/$name/redis-server"
        had=$((had + 1))
    else
        printf '%s\t-\t%s\n' "$name" "$reason"
    fi
done 3<<<"$servers"
[ "$had" -gt 0 ]
