#!/usr/bin/env bash
# Builds with the oldest Go that go.mod allows, with the Go that go.mod names, and with the
# newest Go that the module proxy has, except for the Go that ./build.sh test uses here.
# Tests each result: FUNNEL_TESTS selects the tests, by default a few.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh
. scripts/compile.sh

# newest_go: prints the last release or release candidate for this machine.
newest_go() {
    go list -m -versions golang.org/toolchain | tr ' ' '\n' |
        sed -n "s/^v0.0.1-\(go1\.[0-9.rc]*\)\.$(go env GOHOSTOS)-$(go env GOHOSTARCH)\$/\1/p" | sort -V | tail -n 1
}

need_compilers
need_server
oldest=go$(sed -n 's/^go //p' go.mod)
named=$(sed -n 's/^toolchain //p' go.mod)
newest=$(newest_go) || die "the module proxy does not list the releases of Go: see above"
mkdir -p build/toolchains
tests=${FUNNEL_TESTS-^Test(Tour|Breaks|File)}
here=$(go env GOVERSION)
for toolchain in "$oldest" "$named" "$newest"; do
    [ "$toolchain" != "$here" ] || { echo "./build.sh test tests with $here" && continue; }
    echo "building and checking with $toolchain"
    export GOTOOLCHAIN=$toolchain
    export FUNNEL_MODULE=$PWD/build/toolchains/$toolchain.so FUNNEL_DEBUG_MODULE=$PWD/build/toolchains/$toolchain-debug.so
    compile "$FUNNEL_MODULE"
    compile "$FUNNEL_DEBUG_MODULE" -tags funneldebug
    go test -count=1 -run "$tests" .
    go -C cmd/funnel-link test -count=1 -run "$tests" .
done
