# Functions that build.sh and the routines in this folder share. To be sourced, with
# the top of the repository as the working folder.
# shellcheck shell=bash

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# root_for TOOL COMMAND...: announces how the tool is going to be installed, or says
# that it cannot be.
root_for() {
    as_root true 2>/dev/null || die "$1 is missing, and only root may install it: sudo ${*:2}"
    echo "$1 is missing: ${*:2}" >&2
}

# packages NAME...: installs them with apt. What it prints is shown when it fails.
packages() {
    local log
    log=$(mktemp)
    # Fails for any one source that is out of order; the next line tells whether that matters.
    as_root apt-get -qq update </dev/null >"$log" 2>&1 || true
    # Debian would start a service at once: the variables keep systemd and other inits from it.
    as_root env DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 RUNLEVEL=1 \
        apt-get -qq -y install --no-install-recommends "$@" </dev/null >>"$log" 2>&1 || {
        cat "$log" >&2
        rm -f "$log"
        die "apt-get cannot install $*, see above"
    }
    rm -f "$log"
}

# need_package TOOL [PACKAGE]: installs the tool unless it is there.
need_package() {
    local package=${2-$1}
    ! has "$1" || return 0
    if has apt-get; then
        root_for "$1" apt-get install "$package"
        packages "$package"
    elif has dnf; then
        root_for "$1" dnf install "$package"
        as_root dnf -q -y install "$package" </dev/null >/dev/null
    else
        die "$1 is missing: install it"
    fi
}

# debian_mirror prints the mirror to fetch packages from: FUNNEL_DEBIAN_MIRROR, the one
# that apt uses, or the one for all.
debian_mirror() {
    local mirror=${FUNNEL_DEBIAN_MIRROR-}
    # shellcheck disable=SC2016 # apt expands it
    [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sed -n '/\/debian\/$/{p;q}')
    echo "${mirror:-http://deb.debian.org/debian}"
}

server_on_path() { command -v redis-server || command -v valkey-server; }

# need_server sets FUNNEL_SERVER, which tests read, too.
need_server() {
    [ -n "${FUNNEL_SERVER-}" ] || server_on_path >/dev/null || install_server
    export FUNNEL_SERVER="${FUNNEL_SERVER:-$(server_on_path)}"
    has "$FUNNEL_SERVER" || die "FUNNEL_SERVER is '$FUNNEL_SERVER', which is no program: name a redis-server or valkey-server"
}

install_server() {
    if has apt-get; then
        need_package redis-server
        # Debian's service would be on the port that `run` wants, after a reboot.
        ! has systemctl || as_root systemctl -q disable redis-server 2>/dev/null || true
    elif has dnf; then
        root_for redis-server dnf install redis
        # Newer Fedoras have Valkey instead.
        as_root dnf -q -y install redis || as_root dnf -q -y install valkey
    elif has brew; then
        brew install redis
    else
        die "redis-server is missing: install Redis 6.2.8 or newer, or Valkey, or name one in FUNNEL_SERVER"
    fi
    server_on_path >/dev/null || die "redis-server was installed, but is not in the PATH: name it in FUNNEL_SERVER"
}
