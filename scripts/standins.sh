#!/usr/bin/env bash
# Makes stand-ins for the images that the Dockerfile builds on, for machines without a registry. A stand-in has
# everything that our image relies on in the official image, and is made of Debian packages and this machine's Go.
#
#   funnel-standin-golang    Debian bookworm, gcc and Go, as golang:VERSION-bookworm
#   funnel-standin-redis     Debian trixie and its Redis, as redis:8
#   funnel-standin-valkey    Debian trixie and its Valkey, as valkey/valkey:8
#   funnel-standin-alpine    musl, busybox and a Redis built with musl, as redis:7-alpine
#
# Keeps images that are up to date. Needs root, docker, go, apt and mmdebstrap.
#
#   FUNNEL_MUSL_SERVER     path of redis-7.0-musl's redis-server, from
#                          scripts/servers.sh; without it, no funnel-standin-alpine
#   FUNNEL_DEBIAN_MIRROR   mirror to use (the one apt uses, or deb.debian.org)

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." >/dev/null
. scripts/common.sh
. scripts/debian.sh

# Images are out of date when these change.
edition=$(cat scripts/debian.sh scripts/standins.sh scripts/standin/* <(go version) | sha256sum | cut -c 1-16)
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

is_current() {
    [ "$(docker image inspect --format '{{index .Config.Labels "funnel.standin"}}' "$1" 2>/dev/null)" = "$edition" ]
}

# import ROOT NAME [CHANGE...]
import() {
    local root=$1 name=$2 change changes=()
    for change in "LABEL funnel.standin=$edition" "${@:3}"; do
        changes+=(--change "$change")
    done
    tar -C "$root" --numeric-owner -c . | docker import "${changes[@]}" - "$name" >/dev/null
}

make_golang() {
    local root=$work/bookworm
    debian_root bookworm gcc,libc6-dev,ca-certificates "$root"
    mkdir -p "$root/usr/local/go" "$root/go"
    # Tests of Go itself are half of it.
    tar -C "$(go env GOROOT)" --exclude=testdata --exclude='*_test.go' --exclude=./test -c . |
        tar -C "$root/usr/local/go" --no-same-owner -x
    import "$root" funnel-standin-golang "ENV PATH=/go/bin:/usr/local/go/bin:$path" 'ENV GOPATH=/go' \
        'ENV GOTOOLCHAIN=local' 'WORKDIR /go'
}

# The official images differ in one point: older images of Redis declare a volume.
make_servers() {
    debian_root trixie tzdata,redis-server,valkey-server "$work/trixie"
    make_server redis valkey 'VOLUME /data'
    make_server valkey redis
}

# make_server KIND OTHER [CHANGE...]: copies $work/trixie without the other server.
make_server() {
    local kind=$1 other=$2 root=$work/$1
    cp -a "$work/trixie" "$root"
    rm -r "${root:?}/usr/bin/$other"-*
    chroot "$root" sh -ec "
        userdel redis
        userdel valkey
        groupadd -r -g 999 $kind
        useradd -r -g $kind -u 999 $kind
        install -d -o $kind -g $kind /data" >/dev/null 2>&1 || die "cannot make the user $kind"
    # Valkey also installs itself under these names.
    [ "$kind" = redis ] || ln -s valkey-server "$root/usr/bin/redis-server"
    [ "$kind" = redis ] || ln -s valkey-cli "$root/usr/bin/redis-cli"
    [ "$kind" = redis ] || ln -s valkey-server "$root/usr/local/bin/redis-server"
    import_server "$kind" "$root" "funnel-standin-$kind" "${@:3}"
}

# import_server KIND ROOT NAME [CHANGE...]
import_server() {
    local kind=$1 root=$2
    ln -sf "$kind-server" "$root/usr/bin/$kind-sentinel"
    install -m 755 scripts/standin/entrypoint.sh "$root/usr/local/bin/docker-entrypoint.sh"
    install -m 755 scripts/standin/server.sh "$root/usr/local/bin/$kind-server"
    ln -s "$kind-server" "$root/usr/local/bin/$kind-sentinel"
    import "$root" "$3" "ENV PATH=$path" "ENV STANDIN=$kind" 'WORKDIR /data' \
        'ENTRYPOINT ["docker-entrypoint.sh"]' 'EXPOSE 6379' "CMD [\"$kind-server\"]" "${@:4}"
}

# Alpine's programs come from busybox, and its C library is musl. Both can be copied without a package manager.
make_alpine() {
    local root=$work/alpine
    echo "making an alpine of busybox and $FUNNEL_MUSL_SERVER" >&2
    mkdir -p "$root"/{bin,sbin,etc,dev,proc,sys,root,run,usr/bin,usr/sbin,usr/local/bin}
    mkdir -m 1777 "$root/tmp"
    unpack_package busybox-static "$work/busybox"
    find "$work/busybox" -path '*/bin/busybox' -exec cp {} "$root/bin/" \; # below usr in newer packages
    chroot "$root" /bin/busybox --install -s
    # The C library, which is the loader, and the server.
    cp -a --no-preserve=ownership "${FUNNEL_MUSL_SERVER%/*}/root/." "$root/"
    printf '%s\n' root:x:0:0:root:/root:/bin/sh redis:x:999:999::/data:/sbin/nologin >"$root/etc/passwd"
    printf '%s\n' root:x:0: redis:x:999: >"$root/etc/group"
    install -d -o 999 -g 999 "$root/data"
    import_server redis "$root" funnel-standin-alpine 'VOLUME /data'
}

makers=
is_current funnel-standin-golang || makers=make_golang
{ is_current funnel-standin-redis && is_current funnel-standin-valkey; } || makers+=' make_servers'
[ -z "${FUNNEL_MUSL_SERVER-}" ] || is_current funnel-standin-alpine || makers+=' make_alpine'
[ -n "$makers" ] || exit 0

[ "$(id -u)" = 0 ] || die "mmdebstrap needs root: sudo $0"
work=$(mktemp -d)
# Only files in $work itself: mmdebstrap mounts /proc below it for a while.
trap 'rm -rf --one-file-system "$work"' EXIT

# In parallel, because most of the time goes into waiting for the mirror and the disk.
jobs=()
for maker in $makers; do
    "$maker" &
    jobs+=($!)
done
for job in "${jobs[@]}"; do
    wait "$job" || failed=1
done
[ -z "${failed-}" ]
