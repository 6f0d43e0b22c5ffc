#!/usr/bin/env bash
# Every routine of funnel has its entry here: ./build.sh help lists them.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")" >/dev/null
top=$PWD

help() {
    cat <<'END'
usage: ./build.sh COMMAND

  build               make funnel.so
  run [ARGUMENT...]   build, then start a server with it on port 6379, or PORT;
                      arguments follow the module on the server's command line:
                      ./build.sh run compat redis-cell --io-threads 4
  test                check the sources, then run all tests
  matrix [SERVER...]  run the integration tests against many servers, or those
                      named, with one funnel.so; servers are kept in a cache;
                      with GOARCH=arm64 on amd64 they are emulated, by qemu-user;
                      FUNNEL_TESTS is a regular expression of the tests to run
  toolchains          build with the oldest Go that go.mod allows, with the one that it
                      names and with the newest, and run FUNNEL_TESTS, by default a
                      few, on what they make
  bench [OPTION...]   measure what a call costs, beside other ways to limit a rate;
                      ./build.sh bench -help lists the options
  guard               count instructions per call, and fail if they have risen over
                      what test/bench/instructions.txt says
  dist                pack a release: dist/funnel-VERSION-linux-ARCHITECTURE.tar.gz,
                      the same bytes from the same sources, and dist/SHA256SUMS
  image [OPTION...]   docker build -t funnel, with version and commit stamped on it:
                      ./build.sh image --build-arg BASE=valkey/valkey:9
  image-test          build the image on stand-ins for the official ones, which are
                      made of Debian packages, then test it in containers
  clean               remove what was built; the cache of servers stays
  help                show this

run, test, bench and guard use redis-server or valkey-server, and install one if they
may; FUNNEL_SERVER names another. bench and guard install valgrind likewise.

CC, CGO_CFLAGS, GOARCH, GOFLAGS and the other variables of Go and cgo mean what they
always do:

  GOARCH=arm64 CC=aarch64-linux-gnu-gcc ./build.sh build
END
}

die() {
    printf 'build.sh: %s\n' "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null; }

need_compilers() {
    local wanted arch cpu cc target install
    wanted="Go $(sed -n 's/^go //p' go.mod) or newer, from https://go.dev/dl/"
    # Go keeps its cache below HOME, which services and containers may lack.
    [ -n "${HOME-}" ] || export HOME=~
    # Where Go's own instructions unpack it; sudo drops that from the PATH.
    has go || PATH=$PATH:/usr/local/go/bin
    has go || die "Go is missing: install $wanted"
    go list -m >/dev/null || die "this Go cannot build funnel, for the reason above: install $wanted"

    # cgo is off by default for another architecture. Nobody checks the processor when
    # the module is loaded, so the code is for all of them.
    export CGO_ENABLED=1 GOAMD64=v1 GOARM64=v8.0
    arch=$(go env GOARCH)
    case $arch in
    amd64) cpu=x86_64 ;;
    arm64) cpu=aarch64 ;;
    *) die "GOARCH is '$arch': funnel is built for amd64 and arm64" ;;
    esac
    install="install gcc (apt-get install gcc libc6-dev; dnf install gcc), or name another compiler in CC"
    [ "$arch" = "$(go env GOHOSTARCH)" ] ||
        install="install one for $arch (apt-get install gcc-${cpu/_/-}-linux-gnu libc6-dev-$arch-cross) and name it (CC=$cpu-linux-gnu-gcc)"

    cc=$(go env CC)
    has "${cc%% *}" || die "the C compiler '$cc' is missing: $install"
    # shellcheck disable=SC2086 # CC may hold options
    target=$($cc -dumpmachine) || die "the C compiler '$cc' does not tell what it compiles for: $install"
    case $target in
    *-musl*) die "the C compiler '$cc' compiles for musl: build on a system with glibc, and the same file loads on both" ;;
    "$cpu"-* | arm64-apple-*) ;;
    *) die "the C compiler '$cc' compiles for $target, but GOARCH is $arch: $install" ;;
    esac
    # Debian's gcc comes without them when recommended packages are left out.
    # shellcheck disable=SC2086 # CC may hold options
    $cc -E -x c - <<<'#include <stdlib.h>' >/dev/null 2>&1 ||
        die "the C compiler '$cc' finds no header files of the C library: $install"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

server_on_path() { command -v redis-server || command -v valkey-server; }

need_server() {
    [ -n "${FUNNEL_SERVER-}" ] || server_on_path >/dev/null || install_server
    # The tests read it, too.
    export FUNNEL_SERVER="${FUNNEL_SERVER:-$(server_on_path)}"
    has "$FUNNEL_SERVER" || die "FUNNEL_SERVER is '$FUNNEL_SERVER', which is no program: name a redis-server or valkey-server"
}

install_server() {
    if has apt-get; then
        root_for redis-server apt-get install redis-server
        apt_install redis-server
        # Debian's service would be on the port that `run` wants, after a reboot.
        ! has systemctl || as_root systemctl -q disable redis-server 2>/dev/null || true
    elif has dnf; then
        root_for redis-server dnf install redis
        # Newer Fedoras have Valkey instead.
        as_root dnf -q -y install redis || as_root dnf -q -y install valkey
    elif has brew; then
        brew install redis
    else
        die "redis-server is missing: install Redis 6.2 or newer, or Valkey, or name one in FUNNEL_SERVER"
    fi
    server_on_path >/dev/null || die "redis-server was installed, but is not in the PATH: name it in FUNNEL_SERVER"
}

# need_package TOOL [PACKAGE]: from the package of that name, or Debian's of another.
need_package() {
    ! has "$1" || return 0
    if has apt-get; then
        root_for "$1" apt-get install "${2-$1}"
        apt_install "${2-$1}"
    elif has dnf; then
        root_for "$1" dnf install "$1"
        as_root dnf -q -y install "$1" </dev/null >/dev/null
    else
        die "$1 is missing: install it"
    fi
}

# root_for TOOL COMMAND...: announces how the tool is going to be installed, or says
# that it cannot be.
root_for() {
    as_root true 2>/dev/null || die "$1 is missing, and only root may install it: sudo ${*:2}"
    echo "$1 is missing: ${*:2}" >&2
}

apt_install() {
    # Fails for any one source that is out of order; the next line tells whether that matters.
    as_root apt-get -qq update </dev/null || true
    # Debian would start a service at once: the variables keep systemd and other inits from it.
    as_root env DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 RUNLEVEL=1 \
        apt-get -qq -y install --no-install-recommends "$1" </dev/null >/dev/null
}

# Prints nothing where the commit is not known: version.h has a word for that.
# FUNNEL_COMMIT tells it to a build without .git, that of the image.
commit() {
    [ -z "${FUNNEL_COMMIT-}" ] || { echo "$FUNNEL_COMMIT"; return; }
    # Without the first test, a copy inside somebody else's repository would name theirs.
    [ -e .git ] && git rev-parse --short=12 HEAD 2>/dev/null || return 0
    [ -z "$(git --no-optional-locks status --porcelain)" ] || echo -dirty
}

# compile OUTPUT [FLAG...]: OUTPUT changes whole or not at all, since a server may have it loaded.
compile() {
    local output=$1 commit flags
    shift
    # Ubuntu's gcc and others protect stacks and formats by default, with functions of
    # glibc that musl lacks.
    flags="$(go env CGO_CFLAGS) -U_FORTIFY_SOURCE -fno-stack-protector"
    commit=$(commit | tr -d '\n')
    [ -z "$commit" ] || flags+=" '-DFUNNEL_COMMIT=\"$commit\"'"
    mkdir -p build
    draft=$(mktemp -d build/draft.XXXXXX)
    trap 'rm -rf "$draft"' EXIT
    CGO_CFLAGS=$flags go build -trimpath -buildvcs=false -buildmode=c-shared "$@" -o "$draft/linked.so" ./cmd/funnel
    on_this_machine go build -o "$draft/funnel-finish" ./cmd/funnel-finish
    "$draft/funnel-finish" "$draft/linked.so" "$draft/funnel.so"
    mv -f "$draft/funnel.so" "$output"
    # What is left is funnel.h, for C programs that call Go: there are none.
    rm -rf "$draft"
}

# on_this_machine COMMAND...: for programs that run here, whatever is being built.
on_this_machine() { GOOS=$(go env GOHOSTOS) GOARCH=$(go env GOHOSTARCH) CGO_ENABLED=0 "$@"; }

compile_for_tests() {
    compile funnel.so
    compile build/funnel-debug.so -tags funneldebug
    export FUNNEL_MODULE=$top/funnel.so FUNNEL_DEBUG_MODULE=$top/build/funnel-debug.so
}

build() {
    need_compilers
    compile funnel.so
}

dist() {
    local arch
    need_compilers
    arch=$(go env GOARCH)
    [ "$(go env GOOS)" = linux ] || die "GOOS is '$(go env GOOS)': releases are for linux"
    compile "build/funnel-$arch.so"
    scripts/pack.sh "build/funnel-$arch.so" "$arch"
}

run() {
    local port=${PORT:-6379} cli
    if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || [ "$port" -gt 65535 ]; then
        die "PORT must be a number from 1 to 65535, not '$port'"
    fi
    need_compilers
    need_server
    if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
        die "port $port is taken, by another Redis perhaps: stop that (systemctl stop redis-server), or choose another port, as in PORT=7379 ./build.sh run"
    fi
    # The first build compiles Go's library, too, and would seem to hang.
    echo "building funnel.so" >&2
    compile funnel.so
    cli=redis-cli
    has redis-cli || cli=valkey-cli
    [ "$port" = 6379 ] || cli+=" -p $port"
    cat <<END

Try it, from another terminal:

  $cli cl.throttle laoqian:reply 15 30 60
  $cli -r 20 cl.throttle laoqian:reply 15 30 60

END
    # For trying out: only this machine is served, and nothing is saved.
    exec "$FUNNEL_SERVER" --port "$port" --bind 127.0.0.1 -::1 --dir "$top/build" --save '' --loadmodule "$top/funnel.so" "$@"
}

check_sources() {
    local unformatted tags
    unformatted=$("$(go env GOROOT)/bin/gofmt" -l .)
    [ -z "$unformatted" ] || die "not formatted as gofmt does it: gofmt -w" "$unformatted"
    for tags in '' funneldebug; do
        go vet -tags "$tags" ./...
        go tool staticcheck -tags "$tags" ./...
    done
    if has shellcheck; then
        find . -path ./build -prune -o \( -name '*.sh' -o -path ./.ci/run \) -type f -exec shellcheck {} +
    else
        echo "shellcheck is not installed: the scripts are not checked" >&2
    fi
}

run_tests() {
    need_compilers
    need_server
    echo "checking the sources"
    check_sources
    echo "building"
    compile_for_tests
    # Go's cache of test results does not know that the tests depend on funnel.so: -count=1.
    echo "testing, on $("$FUNNEL_SERVER" --version)"
    # shellcheck disable=SC2046 # names of packages have no spaces
    go test -count=1 -timeout 10m $(go list ./... | grep -v /limiter)
    echo "testing, for races as well"
    go test -count=1 -timeout 10m -race ./gcra/... ./limiter/...
}

matrix() {
    local servers name version server log start code failed broken=
    need_compilers
    servers=$(FUNNEL_ARCHITECTURE=$(go env GOARCH) scripts/servers.sh "$@")
    compile_for_tests
    # The tests run on this machine, whichever one the servers are for.
    on_this_machine go test -c -o build/integration.test .
    on_this_machine go test -c -o build/limiter.test ./limiter
    mkdir -p build/matrix
    printf '%-16s %-10s %7s %7s %7s %7s\n' server version passed failed skipped seconds
    while IFS=$'\t' read -r name version server <&3; do
        if [ "$version" = - ]; then
            printf '%-16s %-10s %s\n' "$name" - "$server"
            continue
        fi
        log=build/matrix/$name.log
        start=$SECONDS
        code=0
        FUNNEL_SERVER=$server build/integration.test -test.v -test.timeout 10m \
            -test.run "${FUNNEL_TESTS-}" >"$log" 2>&1 </dev/null || code=$?
        # The client's script runs in the server, too.
        FUNNEL_SERVER=$server build/limiter.test -test.v -test.timeout 10m \
            -test.run "${FUNNEL_TESTS-Script}" >>"$log" 2>&1 </dev/null || code=$?
        failed=$(count FAIL "$log")
        # A test binary that dies has no line for the test that killed it.
        [ "$code" = 0 ] || [ "$failed" != 0 ] || failed=died
        printf '%-16s %-10s %7s %7s %7s %7s\n' "$name" "$version" \
            "$(count PASS "$log")" "$failed" "$(count SKIP "$log")" $((SECONDS - start))
        [ "$code" = 0 ] || broken+=" $log"
    done 3<<<"$servers"
    [ -n "$broken" ] || return 0
    for log in $broken; do
        printf '\n%s\n' "$log"
        failures "$log"
    done
    die "tests failed, see$broken"
}

# newest_go: the last release, or candidate for one, that the module proxy has for here.
newest_go() {
    go list -m -versions golang.org/toolchain | tr ' ' '\n' |
        sed -n "s/^v0.0.1-\(go1\.[0-9.rc]*\)\.$(go env GOHOSTOS)-$(go env GOHOSTARCH)\$/\1/p" | sort -V | tail -n 1
}

toolchains() {
    local oldest named newest toolchain
    need_compilers
    need_server
    oldest=$(sed -n 's/^go //p' go.mod)
    named=$(sed -n 's/^toolchain //p' go.mod)
    newest=$(newest_go) || die "the module proxy does not tell which releases of Go there are: see above"
    mkdir -p build/toolchains
    for toolchain in "go$oldest" "$named" "$newest"; do
        echo "building and proving with $toolchain"
        export GOTOOLCHAIN=$toolchain FUNNEL_MODULE=$top/build/toolchains/$toolchain.so FUNNEL_DEBUG_MODULE=$top/build/toolchains/$toolchain-debug.so
        compile "$FUNNEL_MODULE"
        compile "$FUNNEL_DEBUG_MODULE" -tags funneldebug
        go test -count=1 -run "${FUNNEL_TESTS-^Test(Transcript|Errors|Fifteen|Quantity|Replies|Breaches|Finished|DamagedFiles)}" . ./internal/finish
    done
}

bench() {
    need_compilers
    need_server
    need_package valgrind
    compile_for_tests
    go -C test build -o ../build/funnel-bench ./bench/funnel-bench
    # Not go run, which would hide the exit code and stand between it and Ctrl-C.
    exec build/funnel-bench "$@"
}

need_docker() {
    has docker || die "docker is missing: install it (apt-get install docker.io)"
    docker info >/dev/null 2>&1 ||
        die "docker does not answer: start its daemon (systemctl start docker), and be root or a member of the group docker"
}

# build_image NAME [OPTION...]
build_image() {
    docker build --tag "$1" --build-arg VERSION="$(sed -n 's/^#define FUNNEL_VERSION "\(.*\)"/\1/p' module/version.h)" \
        --build-arg COMMIT="$(commit | tr -d '\n')" "${@:2}" .
}

image() {
    need_docker
    build_image funnel "$@"
}

image_test() {
    local base bases=(redis valkey) job jobs=() server='' failed=
    need_docker
    need_compilers
    need_package debootstrap
    docker compose version >/dev/null 2>&1 || need_package docker-compose
    as_root true || die "debootstrap needs root: sudo ./build.sh image-test"
    # Alpine has musl, on which funnel is tried on amd64 alone.
    if [ "$(go env GOHOSTARCH)" = amd64 ]; then
        need_package musl-gcc musl-tools
        need_package make
        server=$(scripts/servers.sh redis-7.0-musl) || die "no server to test the image on Alpine with: ${server##*$'\t'}"
        bases+=(alpine)
    fi
    as_root env PATH="$PATH" HOME="$HOME" FUNNEL_MUSL_SERVER="${server##*$'\t'}" scripts/standins.sh
    for base in "${bases[@]}"; do
        echo "building the image on funnel-standin-$base"
        build_image "funnel-test-$base" --quiet --build-arg GO_IMAGE=funnel-standin-golang \
            --build-arg BASE="funnel-standin-$base" >/dev/null
    done
    # Most of the time they wait for failovers: at once, then.
    for base in "${bases[@]}"; do
        echo "testing funnel-test-$base"
        FUNNEL_IMAGE=funnel-test-$base FUNNEL_IMAGE_BASE=funnel-standin-$base \
            go test -count=1 -timeout 8m -parallel 4 ./test/image/ &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do
        wait "$job" || failed+=" $job"
    done
    [ -z "$failed" ] || die "the image fails its tests, see above"
}

# count OUTCOME LOG: top-level tests only, whose lines are not indented.
count() { grep -c "^--- $1" "$2" || true; }

# failures LOG: what failed tests have printed, and what a dying test binary has.
failures() {
    awk '/^=== RUN +[^\/]*$/ { test = "" }
        { test = test $0 "\n" }
        /^--- FAIL/ { printf "%s", test }
        /^--- / { test = "" }
        END { if (test ~ /panic:|fatal error:/) printf "%s", test }' "$1"
}

clean() { rm -rf build dist funnel.so funnel.h; }

case ${1-help} in
run | matrix | bench | image) "$@" ;;
build | test | toolchains | guard | dist | image-test | clean | help | -h | --help)
    [ $# -le 1 ] || die "$1 takes no arguments, but got: ${*:2}"
    case ${1-help} in
    build) build ;;
    test) run_tests ;;
    toolchains) toolchains ;;
    guard) bench -guard ;;
    dist) dist ;;
    image-test) image_test ;;
    clean) clean ;;
    *) help ;;
    esac
    ;;
*)
    echo "build.sh: there is no command '$1'" >&2
    help >&2
    exit 2
    ;;
esac
