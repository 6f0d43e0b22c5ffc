#!/usr/bin/env bash
# Runs tests of the contract, and the fuzzer, with AddressSanitizer, which watches
# every access to memory of the module's C side.
#
# Fails if a test fails or the sanitizer complains; its reports are in build/sanitize.
# FUNNEL_SERVER and FUNNEL_FUZZ_TIME have their usual meaning. The server must be a
# program, not a script, and use this system's C library.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh
. scripts/compile.sh

need_compilers
tests=$(cd test && tests_named 'Errors|BadArguments|Keys|Stories|Effects|ZCOUNT|BothProtocols|NoCallKeepsMemory|ManySlots|NoInput|Unload' \
    command model process)
server=${FUNNEL_SERVER:-$(command -v redis-server || command -v valkey-server)} || die "redis-server is missing"
folder=$PWD/build/sanitize
rm -rf "$folder"
mkdir -p "$folder"

# The library must be loaded before the server's allocator, to replace it. A server does not free its memory when it
# ends, so leaks are not detected. Little freed memory is kept back, because TestNoCallKeepsMemory measures the process.
options=detect_leaks=0:quarantine_size_mb=1:thread_local_quarantine_size_kb=64:log_path=$folder/report
library=$(readlink -f "$("$(go env CC)" -print-file-name=libasan.so)")
[ -e "$library" ] || die "libasan is missing: apt-get install gcc"
printf '#!/bin/sh\nexec env LD_PRELOAD=%s ASAN_OPTIONS=%s "%s" "$@"\n' "$library" "$options" "$server" >"$folder/server"
chmod +x "$folder/server"
# Not -asan, with which Go code calls the sanitizer's part of the Go runtime.
export CGO_CFLAGS='-g -O1 -fno-omit-frame-pointer -fsanitize=address'
export CGO_LDFLAGS=-fsanitize=address
compile "$folder/funnel.so"
compile "$folder/funnel-debug.so" -tags funneldebug

unset CGO_CFLAGS CGO_LDFLAGS
FUNNEL_SERVER=$folder/server FUNNEL_MODULE=$folder/funnel.so FUNNEL_DEBUG_MODULE=$folder/funnel-debug.so \
    FUNNEL_FUZZ_TIME=${FUNNEL_FUZZ_TIME:-20s} go -C test test -count=1 -timeout 10m -v \
    -run "$tests" ./command ./model ./process | tee "$folder/test.log" | grep -E '^---|steps,|^(ok|FAIL)'

complaints=$(find "$folder" -name 'report*' -size +0)
[ -z "$complaints" ] || die "AddressSanitizer complains:" "$complaints"
