#!/usr/bin/env bash
# The entry to every routine of funnel: ./build.sh help lists them. The longer routines are in scripts/.

# For `sh build.sh`, where sh is another shell.
if [ -z "${BASH_VERSION-}" ]; then
    command -v bash >/dev/null || { echo "build.sh: bash is missing: install it (apt-get install bash)" >&2; exit 1; }
    exec bash "$0" "$@"
fi

set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" >/dev/null
# The path of a server is relative to the caller's folder, but everything below runs here.
[[ ${FUNNEL_SERVER-} != [!/]*/* ]] || export FUNNEL_SERVER=$OLDPWD/$FUNNEL_SERVER
. scripts/common.sh
. scripts/compile.sh

# Each of these folders has a go.mod of its own, so importers of limiter do not inherit its requirements. ./build.sh test
# runs the tests of the first list. The others compile large libraries, and have a stage of .ci/run each.
tested_modules=(cmd/funnel-link test)
nested_modules=("${tested_modules[@]}" cmd/funnel-ratelimit examples/monitoring limiter/caddylimit limiter/grpclimit)

help() {
    cat <<'HELP'
usage: ./build.sh COMMAND

  build               make funnel.so
  run [ARGUMENT...]   build, then start a server with it on port 6379, or PORT;
                      arguments follow the module on the server's command line:
                      ./build.sh run compat redis-cell --io-threads 4
  test                build, then run the tests, except for those that take long:
                      .ci/run runs them all
  check               check formats, and run vet, staticcheck, actionlint and shellcheck
  matrix [SERVER...]  run the tests against many servers, or the given ones, with one
                      funnel.so; servers are kept in a cache; with GOARCH=arm64 on
                      amd64, qemu-user emulates them; FUNNEL_TESTS is a regular
                      expression that selects tests
  bench [OPTION...]   measure what a call costs, compared with other ways to limit a
                      rate; ./build.sh bench -help lists the options
  dist                pack a release: dist/funnel-VERSION-linux-ARCHITECTURE.tar.gz,
                      packages for Redis and Valkey (deb, rpm, and apk on amd64), and
                      dist/SHA256SUMS; the same sources make the same bytes
  clean               remove everything that was built, except the cache of servers
  help                show this text

run, test and bench use redis-server or valkey-server, and install one if they are
allowed to; FUNNEL_SERVER names another. bench installs valgrind, too.

CC, CGO_CFLAGS, GOARCH, GOFLAGS and the other variables of Go and cgo have their usual
meaning:

  GOARCH=arm64 CC=aarch64-linux-gnu-gcc ./build.sh build
HELP
}

build() {
    need_compilers
    compile funnel.so
}

run() {
    local port=${PORT:-6379} cli=redis-cli
    if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || [ "$port" -gt 65535 ]; then
        die "PORT must be a number from 1 to 65535, not '$port'"
    fi
    need_compilers
    need_server
    if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
        die "port $port is taken, perhaps by another Redis: stop it (systemctl stop redis-server), or choose another port, as in PORT=7379 ./build.sh run"
    fi
    # The first build also compiles Go's library, and would seem to hang without this line.
    echo "building funnel.so" >&2
    compile funnel.so
    has redis-cli || cli=valkey-cli
    [ "$port" = 6379 ] || cli+=" -p $port"
    echo "try it, from another terminal: $cli cl.throttle user:42 15 30 60"
    # The server is for trying out: only this machine reaches it, and it saves nothing.
    exec "$FUNNEL_SERVER" --port "$port" --bind 127.0.0.1 -::1 --dir "$PWD/build" --save '' --loadmodule "$PWD/funnel.so" "$@"
}

check() {
    local unformatted unpinned module
    need_compilers
    unformatted=$("$(go env GOROOT)/bin/gofmt" -l .)
    [ -z "$unformatted" ] || die "not formatted as gofmt does it: gofmt -w" "$unformatted"
    # A tag can be moved to another commit.
    unpinned=$(grep -nE '^[^#]*uses: ' .github/workflows/* | grep -vE 'uses: (\./|[^@ ]+@[0-9a-f]{40} # v[0-9])') || true
    [ -z "$unpinned" ] || die "not pinned, as in actions/checkout@COMMIT # v1.2.3:" "$unpinned"
    on_this_machine go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 .github/workflows/*
    # staticcheck is a tool of the tests' module, and checks all modules.
    on_this_machine go -C test build -o ../build/staticcheck honnef.co/go/tools/cmd/staticcheck
    for module in . "${nested_modules[@]}"; do
        echo "checking $module"
        (cd "$module" && go vet ./... && "$OLDPWD/build/staticcheck" ./...)
    done
    go vet -tags funneldebug ./module
    echo "checking the scripts and the C code"
    if has shellcheck; then
        find . -path ./build -prune -o \( -name '*.sh' -o -path ./.ci/run \) -type f -exec shellcheck -x {} +
    else
        echo "shellcheck is not installed: the scripts are not checked" >&2
    fi
    # Versions of clang-format format differently: 14 is the version of Debian bookworm.
    if has clang-format && [[ $(clang-format --version) = *' version 14.'* ]]; then
        clang-format --dry-run --Werror module/*.[ch] test/bench/marker/*.c ||
            die "not formatted as clang-format does it: clang-format -i module/*.[ch] test/bench/marker/*.c"
    else
        echo "clang-format 14 is not installed: the format of the C code is not checked" >&2
    fi
}

# shellcheck disable=SC2086 # flags have no spaces
run_tests() {
    local flags others code=0
    need_compilers
    download_modules &
    need_server
    echo "building, then testing: two to four minutes, with empty caches up to six"
    mkdir -p build # a fresh clone has none
    rm -f build/modules.log
    tell_what_it_does &
    trap 'kill '"$!" EXIT
    doing "building funnel.so"
    compile_for_tests
    # Go's cache of test results does not know that the tests depend on funnel.so: -count=1.
    # Vet takes a quarter of the time, and check runs it. -w leaves out data for debuggers.
    flags='-count=1 -timeout 10m -vet=off -ldflags=-w'
    echo "testing, on $("$FUNNEL_SERVER" --version)"
    # Two runs of go test at the same time would both compile what they share.
    doing "compiling the client"
    go build ./limiter/... ./internal/...
    # Many tests wait for servers, so the modules' tests run beside the others.
    test_modules $flags >build/modules.log 2>&1 &
    others=$!
    doing "compiling and testing"
    go test $flags ./... || code=$?
    doing "waiting for the modules that are tested beside"
    wait "$others" || code=$?
    cat build/modules.log
    return "$code"
}

# doing WHAT: says what run_tests does from now on.
doing() {
    echo "$1"
    echo "$1" >build/doing
}

# Says within each half minute what run_tests does: with empty caches, go test compiles for minutes without a word.
tell_what_it_does() {
    local teller=
    trap 'kill "$teller" 2>/dev/null' EXIT
    while true; do
        sleep 25 >/dev/null 2>&1 & # it keeps no pipe open
        teller=$!
        wait "$teller" || return 0
        echo "... after $SECONDS s: $(<build/doing); beside it: $(tail -n 1 build/modules.log 2>/dev/null || true)"
    done
}

# Downloads the requirements of the tests, while funnel.so is built.
download_modules() {
    local module
    for module in . "${tested_modules[@]}"; do
        go -C "$module" mod download || true # the test says why
    done
}

test_modules() {
    local module code=0
    for module in "${tested_modules[@]}"; do
        echo "testing $module"
        go -C "$module" test "$@" ./... || code=$?
    done
    return "$code"
}

bench() {
    need_compilers
    need_server
    need_package valgrind
    compile_for_tests
    go -C test build -o ../build/funnel-bench ./bench/funnel-bench
    # Not go run, which hides the exit code and does not pass on Ctrl-C.
    exec build/funnel-bench "$@"
}

dist() {
    local arch
    need_compilers
    arch=$(go env GOARCH)
    [ "$(go env GOOS)" = linux ] || die "GOOS is '$(go env GOOS)': releases are for linux"
    compile "build/funnel-$arch.so"
    release/pack.sh "build/funnel-$arch.so" "$arch"
}

command=${1-help}
[ $# = 0 ] || shift
case $command in
run | bench) "$command" "$@" ;;
matrix) exec scripts/matrix.sh "$@" ;;
build | test | check | dist | clean | help | -h | --help)
    [ $# = 0 ] || die "$command takes no arguments, but got: $*"
    case $command in
    build | check | dist) "$command" ;;
    test) run_tests ;;
    clean) rm -rf build dist funnel.so ;;
    *) help ;;
    esac
    ;;
*)
    echo "build.sh: there is no command '$command'" >&2
    help >&2
    exit 2
    ;;
esac
