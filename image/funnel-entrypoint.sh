#!/bin/sh
# The entrypoint of the official image, which it calls, with funnel preloaded into
# whatever server that starts. FUNNEL_ARGS holds arguments of the module. In plain sh,
# with what busybox has, since an Alpine has no more.

set -eu

module=/usr/local/lib/redis/funnel.so

die() {
    printf 'funnel-entrypoint.sh: %s\n' "$*" >&2
    exit 1
}

server=redis-server
! command -v valkey-server >/dev/null || server=valkey-server

# is_loaded SERVER [ARGUMENT...]: a server that is told to load a module twice does
# not start. Files may name it, too, since CONFIG REWRITE, and with it every failover
# by Sentinel, writes the line there. Servers read its first word in any case.
is_loaded() {
    for argument; do
        [ "$argument" != "$module" ] || return 0
    done
    line="^[[:space:]]*[Ll][Oo][Aa][Dd][Mm][Oo][Dd][Uu][Ll][Ee][[:space:]]+[\"']?${module}[\"']?[[:space:]]*"
    [ -f "${2-}" ] && grep -Eq "$line" "$2" || return 1
    arguments=$(sed -nE "s|$line||p" "$2")
    [ -z "${FUNNEL_ARGS-}" ] || [ "$FUNNEL_ARGS" = "$arguments" ] ||
        die "$2 loads funnel with '$arguments', and FUNNEL_ARGS is '$FUNNEL_ARGS': remove the line or the variable"
}

is_sentinel() {
    case " $* " in
    *" --sentinel "*) return 0 ;;
    esac
    return 1
}

# check_file SERVER [ARGUMENT...]: servers read a folder as an empty file.
check_file() {
    case ${2-} in
    '' | -*) return ;;
    esac
    path=$2
    [ "${path#/}" != "$path" ] || path=$(pwd)/$path
    mount="-v \"\$PWD/redis.conf:$path\""
    [ ! -d "$2" ] ||
        die "$2 is a folder, not a configuration file. Docker makes one where the file to mount is missing, or its path is not absolute: remove the folder, write the file, and mount it as in $mount"
    [ -e "$2" ] || die "there is no configuration file $2 in the container: mount it, as in $mount"
}

# Options, or a file, are for the server, as in the official images.
case ${1-} in
'' | -* | *.conf) set -- "$server" "$@" ;;
esac

case ${1##*/} in
redis-server | valkey-server)
    # By any other name than the base's own, the server would go on as root.
    shift
    set -- "$server" "$@"
    check_file "$@"
    # Words of FUNNEL_ARGS are arguments, whatever is in them.
    set -f
    # shellcheck disable=SC2086
    is_sentinel "$@" || is_loaded "$@" || set -- "$@" --loadmodule "$module" ${FUNNEL_ARGS-}
    set +f
    ;;
esac

exec docker-entrypoint.sh "$@"
