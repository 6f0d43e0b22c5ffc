#!/bin/sh
# Says which lines would keep the server from starting without funnel.so. It changes
# nothing. dpkg calls it before a removal, with the word remove; rpm afterwards, with the
# number of versions that stay; apk afterwards, with the version. Upgrades are no removals.

set -e

case ${1-} in upgrade | failed-upgrade | deconfigure | 1) exit 0 ;; esac

@LOADS@
lines=$(loads /etc/@SERVER@.conf /etc/@SERVER@/*.conf @DROP_IN@)
[ -n "$lines" ] || exit 0
echo "@NAME@: take these lines out, or the server does not start any more:"
echo "$lines"
