#!/usr/bin/env bash
# Builds the image, labelled with version and commit, with options of docker build:
#
#   scripts/image.sh NAME [OPTION...]
#   scripts/image.sh funnel --build-arg BASE=valkey/valkey:9

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh
. scripts/compile.sh

[ $# -gt 0 ] || die "usage: scripts/image.sh NAME [OPTION...]"
need_docker
docker build --tag "$1" --build-arg VERSION="$(version)" --build-arg COMMIT="$(commit)" "${@:2}" .
