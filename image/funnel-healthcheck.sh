#!/bin/sh
# Healthy is a server that knows CL.THROTTLE and would run it. The call is a peek
# (quantity 0), so it leaves no key. REDISCLI_AUTH may hold the password. In plain sh, as the
# entrypoint.

set -eu

cli=redis-cli
! command -v valkey-cli >/dev/null || cli=valkey-cli

# A server shows its port in the name of its process: redis-server *:7000.
port=$(tr '\0' ' ' </proc/1/cmdline | sed -nE 's/^[^ ]*(redis|valkey)-server [^ ]*:([0-9]+).*/\2/p')

answer=$("$cli" -p "${port:-6379}" cl.throttle funnel:healthcheck 1 1 1 0)
case $answer in
# Allowed or limited.
[01]"
"*) ;;
# Not here, or not by us. A server says so of no command that it does not know.
READONLY* | MOVED* | NOAUTH* | NOPERM*) ;;
*)
    echo "CL.THROTTLE is answered: ${answer:-nothing}" >&2
    exit 1
    ;;
esac
