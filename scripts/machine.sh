#!/usr/bin/env bash
# Boots a Debian with systemd, in systemd-nspawn, until standard input ends:
#
#   scripts/machine.sh SUITE PACKAGE...
#
# Prints the process of its init once it has booted: `nsenter -a -t PROCESS` enters the machine. The machine has its own
# network, without a way out, and keeps nothing that it writes. The file system below is made once for each suite and
# list of packages: remove its folder to renew it. If no machine can be booted, says why and exits with 3.
#
#   FUNNEL_CACHE           cache folder ($XDG_CACHE_HOME/funnel or ~/.cache/funnel)
#   FUNNEL_DEBIAN_MIRROR   mirror to use (the one apt uses, or deb.debian.org)
#
# Needs root, mmdebstrap, systemd-container and util-linux.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." >/dev/null
. scripts/common.sh
. scripts/debian.sh

[ $# -ge 1 ] || die "usage: scripts/machine.sh SUITE PACKAGE..."
suite=$1
packages=$(IFS=, && echo "systemd-sysv,dbus,sudo${2+,}${*:2}")
name=funnel-$$
# Commas separate the options of mount.
root=$(funnel_cache)/machines/${suite}_${packages//,/_}

refuse() {
    echo "no machine can be booted here: $*" >&2
    exit 3
}

may_boot() {
    local tool why
    [ "$(id -u)" = 0 ] || refuse "that needs root"
    for tool in mmdebstrap setpriv systemd-nspawn; do
        has "$tool" || refuse "$tool is missing: apt-get install mmdebstrap systemd-container util-linux"
    done
    why=$(unshare --mount --uts --ipc --pid --net --cgroup --fork true 2>&1) || refuse "$why"
}

make_root() {
    flock 9
    [ ! -e "$root" ] || return 0
    draft=$(mktemp -d "$root.XXXXXX")
    trap 'rm -rf --one-file-system "$draft"' EXIT
    debian_root "$suite" "$packages" "$draft/root"
    # Not the name of this machine, which sudo could not look up.
    echo localhost >"$draft/root/etc/hostname"
    echo '127.0.0.1 localhost' >"$draft/root/etc/hosts"
    mv "$draft/root" "$root"
}

# make_groups: makes a control group for the machine in each hierarchy that systemd uses,
# because systemd manages the groups below its own group.
make_groups() {
    local top why
    for top in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
        [ -e "$top/cgroup.procs" ] || continue
        why=$(mkdir "$top/$name" 2>&1) || refuse "$why"
        groups+=("$top/$name")
    done
}

# start: boots the machine, which ends with this script, however the script ends.
start() {
    local group
    for group in "${groups[@]}"; do
        echo "$BASHPID" >"$group/cgroup.procs"
    done
    export SYSTEMD_NSPAWN_LOCK=0 SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
    exec setpriv --pdeathsig TERM systemd-nspawn --quiet --boot --machine="$name" --directory="$root" \
        --volatile=overlay --private-network --register=no --keep-unit --console=pipe
}

# booted: succeeds once all units have started. Sets init to the process that is process 1 in the machine.
booted() {
    init=$(tr -d ' ' <"/proc/$nspawn/task/$nspawn/children") && [ -n "$init" ] &&
        grep -q '^NSpid:.*[^0-9]1$' "/proc/$init/status" || return 1
    # "degraded": a unit has failed, but the test may not need it.
    [[ $(nsenter -a -t "$init" systemctl is-system-running --wait) = @(running|degraded) ]]
}

# stop: ends the machine. It prints nothing, because nobody may be reading standard output.
stop() {
    local group tries
    if [ -n "${nspawn-}" ]; then
        kill "$nspawn" && timeout 20 tail -f -s 0.05 --pid="$nspawn" /dev/null || kill -KILL "$nspawn" || true
        wait "$nspawn" || true
    fi
    for group in "${groups[@]}"; do
        # A process leaves its group a moment after it was killed.
        for ((tries = 100; tries; tries--)); do
            find "$group" -depth -type d -exec rmdir {} + && break
            sleep 0.05
        done
    done
    rm -f "$console"
} >/dev/null 2>&1

groups=()
may_boot
mkdir -p "${root%/*}"
(make_root) 9>"${root%/*}/.lock"
console=$(mktemp)
trap stop EXIT
make_groups
start </dev/null >"$console" 2>&1 &
nspawn=$!
deadline=$((SECONDS + 60))
until booted 2>/dev/null; do
    if ! kill -0 "$nspawn" 2>/dev/null || [ $SECONDS -gt $deadline ]; then
        die "the machine does not boot: $(tail -n 20 "$console")"
    fi
    sleep 0.05
done
echo "$init"
cat >/dev/null
