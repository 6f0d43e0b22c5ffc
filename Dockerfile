# Redis, or Valkey, with funnel preloaded:
#
#   docker build -t funnel .
#   docker build -t funnel --build-arg BASE=valkey/valkey:9 .
#   docker build -t funnel --build-arg BASE=redis:8-alpine .
#
# Nothing here needs BuildKit, so any docker can build it. Cache mounts would need it:
# instead, a layer holds the packages that take longest to compile.

# Debian bookworm has the oldest glibc among the images that BASE may name. A newer glibc
# runs programs that were built for an older one. So does Alpine's musl.
ARG GO_IMAGE=golang:1.26.8-bookworm
ARG BASE=redis:8

# Compiles on the build's own platform, for that of the image, without emulation. The old
# builder does not know BUILDPLATFORM; it takes "linux" for its own. The first layer does
# not depend on funnel. It holds the compiler for another architecture, and Go's library:
# compiled for shared libraries (as "pie" does), and for funnel-finish, which runs here.
FROM --platform=${BUILDPLATFORM:-linux} ${GO_IMAGE} AS build
WORKDIR /src
ARG TARGETARCH
RUN set -eu; \
    native=$(go env GOHOSTARCH); \
    case ${TARGETARCH:-$native} in \
    "$native") echo 'CC=gcc' ;; \
    amd64) echo 'CC=x86_64-linux-gnu-gcc' ;; \
    arm64) echo 'CC=aarch64-linux-gnu-gcc' ;; \
    *) echo "funnel is built for amd64 and arm64, not $TARGETARCH" >&2; exit 1 ;; \
    esac >compiler; \
    echo "GOARCH=${TARGETARCH:-$native}" >>compiler; \
    . ./compiler; \
    [ "$GOARCH" = "$native" ] || { \
        cpu=${CC%%-*}; \
        apt-get update; \
        apt-get install -y --no-install-recommends \
            "gcc-$(echo "$cpu" | tr _ -)-linux-gnu" "libc6-dev-$GOARCH-cross"; \
    }; \
    export CC GOARCH CGO_ENABLED=1; \
    go build -trimpath -buildmode=pie math runtime/cgo slices sync syscall; \
    GOARCH=$native CGO_ENABLED=0 go build debug/elf encoding/hex flag os/exec regexp
# No layer downloads modules: funnel.so needs only Go's own library.
# .dockerignore lists what is copied.
COPY . .
ARG COMMIT=
RUN set -eu; \
    . ./compiler; \
    CC=$CC GOARCH=$GOARCH GOPROXY=off FUNNEL_COMMIT=$COMMIT ./build.sh build

FROM ${BASE}
COPY --from=build /src/funnel.so /usr/local/lib/redis/funnel.so
COPY image/funnel-entrypoint.sh image/funnel-healthcheck.sh /usr/local/bin/
# BASE, and its entrypoint, which this one calls, set everything else (/data, the port, the
# user). There is no CMD, because its name would depend on BASE: without a command, the
# entrypoint starts the server.
ENTRYPOINT ["funnel-entrypoint.sh"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["funnel-healthcheck.sh"]
ARG BASE
ARG VERSION=unknown
ARG COMMIT=unknown
# Only labels with known values.
LABEL org.opencontainers.image.title="funnel" \
      org.opencontainers.image.description="Redis or Valkey with funnel, a rate limiter" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.base.name="${BASE}"
