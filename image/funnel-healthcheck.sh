#!/bin/sh
# A server is healthy if it answers, has the module, and has loaded its data. The check names no key and does not count
# in INFO funnel. A call that a cluster, a memory limit or a missing replica would refuse says nothing about this node's
# health. REDISCLI_AUTH may hold the password. In plain sh, like the entrypoint.

set -eu

cli=redis-cli
! command -v valkey-cli >/dev/null || cli=valkey-cli

# A server shows its port in its process name: redis-server *:7000.
port=$(tr '\0' ' ' </proc/1/cmdline | sed -nE 's/^[^ ]*(redis|valkey)-server [^ ]*:([0-9]+).*/\2/p')

ask() {
    "$cli" -p "${port:-6379}" "$@" | tr -d '\r'
}

answer=$(ask info funnel && ask info persistence) # before Redis 7, INFO takes one section
case $answer in
*"
loading:1
"*) answer="the server is loading its data" ;;
*funnel_version:*) exit ;;
# No permission. A server never replies this for a command that it does not know.
NOAUTH* | NOPERM*)
    answer=$(ask cl.throttle)
    case $answer in
    NOAUTH* | NOPERM* | *"wrong number of arguments"*) exit ;;
    esac
    ;;
# Only the other section: the module is missing.
*loading:0*) answer="the module is not loaded" ;;
esac
echo "funnel is not ready: ${answer:-the server does not answer}" >&2
exit 1
