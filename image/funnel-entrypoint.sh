#!/bin/sh
# Calls the entrypoint of the official image, with funnel preloaded into the server that
# it starts. FUNNEL_ARGS holds arguments of the module. In plain sh with busybox's
# programs, because Alpine has no others.

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

# loads FILE: for each line that loads funnel, in a configuration file and in the files that
# it includes by path or pattern, prints the arguments. Servers ignore the case of a line's
# first word. A subshell, because each file needs its own variables.
loads() (
    [ -f "$1" ] || exit 0
    case $files in *":$1:"*) exit 0 ;; esac # it includes itself
    files=$files$1:
    sed -nE "s|^[[:space:]]*[Ll][Oo][Aa][Dd][Mm][Oo][Dd][Uu][Ll][Ee][[:space:]]+[\"']?${module}[\"']?[[:space:]]*||p" "$1" |
        while IFS= read -r arguments; do
            arguments=$(words "$arguments")
            printf "%s loads funnel with '%s'\n" "$1" "$arguments"
        done
    sed -nE "s|^[[:space:]]*[Ii][Nn][Cc][Ll][Uu][Dd][Ee][[:space:]]+[\"']?([^\"']*[^\"'[:space:]])[\"']?[[:space:]]*$|\1|p" "$1" |
        while IFS= read -r pattern; do
            IFS= # a path may hold spaces
            for file in $pattern; do loads "$file"; done
        done
)

# is_loaded SERVER [ARGUMENT...]: a server that is told to load a module twice does
# not start. Files may name it, because CONFIG REWRITE, and thus every failover by
# Sentinel, writes the line there.
is_loaded() {
    files=:
    found=$(loads "${2-}")
    before=
    for argument; do
        [ "$argument" != "$module" ] || return 0
        [ "$before" != --include ] || found=$found$(loads "$argument")
        before=$argument
    done
    [ -n "$found" ] || return 1
    wanted=$(words "${FUNNEL_ARGS-}")
    case $found in
    *" loads funnel with '$wanted'") ;;
    *) [ -z "$wanted" ] || die "$found, and FUNNEL_ARGS is '$wanted': remove the line or the variable" ;;
    esac
}

# ends_at_once SERVER [ARGUMENT...]: these options must be alone; with --test-memory, the
# server counts the arguments.
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
