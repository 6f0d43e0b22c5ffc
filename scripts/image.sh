# Builds the image: functions. Source this file after common.sh and compile.sh.
# shellcheck shell=bash

need_docker() {
    has docker || die "docker is missing: install it (apt-get install docker.io)"
    docker info >/dev/null 2>&1 ||
        die "docker does not answer: start its daemon (systemctl start docker), and be root or a member of the group docker"
}

# build_image NAME [OPTION...]
build_image() {
    docker build --tag "$1" --build-arg VERSION="$(version)" --build-arg COMMIT="$(commit)" "${@:2}" .
}
