# Redis, or Valkey, with funnel preloaded:
#
#   docker build -t funnel .
#   docker build -t funnel --build-arg BASE=valkey/valkey:9 .
#   docker build -t funnel --build-arg BASE=redis:8-alpine .
#
# Nothing here needs BuildKit, so any docker can build it.

# Debian bookworm has the oldest glibc among the images that BASE may name. A newer glibc
# runs programs that were built for an older one. So does Alpine's musl.
ARG GO_IMAGE=golang:1.26.8-bookworm
ARG BASE=redis:8

FROM ${GO_IMAGE} AS build
WORKDIR /src
# .dockerignore lists what is copied. funnel.so needs only Go's own library: no modules.
COPY . .
ARG COMMIT=
ARG VERSION=
RUN GOPROXY=off FUNNEL_COMMIT=$COMMIT FUNNEL_TAG=v$VERSION ./build.sh build

FROM ${BASE}
COPY --from=build /src/funnel.so /usr/local/lib/redis/funnel.so
COPY image/funnel-entrypoint.sh image/funnel-healthcheck.sh /usr/local/bin/
# BASE, and its entrypoint, which this one calls, set everything else (/data, the port, the
# user). There is no CMD, because its name would depend on BASE: without a command, the entrypoint starts the server.
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
