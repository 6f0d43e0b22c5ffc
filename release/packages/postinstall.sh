#!/bin/sh
# Says what makes the server load this version. dpkg, rpm and apk call it after an
# installation and after an upgrade. It changes nothing.

set -e

@LOADS@
configuration=@CONFIGURATION@ drop_in=@DROP_IN@
in_drop_in=$(loads "$drop_in")
directives include "$configuration" | grep -q "${drop_in%/*}/" || in_drop_in=
in_folder=$(loads "${configuration%/*}"/*.conf)

if [ -n "$in_drop_in" ] && [ -n "$in_folder" ]; then
    echo "@NAME@: $drop_in and a file in ${configuration%/*} both load funnel. A server that loads it twice does not start: take one of the lines out."
elif [ -n "$in_drop_in$in_folder" ]; then
    echo "@NAME@: a running server loads version @VERSION@ when you restart it: @RESTART@"
else
    echo "@NAME@: to load funnel, add this line to $configuration, and restart the server (@RESTART@):"
    echo "loadmodule @FOLDER@/funnel.so"
fi
