#!/usr/bin/env bash
# The entry to every routine of funnel: ./build.sh help lists them. The longer ones are
# in scripts/.

# For `sh build.sh`, where sh is another shell.
if [ -z "${BASH_VERSION-}" ]; then
    command -v bash >/dev/null || { echo "build.sh: bash is missing: install it (apt-get install bash)" >&2; exit 1; }
    exec bash "$0" "$@"
fi

set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" >/dev/null
# The path of a server is relative to the caller's folder, and everything below runs here.
[[ ${FUNNEL_SERVER-} != [!/]*/* ]] || export FUNNEL_SERVER=$OLDPWD/$FUNNEL_SERVER
. scripts/common.sh
. scripts/compile.sh
. scripts/image.sh

# Each has a go.mod of its own: importers of limiter do not inherit their requirements.
nested_modules=(test examples/monitoring limiter/grpclimit)

help() {
    cat <<'HELP'
usage: ./build.sh COMMAND

  build               make funnel.so
  run [ARGUMENT...]   build, then start a server with it on port 6379, or PORT;
                      arguments follow the module on the server's command line:
                      ./build.sh run compat redis-cell --io-threads 4
  test                check the sources, then run all tests
  matrix [SERVER...]  run the tests against many servers, or the given ones, with one
                      funnel.so; servers are kept in a cache; with GOARCH=arm64 on
                      amd64, qemu-user emulates them; FUNNEL_TESTS is a regular
                      expression that selects tests
  toolchains          build and prove with the oldest Go that go.mod allows, with the
                      one that go.mod names and with the newest, and test each result:
                      FUNNEL_TESTS, by default a few
  bench [OPTION...]   measure what a call costs, compared with other ways to limit a
                      rate; ./build.sh bench -help lists the options
  guard               count instructions per call, and fail if they have risen above
                      test/bench/instructions.txt
  dist                pack a release: dist/funnel-VERSION-linux-ARCHITECTURE.tar.gz,
                      packages for Redis and Valkey (deb, rpm, and apk on amd64), a
                      bill of materials (.cdx.json), and dist/SHA256SUMS; the same
                      sources make the same bytes
  image [OPTION...]   docker build -t funnel, labelled with version and commit:
                      ./build.sh image --build-arg BASE=valkey/valkey:9
  image-test          build the image on stand-ins for the official ones, made of
                      Debian packages, then test it in containers
  clean               remove everything that was built, except the cache of servers
  help                show this text

run, test, bench and guard use redis-server or valkey-server, and install one if they
are allowed to; FUNNEL_SERVER names another. bench and guard install valgrind, too.

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
    # The first build also compiles Go's library, and would seem to hang.
    echo "building funnel.so" >&2
    compile funnel.so
    has redis-cli || cli=valkey-cli
    [ "$port" = 6379 ] || cli+=" -p $port"
    cat <<HINT

Try it, from another terminal:

  $cli cl.throttle user:42 15 30 60
  $cli -r 20 cl.throttle user:42 15 30 60

HINT
    # For trying out: only this machine reaches the server, and nothing is saved.
    exec "$FUNNEL_SERVER" --port "$port" --bind 127.0.0.1 -::1 --dir "$PWD/build" --save '' --loadmodule "$PWD/funnel.so" "$@"
}

check_sources() {
    local unformatted unpinned tags module
    unformatted=$("$(go env GOROOT)/bin/gofmt" -l .)
    [ -z "$unformatted" ] || die "not formatted as gofmt does it: gofmt -w" "$unformatted"
    # A tag can be moved to another commit.
    unpinned=$(grep -nE '^[^#]*uses: ' .github/workflows/* | grep -vE 'uses: (\./|[^@ ]+@[0-9a-f]{40} # v[0-9])') || true
    [ -z "$unpinned" ] || die "not pinned, as in actions/checkout@COMMIT # v1.2.3:" "$unpinned"
    # A tool of the tests' module, which checks all.
    on_this_machine go -C test build -o ../build/staticcheck honnef.co/go/tools/cmd/staticcheck
    for module in . "${nested_modules[@]}"; do
        for tags in '' funneldebug; do
            (cd "$module" && go vet -tags "$tags" ./... && "$OLDPWD/build/staticcheck" -tags "$tags" ./...)
        done
    done
    if has shellcheck; then
        find . -path ./build -prune -o \( -name '*.sh' -o -path ./.ci/run \) -type f -exec shellcheck -x {} +
    else
        echo "shellcheck is not installed: the scripts are not checked" >&2
    fi
    # Versions of clang-format disagree with each other: this is Debian bookworm's.
    if has clang-format && [[ $(clang-format --version) = *' version 14.'* ]]; then
        clang-format --dry-run --Werror module/*.[ch] test/bench/marker/*.c ||
            die "not formatted as clang-format does it: clang-format -i module/*.[ch] test/bench/marker/*.c"
    else
        echo "clang-format 14 is not installed: the format of the C code is not checked" >&2
    fi
}

# What go test says of coverage is a share of all packages, for the tests of each.
without_coverage() { sed -e '/^coverage: /d' -e $'s/\tcoverage: .*//'; }

# coverage PROFILE...: for each package, how many of its statements the tests have run.
coverage() {
    awk '/^mode:/ { next }
        { statements[$1] = $2; ran[$1] += $3 }
        END {
            for (block in statements) {
                package = block
                sub(/\/[^\/]*$/, "", package)
                all[package] += statements[block]
                if (ran[block]) covered[package] += statements[block]
            }
            for (package in all) printf "coverage: %5.1f%%  %s\n", 100 * covered[package] / all[package], package
        }' "$@" | sort -k 3
}

run_tests() {
    local module
    need_compilers
    need_server
    echo "checking the sources"
    check_sources
    echo "building"
    compile_for_tests
    # Go's cache of test results does not know that the tests depend on funnel.so: -count=1.
    echo "testing, on $("$FUNNEL_SERVER" --version)"
    # shellcheck disable=SC2046 # names of packages have no spaces
    go test -count=1 -timeout 10m -coverpkg=./gcra/...,./module/answer -coverprofile=build/coverage-1 \
        $(go list ./... | grep -v /limiter) | without_coverage
    for module in "${nested_modules[@]}"; do
        go -C "$module" test -count=1 -timeout 10m ./...
    done
    echo "testing, with the race detector"
    go test -count=1 -timeout 10m -race -coverpkg=./gcra/...,./limiter/... -coverprofile=build/coverage-2 \
        ./gcra/... ./limiter/... | without_coverage
    coverage build/coverage-1 build/coverage-2
}

bench() {
    need_compilers
    need_server
    need_package valgrind
    compile_for_tests
    go -C test build -o ../build/funnel-bench ./bench/funnel-bench
    # Not go run, which would hide the exit code and get in the way of Ctrl-C.
    exec build/funnel-bench "$@"
}

dist() {
    local arch
    need_compilers
    arch=$(go env GOARCH)
    [ "$(go env GOOS)" = linux ] || die "GOOS is '$(go env GOOS)': releases are for linux"
    compile "build/funnel-$arch.so"
    scripts/pack.sh "build/funnel-$arch.so" "$arch"
}

image() {
    need_docker
    build_image funnel "$@"
}

command=${1-help}
[ $# = 0 ] || shift
case $command in
run | bench | image) "$command" "$@" ;;
matrix) exec scripts/matrix.sh "$@" ;;
build | test | toolchains | guard | dist | image-test | clean | help | -h | --help)
    [ $# = 0 ] || die "$command takes no arguments, but got: $*"
    case $command in
    build | dist) "$command" ;;
    test) run_tests ;;
    guard) bench -guard ;;
    toolchains | image-test) exec "scripts/$command.sh" ;;
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
