# Makes funnel.so: functions. Source this file after common.sh.
# shellcheck shell=bash

# The build writes into the checkout. Errors of mkdir and mv would not say what to do.
need_writable_folder() {
    { mkdir -p build && [ -w build ] && [ -w . ]; } 2>/dev/null ||
        die "cannot write to $PWD and its folder build, which are read-only or another user's: copy the sources to a folder of your own and build there"
}

need_compilers() {
    local wanted flags arch cpu cc target install
    need_writable_folder
    wanted="Go $(sed -n 's/^go //p' go.mod) or newer, from https://go.dev/dl/"
    # Go keeps its cache below HOME, which services and containers may lack.
    [ -n "${HOME-}" ] || export HOME=~
    # Go's own instructions unpack it in /usr/local/go, which sudo drops from the PATH.
    has go || PATH=$PATH:${GOROOT:-/usr/local/go}/bin
    has go || die "Go is missing: install $wanted"
    go list -m >/dev/null || die "this Go cannot build funnel, for the reason above: install $wanted"

    # Other flags may turn off checks that the build relies on, such as checks of bounds.
    for flags in gcflags asmflags; do
        [[ $(go env GOFLAGS) != *-$flags* ]] ||
            die "GOFLAGS is '$(go env GOFLAGS)': funnel.so is built without -$flags; leave it out"
    done

    # cgo is off by default for another architecture. The code is for all processors,
    # because nobody checks the processor when the module is loaded.
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
    target=$($cc -dumpmachine) || die "the C compiler '$cc' does not say what it compiles for: $install"
    case $target in
    *-musl*) die "the C compiler '$cc' compiles for musl: build on a system with glibc, and the same file loads on both" ;;
    "$cpu"-*) ;;
    *) die "the C compiler '$cc' compiles for $target, but GOARCH is $arch: $install" ;;
    esac
    # Debian's gcc does not bring the header files unless recommended packages are installed.
    # shellcheck disable=SC2086 # CC may hold options
    $cc -E -x c - <<<'#include <stdlib.h>' >/dev/null 2>&1 ||
        die "the C compiler '$cc' finds no header files of the C library: $install"
}

# git_says prints what git knows of the sources: the commit, its time in seconds since 1970, and its tags. In an archive
# that git has made, such as a download from GitHub, source.txt holds the same. Elsewhere nothing is known.
git_says() {
    # Without the first test, a copy inside another repository would name the commit of that repository.
    if [ -e .git ] && git rev-parse --quiet --verify HEAD >/dev/null 2>&1; then
        printf '%s %s\n' "$(git log -1 --format='%H %ct')" "$(git tag --points-at HEAD | tr '\n' ' ')"
    else
        grep -v '^[$]Format' scripts/source.txt || true
    fi
}

# changed tells whether files differ from those of the commit.
changed() { [ -e .git ] && [ -n "$(git --no-optional-locks status --porcelain 2>/dev/null)" ]; }

# commit prints the commit, or nothing if it is unknown: version.h has a word for that.
# FUNNEL_COMMIT names the commit for a build without .git, such as the build of the image.
commit() {
    local hash
    [ -z "${FUNNEL_COMMIT-}" ] || { echo "$FUNNEL_COMMIT"; return; }
    read -r hash _ < <(git_says) || return 0
    echo "${hash:0:12}$(! changed || echo -dirty)"
}

# commit_time prints the time of the commit, in seconds since 1970, or nothing.
commit_time() {
    local time
    read -r _ time _ < <(git_says) || return 0
    echo "$time"
}

# version prints the version of the sources. It ends in -dev, unless the commit has the tag of that version and nothing
# was changed since. FUNNEL_TAG names the tag for a build without .git.
version() {
    local version tags
    version=$(sed -n 's/^#define FUNNEL_VERSION "\(.*\)"$/\1/p' module/version.h)
    [ -n "$version" ] || die "module/version.h has no line like: #define FUNNEL_VERSION \"1.2.3\""
    read -r _ _ tags < <(git_says) || true
    [ -z "${FUNNEL_TAG-}" ] || tags=$FUNNEL_TAG
    if [[ " $tags " = *" v$version "* ]] && ! changed; then echo "$version"; else echo "$version-dev"; fi
}

# on_this_machine COMMAND...: builds or runs programs for this machine, even if the module is for another one.
on_this_machine() { GOOS=$(go env GOHOSTOS) GOARCH=$(go env GOHOSTARCH) CGO_ENABLED=0 "$@"; }

# compile OUTPUT [FLAG...]: replaces OUTPUT atomically, because a server may have loaded it.
compile() {
    local output=$1 commit version flags draft foreign
    shift
    # Some compilers, such as Ubuntu's gcc, protect stacks and formats by default, with functions
    # of glibc that musl lacks. Each function has its own section: the linker removes unused sections.
    flags="$(go env CGO_CFLAGS) -U_FORTIFY_SOURCE -fno-stack-protector -fno-lto -ffunction-sections -fdata-sections"
    commit=$(commit)
    [ -z "$commit" ] || flags+=" '-DFUNNEL_COMMIT=\"$commit\"'"
    version=$(version)
    [[ $version = *-dev ]] || flags+=" -DFUNNEL_RELEASE"
    mkdir -p build
    draft=$(mktemp -d "$PWD/build/draft.XXXXXX")
    (
        trap 'rm -rf "$draft"' EXIT
        on_this_machine go -C cmd/funnel-link build -o "$draft/funnel-link" .
        # A bare name, because Go's build ID includes it: the bytes must not depend on the folder.
        # -ldflags is last, because the last one counts.
        CC=$(go env CC) FUNNEL_GO=$(sed -n 's/^toolchain //p' go.mod) PATH=$draft:$PATH CGO_CFLAGS=$flags \
            go build -trimpath -buildvcs=false -buildmode=c-shared "$@" -ldflags=-extld=funnel-link -o "$draft/funnel.so" ./cmd/funnel
        # Functions only: AddressSanitizer keeps some variables of runtime/cgo.
        foreign=$(nm "$draft/funnel.so" | grep -icE ' t .*(runtime|cgo)') || true
        [ "$foreign" = 0 ] || die "$output was not linked by funnel-link: it has $foreign functions of the Go runtime"
        # Servers do not load a module without the execute bit.
        chmod +x "$draft/funnel.so"
        mv -f "$draft/funnel.so" "$output"
    )
}

compile_for_tests() {
    compile funnel.so
    compile build/funnel-debug.so -tags funneldebug
    export FUNNEL_MODULE=$PWD/funnel.so FUNNEL_DEBUG_MODULE=$PWD/build/funnel-debug.so
}
