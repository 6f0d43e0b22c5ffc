#!/usr/bin/env bash
# Runs tests of the contract, and the fuzzer, with a tool that watches every
# access to memory:
#
#   scripts/sanitize.sh asan       AddressSanitizer: the module's C side, fast
#   scripts/sanitize.sh memcheck   Valgrind: every instruction, slow
#
# Fails if a test fails or the tool complains; the tool's reports are in
# build/sanitize. FUNNEL_SERVER and FUNNEL_FUZZ_TIME have their usual meaning.
# The server must be a program, not a script, and use this system's C library.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh
. scripts/compile.sh

# watch COMMAND: makes a server that runs under the tool.
watch() {
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$1" "$server" >"$folder/server"
    chmod +x "$folder/server"
}

need_compilers
tool=${1-}
[[ $tool = asan || $tool = memcheck ]] || die "usage: scripts/sanitize.sh asan|memcheck"
server=${FUNNEL_SERVER:-$(command -v redis-server || command -v valkey-server)} || die "redis-server is missing"
folder=$PWD/build/sanitize/$tool
rm -rf "$folder"
mkdir -p "$folder"

case $tool in
asan)
    # The library must come before the server's allocator, to replace it. A server
    # frees nothing when it ends: these are not leaks.
    library=$(readlink -f "$("$(go env CC)" -print-file-name=libasan.so)")
    [ -e "$library" ] || die "libasan is missing: apt-get install gcc"
    # Not -asan: the Go side would call the sanitizer's part of the Go runtime.
    export CGO_CFLAGS='-g -O1 -fno-omit-frame-pointer -fsanitize=address'
    export CGO_LDFLAGS=-fsanitize=address
    watch "env LD_PRELOAD=$library ASAN_OPTIONS=detect_leaks=0:log_path=$folder/report"
    ;;
memcheck)
    command -v valgrind >/dev/null || die "valgrind is missing: apt-get install valgrind"
    watch "valgrind --quiet --read-inline-info=no --child-silent-after-fork=yes --suppressions=$PWD/scripts/noise.supp --log-file=$folder/report.%p"
    ;;
esac
compile "$folder/funnel.so"
compile "$folder/funnel-debug.so" -tags funneldebug

unset CGO_CFLAGS CGO_LDFLAGS
FUNNEL_SERVER=$folder/server FUNNEL_MODULE=$folder/funnel.so FUNNEL_DEBUG_MODULE=$folder/funnel-debug.so \
    FUNNEL_FUZZ_TIME=${FUNNEL_FUZZ_TIME:-20s} go -C test test -count=1 -timeout 10m -v \
    -run '^Test(Errors|Keys|Values|BadArg|Nothing|Unload|In|Both|NoInput)' ./command ./model ./process | tee "$folder/test.log" | grep -E '^---|steps,|^(ok|FAIL)'

# Valgrind makes a file for each server. An empty one is no complaint.
complaints=$(find "$folder" -name 'report*' -size +0)
[ -z "$complaints" ] || die "$tool complains:" "$complaints"
