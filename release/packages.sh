# Makes the packages of a release: functions. Source this file after common.sh and
# compile.sh. release/packages/nfpm.yaml says what is in them.
# shellcheck shell=bash

# write_packages STAGE ARCHITECTURE VERSION DATE: STAGE is a folder with funnel.so, LICENSE
# and changelog.gz. Writes the packages to STAGE/packages.
write_packages() {
    local stage=$1 architecture=$2 version=$3 date=$4 server format nfpm formats=(deb rpm)
    # On arm64, the module does not load with musl.
    [ "$architecture" != amd64 ] || formats+=(apk)
    mkdir "$stage/packages"
    nfpm=$(on_this_machine go -C release/packages tool -n nfpm) # builds it, into Go's cache
    for server in redis valkey; do
        for format in "${formats[@]}"; do
            describe "$server" "$format"
            (cd "$stage" && SOURCE_DATE_EPOCH=$date "$nfpm" package --packager "$format" --target packages/) >/dev/null
        done
    done
}

# describe SERVER FORMAT: fills in the files of release/packages/, for nfpm to read. Where a
# distribution's server reads drop-ins, and leaves them alone when it rewrites its
# configuration, the package brings one: the Valkey of Fedora and of Alpine.
describe() {
    local server=$1 format=$2 package_version=$version title=Redis oldest=6.2.8 epoch=5:
    local folder=/usr/lib/$server/modules configuration=/etc/$server/$server.conf drop_in='' doc=file
    local urgency restart="systemctl restart $server" whose="The package does not change that file: add the line yourself."
    [ "$server" = redis ] || title=Valkey oldest=8 epoch=
    urgency=$(sed -n '/^Urgency: /{s/^Urgency: \([a-z]*\).*/\1/p;q}' CHANGELOG.md) # of the newest release
    case $format in
    deb) restart+=-server ;;
    rpm)
        folder=/usr/lib64/$server/modules doc=doc
        [ "$server" = redis ] || drop_in=/etc/valkey/modules/funnel.conf
        ;;
    apk)
        # Alpine allows neither dev nor words of our own in a version, and numbers of 31 bits.
        package_version=${version/-dev*/-pre$date} restart="rc-service $server restart"
        if [ "$server" = redis ]; then configuration=/etc/redis.conf; else drop_in=/etc/valkey/valkey.d/funnel.conf; fi
        ;;
    esac
    [ -z "$drop_in" ] || whose="The package brings that file. If \`$configuration\` does not include it, add the line there."
    cp release/packages/{README.md,changelog.yaml,drop-in.conf,nfpm.yaml,postinstall.sh,remove.sh} "$stage"
    [ -z "$drop_in" ] || cat release/packages/drop-in.yaml >>"$stage/nfpm.yaml"
    sed -i -e "s|@NAME@|$server-funnel|g" -e "s|@ARCHITECTURE@|$architecture|g" -e "s|@DATE@|$(date -u -d "@$date" +%FT%TZ)|g" \
        -e "s|@VERSION@|$version|g" -e "s|@PACKAGE_VERSION@|$package_version|g" -e "s|@TITLE@|$title|g" \
        -e "s|@SERVER@|$server|g" -e "s|@EPOCH@|$epoch|g" -e "s|@OLDEST@|$oldest|g" -e "s|@FOLDER@|$folder|g" \
        -e "s|@URGENCY@|$urgency|g" -e "s|@DROP_IN@|$drop_in|g" -e "s|@RESTART@|$restart|g" \
        -e "s|@LOADED_FROM@|${drop_in:-$configuration}|g" -e "s|@WHO_ADDS_IT@|$whose|g" -e "s|@DOC@|$doc|g" \
        "$stage"/{README.md,changelog.yaml,drop-in.conf,nfpm.yaml,postinstall.sh,remove.sh}
    # nfpm takes the date of an apk's scripts from their files.
    touch -d "@$date" "$stage"/*
}
