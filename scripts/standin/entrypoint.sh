#!/bin/sh
# Does what the entrypoints of the official images do: options or a file alone are for the server, the server's user
# gets /data, and the server runs as that user. It is plain sh, like the entrypoints of the Alpine images.

set -e

server=$STANDIN-server
case $1 in
-* | *.conf) set -- "$server" "$@" ;;
esac

# Only if the server is called by its plain name, as in older Redis images and in Valkey's.
if [ "$1" = "$server" ] && [ "$(id -u)" = 0 ]; then
    find . ! -user "$STANDIN" -exec chown "$STANDIN" {} +
    # Busybox's setpriv changes no user; its su leaves no process behind.
    # shellcheck disable=SC2016 # the shell that su starts expands it
    [ ! -e /bin/busybox ] || exec su -m -s /bin/sh -- "$STANDIN" -c 'exec "$0" "$@"' "$0" "$@"
    exec setpriv --reuid "$STANDIN" --regid "$STANDIN" --clear-groups "$0" "$@"
fi

[ "$(umask)" != 0022 ] || umask 0077
# shellcheck disable=SC2086 # as Valkey's does
exec "$@" $VALKEY_EXTRA_FLAGS
