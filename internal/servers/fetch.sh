#!/usr/bin/env bash
# Fetches Redis and Valkey servers of several versions out of Debian's suites,
# so that the tests can run one funnel.so against all of them.
#
#   internal/servers/fetch.sh [NAME...]       without names: all
#
# Prints a line per server, tab separated: name, version, path of redis-server;
# or name, "-" and the reason, for a server that cannot be had. Fails if none
# can. Beside each redis-server lie redis-cli, redis-sentinel, redis-benchmark,
# redis-check-aof and redis-check-rdb, named so for every kind of server; a
# Valkey answers to valkey-server and so on, too.
#
# A server that was fetched once stays as it is: remove its folder to renew it.
#
#   FUNNEL_CACHE           cache folder ($XDG_CACHE_HOME/funnel or ~/.cache/funnel)
#   FUNNEL_DEBIAN_MIRROR   mirror to use (the one apt uses, or deb.debian.org)
#   FUNNEL_ARCHITECTURE    amd64 or arm64 (this machine's): servers for another one
#                          than this machine's run emulated, by qemu-user
#
# Needs apt, on Debian or a relative of it, but neither root nor a chroot: the
# packages are unpacked, not installed, and see the host's files and ports.

set -euo pipefail

# name, suites, package; or name, "-", why there is none.
servers='
redis-6.2       -                 in no Debian suite: bullseye has 6.0, bookworm 7.0
redis-7.0       bookworm          redis-server
redis-7.2       -                 in no Debian suite: bookworm has 7.0, trixie 8.0; redict-7.3 is a fork of it
redis-7.4       -                 in no Debian suite: bookworm has 7.0, trixie 8.0
redict-7.3      forky             redict-server
redis-8         trixie            redis-server
redis-8-latest  sid,experimental  redis-server
valkey-8        trixie            valkey-server
valkey-9        forky             valkey-server
'

cache=${FUNNEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/funnel}/servers
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

die() {
    echo "fetch.sh: $*" >&2
    exit 1
}

# As Debian names it, and the kernel.
machine=$(uname -m)
case ${FUNNEL_ARCHITECTURE:-$machine} in
amd64 | x86_64) architecture=amd64 cpu=x86_64 ;;
arm64 | aarch64) architecture=arm64 cpu=aarch64 ;;
*) die "FUNNEL_ARCHITECTURE must be amd64 or arm64, not '${FUNNEL_ARCHITECTURE:-$machine}'" ;;
esac
emulator=
if [ "$cpu" != "$machine" ]; then
    cache+=-$architecture
    # One of them may not be there.
    emulator=$(command -v "qemu-$cpu-static" "qemu-$cpu" | head -n 1) || true
    [ -n "$emulator" ] || die "nothing runs servers for $architecture here: apt-get install qemu-user-static"
fi

# Finds what fetching needs; a full cache needs none of it.
prepare() {
    [ -z "${work-}" ] || return 0
    local tool
    for tool in apt-get dpkg-deb flock; do
        command -v "$tool" >/dev/null || die "$tool is missing: apt, dpkg and util-linux are needed"
    done
    if [ ! -e "$keyring" ]; then
        [ "$(id -u)" = 0 ] || die "$keyring is missing: apt-get install debian-archive-keyring"
        apt-get -qq install debian-archive-keyring >&2 </dev/null || die "cannot install debian-archive-keyring"
    fi

    mirror=${FUNNEL_DEBIAN_MIRROR-}
    if [ -z "$mirror" ]; then
        # shellcheck disable=SC2016 # apt expands it
        mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sed -n '/\/debian\/$/{p;q}')
    fi
    mirror=${mirror:-http://deb.debian.org/debian}

    # One run at a time writes to the cache.
    mkdir -p "$cache" || die "cannot make $cache"
    exec 9>"$cache/.lock"
    flock 9 || die "cannot lock $cache"

    # Not in the cache: apt drops root for the user _apt, who cannot enter a home.
    work=$(mktemp -d) || die "cannot make a temporary folder"
    trap 'rm -rf "$work" "$cache/.new"' EXIT
    chmod 755 "$work"
}

# update SUITES: an apt of our own, which knows these suites and no installed
# package, and has the host's settings (a proxy, say) for all the rest.
update() {
    local dir=$work/$1
    [ ! -e "$dir/done" ] || return 0
    mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial"
    : >"$dir/status"
    cat >"$dir/debian.sources" <<END
Types: deb
URIs: $mirror
Suites: ${1//,/ }
Components: main
Architectures: $architecture
Signed-By: $keyring
END
    # Servers may come from experimental, which apt shuns; their libraries may not.
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

# wrap FOLDER KIND: writes the commands that start what lies in FOLDER/root.
wrap() {
    local loader libs tool program
    loader=$(cd "$1" && find root -name 'ld-linux*.so.*' -path '*-linux-gnu*' -type f -print -quit)
    [ -n "$loader" ] || return
    # The libraries lie where the loader does, with or without /usr before it.
    libs=${loader#root}
    libs=${libs#/usr}
    libs=${libs%/*}
    for tool in server cli sentinel benchmark check-aof check-rdb; do
        program=$tool
        # A sentinel is a server that goes by another name.
        [ "$tool" != sentinel ] || program=server
        # Each brings its own C library and loader. Locales are the host's, in a
        # format for the host's C library, and a server stops at one it cannot read.
        # What a program does depends on the name it is called by, and a server that
        # restarts itself calls that name again.
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

# fetch NAME SUITES PACKAGE: when it fails, $reason says why.
fetch() {
    local name=$1 suites=$2 package=$3 new=$cache/.new deb
    prepare
    [ ! -e "$cache/$name" ] || return 0 # by another run, while we waited for the lock
    echo "fetching $name: $package of Debian $suites for $architecture from $mirror" >&2

    reason="the package lists of Debian $suites cannot be had from $mirror"
    update "$suites" || return

    reason="$package cannot be had from Debian $suites"
    apt-get -c "$work/$suites/apt.conf" clean || return
    apt-get -qq -y -c "$work/$suites/apt.conf" --download-only install "$package" >&2 </dev/null || return

    reason="the packages cannot be unpacked"
    rm -rf "$new"
    mkdir "$new"
    for deb in "$work/$suites"/cache/archives/*.deb; do
        dpkg-deb -x "$deb" "$new/root" || return
    done
    rm -rf "$new/root/usr/share" "$new/root/etc" "$new/root/var"

    reason="the unpacked $package does not start"
    wrap "$new" "${package%-server}" || return
    "$new/redis-server" --version | sed -n 's/.* v=\([^ ]*\) .*/\1/p' >"$new/version"
    [ -s "$new/version" ] || return

    # Whole or not at all: what is interrupted before this leaves only .new.
    reason="$cache/$name cannot be written"
    mv -T "$new" "$cache/$name"
}

for name in "$@"; do
    grep -q "^$name " <<<"$servers" || die "no server named $name: see the table in $0"
done

had=0
while read -r name suites package <&3; do
    [ -n "$name" ] || continue
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    if [ "$suites" = - ]; then
        printf '%s\t-\t%s\n' "$name" "$package"
    elif [ -e "$cache/$name" ] || fetch "$name" "$suites" "$package"; then
        printf '%s\t%s\t%s\n' "$name" "$(<"$cache/$name/version")" "$cache/$name/redis-server"
        had=$((had + 1))
    else
        printf '%s\t-\t%s\n' "$name" "$reason"
    fi
done 3<<<"$servers"
[ "$had" -gt 0 ]
