# Functions that build.sh and the routines in this folder share. Source this file with the
# top of the repository as the working folder.
# shellcheck shell=bash

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# has NAME: whether there is a program of that name. A function or a folder is not a program.
has() { type -P "$1" >/dev/null; }

# tests_named 'NAME|NAME...' PATH...: prints the pattern of the tests that begin with these names. Each name must have one.
tests_named() {
    local name
    for name in ${1//|/ }; do
        grep -rq "^func Test$name" --include='*_test.go' "${@:2}" || die "no test in ${*:2} begins with Test$name"
    done
    echo "^Test($1)"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# root_for TOOL COMMAND...: announces how the tool will be installed, or says why it cannot be.
root_for() {
    as_root true 2>/dev/null || die "$1 is missing, and only root may install it: sudo ${*:2}"
    echo "$1 is missing: ${*:2}" >&2
}

# packages NAME...: installs them with apt or dnf, and shows their output if they fail.
packages() {
    local log manager=apt-get code=0
    has apt-get || manager=dnf
    log=$(mktemp)
    {
        if [ "$manager" = apt-get ]; then
            # This fails if any source is broken. The next command shows whether that matters.
            as_root apt-get -qq update || true
            # Debian would start a service at once. The variables keep systemd and other inits from doing so.
            as_root env DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 RUNLEVEL=1 \
                apt-get -qq -y install --no-install-recommends "$@" || code=$?
        else
            as_root dnf -q -y install "$@" || code=$?
        fi
    } </dev/null >"$log" 2>&1
    [ "$code" = 0 ] || cat "$log" >&2
    rm -f "$log"
    [ "$code" = 0 ] || die "$manager cannot install $*, for the reason above: fix that, or install $* yourself"
}

# need_package TOOL [PACKAGE]: installs the tool unless it is there.
need_package() {
    local package=${2-$1}
    ! has "$1" || return 0
    if has apt-get; then
        root_for "$1" apt-get install "$package"
    elif has dnf; then
        root_for "$1" dnf install "$package"
    else
        die "$1 is missing, and there is neither apt-get nor dnf to install it with: install it"
    fi
    packages "$package"
}

# unpack_package NAME FOLDER: unpacks a package of this Debian into a folder, without installing it.
unpack_package() {
    local download
    download=$(mktemp -d)
    # If root runs apt, it downloads as the user _apt.
    [ "$(id -u)" != 0 ] || chown _apt "$download"
    (cd "$download" && apt-get -qq download "$1" >&2 && dpkg-deb -x ./*.deb "$2") ||
        die "$1 cannot be downloaded: apt-get update may help"
    rm -rf "$download"
}

# debian_mirror prints the mirror for packages: FUNNEL_DEBIAN_MIRROR, apt's own, or the public one.
debian_mirror() {
    local mirror=${FUNNEL_DEBIAN_MIRROR-}
    # shellcheck disable=SC2016 # apt expands it
    [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | sed -n '/\/debian\/$/{p;q}')
    echo "${mirror:-http://deb.debian.org/debian}"
}

# funnel_cache prints the folder for files that are downloaded only once.
funnel_cache() { echo "${FUNNEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/funnel}"; }

# The public keys of Debian's archive, for mmdebstrap.
debian_keys=/usr/share/keyrings/debian-archive-keyring.gpg
need_debian_keys() { [ -e "$debian_keys" ] || packages debian-archive-keyring; }

need_docker() {
    has docker || die "docker is missing: install it (apt-get install docker.io)"
    docker info >/dev/null 2>&1 ||
        die "docker does not answer: start its daemon (systemctl start docker), and be root or a member of the group docker"
}

server_on_path() { command -v redis-server || command -v valkey-server; }

# need_server sets FUNNEL_SERVER, which tests read, too.
need_server() {
    [ -n "${FUNNEL_SERVER-}" ] || server_on_path >/dev/null || install_server
    export FUNNEL_SERVER="${FUNNEL_SERVER:-$(server_on_path)}"
    [[ $("$FUNNEL_SERVER" --version 2>/dev/null) == *' server v='* ]] ||
        die "FUNNEL_SERVER is '$FUNNEL_SERVER', which is no redis-server or valkey-server that runs here: name one, or unset it"
}

install_server() {
    if has apt-get; then
        need_package redis-server
        # After a reboot, Debian's service would take the port that `run` uses.
        ! has systemctl || as_root systemctl -q disable redis-server 2>/dev/null || true
    elif has dnf; then
        # Newer Fedoras have Valkey instead.
        if dnf -q info redis >/dev/null 2>&1; then
            need_package redis-server redis
        else
            need_package valkey-server valkey
        fi
    else
        die "redis-server is missing: install Redis 6.2.8 or newer, or Valkey, or name one in FUNNEL_SERVER"
    fi
    server_on_path >/dev/null || die "redis-server was installed, but is not in the PATH: name it in FUNNEL_SERVER"
}
