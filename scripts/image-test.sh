#!/usr/bin/env bash
# Builds the image on stand-ins for the official images, which are made of Debian packages. Then tests it in containers.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh
. scripts/compile.sh

need_docker
need_compilers
need_package mmdebstrap
as_root true || die "mmdebstrap needs root: sudo scripts/image-test.sh"

bases=(redis valkey)
server=
# Alpine has musl. On musl, funnel is tested only on amd64.
if [ "$(go env GOHOSTARCH)" = amd64 ]; then
    need_package musl-gcc musl-tools
    need_package make
    server=$(scripts/servers.sh redis-7.0-musl) || die "no server to test the image on Alpine with: ${server##*$'\t'}"
    bases+=(alpine)
fi
as_root env PATH="$PATH" HOME="$HOME" FUNNEL_DEBIAN_MIRROR="${FUNNEL_DEBIAN_MIRROR-}" \
    FUNNEL_MUSL_SERVER="${server##*$'\t'}" scripts/standins.sh

for base in "${bases[@]}"; do
    echo "building the image on funnel-standin-$base"
    scripts/image.sh "funnel-test-$base" --quiet --build-arg GO_IMAGE=funnel-standin-golang \
        --build-arg BASE="funnel-standin-$base" >/dev/null
done

# In parallel, because they spend most of the time waiting.
jobs=()
for base in "${bases[@]}"; do
    echo "testing funnel-test-$base"
    FUNNEL_IMAGE=funnel-test-$base FUNNEL_IMAGE_BASE=funnel-standin-$base FUNNEL_IMAGE_GO=funnel-standin-golang \
        go -C test test -count=1 -timeout 8m -parallel 4 ./release/image &
    jobs+=($!)
done
failed=
for job in "${jobs[@]}"; do
    wait "$job" || failed+=" $job"
done
[ -z "$failed" ] || die "the image fails its tests, see above"
