#!/bin/sh
# Says what would keep the server from starting without funnel.so. It changes
# nothing. dpkg calls it before a removal, with the word remove; rpm afterwards, with the
# number of versions that stay; apk afterwards, with the version. Upgrades are no removals.

case ${1-} in upgrade | failed-upgrade | deconfigure | 1) exit 0 ;; esac
echo "@NAME@: the server does not start any more with the line loadmodule @FOLDER@/funnel.so: take it out"
