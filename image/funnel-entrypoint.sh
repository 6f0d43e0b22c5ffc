#!/bin/sh
# Calls the entrypoint of the official image, with funnel preloaded into the server that it starts. FUNNEL_ARGS holds
# arguments of the module. In plain sh with busybox's programs, because Alpine has no others.

set -eu

module=/usr/local/lib/redis/funnel.so

die() {
    printf 'funnel-entrypoint.sh: %s\n' "$*" >&2
    exit 1
}

server=redis-server
! command -v valkey-server >/dev/null || server=valkey-server

# words TEXT: its words, with one space between them, as CONFIG REWRITE has written them.
words() (
    unset IFS
    set -f
    # shellcheck disable=SC2086
    set -- $1
    printf %s "$*"
)

# is_loaded SERVER [ARGUMENT...]: a server that is told to load a module twice does not
# start. The configuration file may name it, because CONFIG REWRITE, and thus every failover
# by Sentinel, writes the line there. Servers ignore the case of the line's first word.
is_loaded() {
    wanted=$(words "${FUNNEL_ARGS-}")
    case " $* " in
    *" $module ${wanted:+$wanted }"*) return 0 ;;
    *" $module "*) die "the command line loads funnel without FUNNEL_ARGS, '$wanted': remove one of them" ;;
    esac
    [ -f "${2-}" ] || return 1
    found=$(sed -nE "s,^[[:space:]]*loadmodule[[:space:]]+[\"']?${module}[\"']?([[:space:]]|$),with ,Ip" "$2")
    [ -n "$found" ] || return 1
    found=$(words "${found#with}")
    [ -z "$wanted" ] || [ "$found" = "$wanted" ] ||
        die "$2 loads funnel with '$found', and FUNNEL_ARGS is '$wanted': remove the line or the variable"
}

# ends_at_once SERVER [ARGUMENT...]: these options must be alone; with --test-memory, the server counts the arguments.
ends_at_once() {
    case ${2-} in
    -h | --help | -v | --version | --test-memory | --check-system) return 0 ;;
    esac
    return 1
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
    # Under any name but the base's own, the server would keep running as root.
    shift
    set -- "$server" "$@"
    check_file "$@"
    if ! ends_at_once "$@" && ! is_sentinel "$@" && ! is_loaded "$@"; then
        # The words of FUNNEL_ARGS are arguments, not patterns.
        set -f
        # shellcheck disable=SC2086
        set -- "$@" --loadmodule "$module" ${FUNNEL_ARGS-}
    fi
    ;;
esac

exec docker-entrypoint.sh "$@"
