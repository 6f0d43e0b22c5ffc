# Redis, or Valkey, with funnel preloaded:
#
#   docker build -t funnel .
#   docker build -t funnel --build-arg BASE=valkey/valkey:9 .
#   docker build -t funnel --build-arg BASE=redis:8-alpine .
#
# Nothing here needs BuildKit, so that any docker builds it: instead of cache mounts,
# which do, a layer holds what takes longest to compile.

# Debian bookworm has the oldest glibc among the images that BASE may name, and a
# newer one runs what was built for an older. So does musl, which an Alpine has.
ARG GO_IMAGE=golang:1.26.8-bookworm
ARG BASE=redis:8

# Compiles where the build runs, for where the image will, so that nothing is
# emulated. The old builder does not know BUILDPLATFORM; it takes "linux" for its own.
# The first layer holds what does not depend on funnel: the compiler for another
# architecture, and Go's library, compiled as shared libraries want it (as "pie" does),
# and what funnel-finish needs of it, which runs here.
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
# No layer downloads modules: funnel.so needs Go's own library and nothing else.
# .dockerignore lists what is copied.
COPY . .
ARG COMMIT=
RUN set -eu; \
    . ./compiler; \
    CC=$CC GOARCH=$GOARCH GOPROXY=off FUNNEL_COMMIT=$COMMIT ./build.sh build

FROM ${BASE}
COPY --from=build /src/funnel.so /usr/local/lib/redis/funnel.so
COPY image/funnel-entrypoint.sh image/funnel-healthcheck.sh /usr/local/bin/
# What else a container needs to know (/data, the port, the user) is said by BASE, and
# by its entrypoint, which this one calls. There is no CMD, since its name would
# depend on BASE: the entrypoint starts the server when it is given no command.
ENTRYPOINT ["funnel-entrypoint.sh"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["funnel-healthcheck.sh"]
ARG BASE
ARG VERSION=unknown
ARG COMMIT=unknown
# No label but those whose value is known: who publishes an image adds its source, with
# --label org.opencontainers.image.source=URL.
LABEL org.opencontainers.image.title="funnel" \
      org.opencontainers.image.description="Redis or Valkey with CL.THROTTLE, a rate limiter" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.base.name="${BASE}"
