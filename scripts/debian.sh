# Functions that make Debian systems to run programs in. Source this file after common.sh.
# shellcheck shell=bash disable=SC2154 # common.sh sets debian_keys

# debian_root SUITE PACKAGE[,PACKAGE...] FOLDER: installs a Debian in a folder. Needs root.
debian_root() {
    local suite=$1 packages=$2 root=$3 mirror
    need_debian_keys
    mirror=$(debian_mirror)
    echo "making a Debian $suite with $packages, from $mirror" >&2
    mmdebstrap --variant=minbase --keyring="$debian_keys" --include="$packages" \
        "$suite" "$root" "$mirror" >"$root.log" 2>&1 </dev/null ||
        die "mmdebstrap failed: $(tail -n 20 "$root.log")"
}
