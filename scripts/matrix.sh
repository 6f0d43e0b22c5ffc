#!/usr/bin/env bash
# Runs the tests against many servers, or the given ones, with one funnel.so.
#
#   scripts/matrix.sh [SERVER...]
#
# scripts/servers.sh lists the servers. With GOARCH=arm64 on amd64 they are emulated. FUNNEL_TESTS is a regular
# expression that selects tests. The output is in build/matrix.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh
. scripts/compile.sh

# count OUTCOME LOG: counts top-level tests only, whose lines are not indented.
count() { grep -c "^--- $1" "$2" || true; }

# failures LOG: prints the output of failed tests, and of a test binary that died.
failures() {
    awk '/^=== RUN +[^\/]*$/ { test = "" }
        { test = test $0 "\n" }
        /^--- FAIL/ { printf "%s", test }
        /^--- / { test = "" }
        END { if (test ~ /panic:|fatal error:/) printf "%s", test }' "$1"
}

# The test programs are the same for all servers, so they are linked once, into build/matrix.
compile_tests() {
    on_this_machine go test -vet=off -c -o build/matrix/ . ./limiter
    on_this_machine go -C test test -vet=off -c -o ../build/matrix/ ./command ./model ./process ./replication
}

# run FOLDER TESTS PATTERN: runs the tests of a folder.
run() {
    echo "$1"
    on_this_machine env -C "$1" "$PWD/build/matrix/$2.test" -test.v -test.timeout 10m -test.run "$3"
}

# Of the client's tests, these are the tests of the script, which also runs in the server.
run_tests() {
    local code=0 package
    run . funnel "${FUNNEL_TESTS-}" || code=$?
    run limiter limiter "${FUNNEL_TESTS-Script}" || code=$?
    for package in command model process replication; do
        run "test/$package" "$package" "${FUNNEL_TESTS-}" || code=$?
    done
    return $code
}

need_compilers
servers=$(FUNNEL_ARCHITECTURE=$(go env GOARCH) scripts/servers.sh "$@")
compile_for_tests
mkdir -p build/matrix
compile_tests
broken=
printf '%-16s %-10s %7s %7s %7s %7s\n' server version passed failed skipped seconds
while IFS=$'\t' read -r name version server <&3; do
    if [ "$version" = - ]; then
        printf '%-16s %-10s %s\n' "$name" - "$server"
        continue
    fi
    log=build/matrix/$name.log
    start=$SECONDS
    code=0
    FUNNEL_SERVER=$server run_tests >"$log" 2>&1 </dev/null || code=$?
    failed=$(count FAIL "$log")
    # A test binary that dies prints no line for the test that killed it.
    [ "$code" = 0 ] || [ "$failed" != 0 ] || failed=died
    printf '%-16s %-10s %7s %7s %7s %7s\n' "$name" "$version" \
        "$(count PASS "$log")" "$failed" "$(count SKIP "$log")" $((SECONDS - start))
    [ "$code" = 0 ] || broken+=" $log"
done 3<<<"$servers"
[ -n "$broken" ] || exit 0
for log in $broken; do
    printf '\n%s\n' "$log"
    failures "$log"
done
die "tests failed, see$broken"
