#!/bin/sh
# What the entrypoints of the official images do, as far as it concerns a server:
# options or a file alone are for it, /data becomes its user's, and so does it. In
# plain sh, as those of the Alpine images are.

set -e

server=$STANDIN-server
case $1 in
-* | *.conf) set -- "$server" "$@" ;;
esac

# By its plain name only, as in the older Redis images and in those of Valkey.
if [ "$1" = "$server" ] && [ "$(id -u)" = 0 ]; then
    find . ! -user "$STANDIN" -exec chown "$STANDIN" {} +
    # Busybox has a setpriv that changes no user; its su leaves no process behind.
    # shellcheck disable=SC2016 # the shell that su starts expands it
    [ ! -e /bin/busybox ] || exec su -m -s /bin/sh -- "$STANDIN" -c 'exec "$0" "$@"' "$0" "$@"
    exec setpriv --reuid "$STANDIN" --regid "$STANDIN" --clear-groups "$0" "$@"
fi

[ "$(umask)" != 0022 ] || umask 0077
# shellcheck disable=SC2086 # Valkey's does so
exec "$@" $VALKEY_EXTRA_FLAGS
