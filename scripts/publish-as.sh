#!/usr/bin/env bash
# Gives the sources the paths under which they are published. The first run renames the Go
# modules and the image, and has the pages fetch both. Every run has the modules that require
# the main one require its version.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." >/dev/null
. scripts/common.sh
. scripts/compile.sh

[ $# = 2 ] || die "needs the path of the Go module and the name of the image: scripts/publish-as.sh github.com/OWNER/funnel ghcr.io/OWNER/funnel"
export NEW=$1 NEW_IMAGE OLD OLD_IMAGE LONG_IMAGE FOLDERS VERSION
[[ $NEW =~ ^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$ ]] ||
    die "the path of the Go module is '$NEW': it begins with a host, as in github.com/OWNER/funnel"
[[ ! $NEW =~ /v[0-9]+$ ]] ||
    die "the path of the Go module is '$NEW': leave ${BASH_REMATCH[0]} out, modules in folders would need it at the end of theirs"
# Of an owner in capitals, too: no registry takes them.
NEW_IMAGE=$(tr '[:upper:]' '[:lower:]' <<<"$2")
[[ $NEW_IMAGE =~ ^[a-z0-9-]+(\.[a-z0-9-]+)+(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)+$ ]] ||
    die "the name of the image is '$NEW_IMAGE': it begins with a host, as in ghcr.io/OWNER/funnel"

OLD=$(sed -n 's/^module //p' go.mod)
OLD_IMAGE=$(sed -n '/.*{FUNNEL_IMAGE:-\(.*\)}$/{s//\1/p;q;}' compose.yaml)
# The pages have a registry where a short name would not do.
LONG_IMAGE=$OLD_IMAGE
[[ $OLD_IMAGE == */* ]] || LONG_IMAGE=registry.example.com/$OLD_IMAGE
[ -n "$OLD_IMAGE" ] || die "compose.yaml names no image: it needs a line image: \${FUNNEL_IMAGE:-NAME}"
VERSION=v$(version)
VERSION=${VERSION%-dev}

# change PATTERN COMMAND: changes the files that match by a command of perl, which reads each
# as a whole.
change() { git ls-files -z -- "$1" | xargs -0 perl -0777 -pi -e "$2" --; }

# Paths of packages, wherever a text names them: the folder that follows tells them from
# folders of the system.
FOLDERS=$(git ls-files '*.go' | sed -n 's|/.*||p' | sort -u | paste -sd '|' -)
# shellcheck disable=SC2016 # perl expands it
{
    change '*' 's{(?<![\w./@:-])\Q$ENV{OLD}\E/(?=(?:$ENV{FOLDERS}|\.\.\.)(?![\w-]))}{$ENV{NEW}/}g'
    change '*go.mod' 's{^(module |replace |require |\t)(?!\Q$ENV{NEW}\E[/ \n])\Q$ENV{OLD}\E(?=[/ \n])}{$1$ENV{NEW}}mg;
        s{^((?:require |\t)\Q$ENV{NEW}\E(?:/\S+)? )v\S+}{$1$ENV{VERSION}}mg'
    # What goes is a line that ends with the comment, the lines between two, or words within a line.
    change '*.md' 's{^.+<!-- until published -->\n}{}mg; s{^<!-- until published -->\n.*?^<!-- end -->\n\n?}{}msg;
        s{<!-- until published -->.*?<!-- end -->}{}g;
        s{^( +)go mod edit -require=\Q$ENV{OLD}\E\@.* -replace=.*$}{$1go get $ENV{NEW}/limiter}mg;
        s{^( +)docker build -t \Q$ENV{OLD_IMAGE}\E \.$}{$1docker pull $ENV{NEW_IMAGE}}mg;
        s{^( +docker run .*?(?<=[ ]))\Q$ENV{OLD_IMAGE}\E(?= |$)}{$1$ENV{NEW_IMAGE}}mg;
        s{(?<![\w./-])\Q$ENV{LONG_IMAGE}\E(?!\.?[\w/-])}{$ENV{NEW_IMAGE}}g;
        s{^( +docker.compose up .*) --build$}{$1}mg'
    change compose.yaml 's{(FUNNEL_IMAGE:-)\Q$ENV{OLD_IMAGE}\E\}}{$1$ENV{NEW_IMAGE}\}}g; s{^(# .* up .*) --build$}{$1}m'
    change Dockerfile 's{^ *org\.opencontainers\.image\.source=.*\n}{}m;
        s{^(LABEL .*\n)}{$1      org.opencontainers.image.source="https://$ENV{NEW}" \\\n}m'
}
git ls-files -z '*go.mod' | xargs -0 -n 1 go mod edit -fmt
git ls-files -z '*.go' | xargs -0 "$(go env GOROOT)/bin/gofmt" -w
echo "the module is $NEW, and others require $VERSION of it; the image is $NEW_IMAGE"
