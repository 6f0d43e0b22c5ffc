#!/bin/sh
# Says what makes the server load this version. dpkg, rpm and apk call it after an
# installation and after an upgrade. It changes nothing.

set -e

configuration=@CONFIGURATION@ drop_in=@DROP_IN@

names_funnel() { grep -iqs '^[[:space:]]*loadmodule[[:space:]].*@FOLDER@/funnel\.so' "$@"; }
reads_drop_in() {
    [ -n "$drop_in" ] && names_funnel "$drop_in" && grep -iqs "^[[:space:]]*include[[:space:]].*${drop_in%/*}/" "$configuration"
}

if reads_drop_in && names_funnel "${configuration%/*}"/*.conf; then
    echo "@NAME@: $drop_in and a file in ${configuration%/*} both load funnel. A server that loads it twice does not start: take one of the lines out."
elif reads_drop_in || names_funnel "${configuration%/*}"/*.conf; then
    echo "@NAME@: a running server loads version @VERSION@ when you restart it: @RESTART@"
else
    echo "@NAME@: to load funnel, add this line to $configuration, and restart the server (@RESTART@):"
    echo "loadmodule @FOLDER@/funnel.so"
fi
