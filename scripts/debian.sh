# Functions that make Debian systems to run programs in. Source this file after common.sh.
# shellcheck shell=bash

# funnel_cache prints the folder for files that are downloaded only once.
funnel_cache() { echo "${FUNNEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/funnel}"; }

# debian_root SUITE PACKAGE[,PACKAGE...] FOLDER: installs a Debian in a folder. Needs root.
debian_root() {
    local suite=$1 packages=$2 root=$3 keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror
    [ -e "$keyring" ] || die "$keyring is missing: apt-get install debian-archive-keyring"
    mirror=$(debian_mirror)
    echo "making a Debian $suite with $packages, from $mirror" >&2
    mmdebstrap --variant=minbase --keyring="$keyring" --include="$packages" \
        "$suite" "$root" "$mirror" >"$root.log" 2>&1 </dev/null ||
        die "mmdebstrap failed: $(tail -n 20 "$root.log")"
}
