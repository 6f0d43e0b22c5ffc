# shellcheck shell=sh
# Part of both scripts. The server's user may write its configuration: only regular files are
# read, and of those a megabyte of printable characters.

# directives NAME FILE: prints the lines of the file with that directive, without quotes.
directives() {
    [ ! -f "$2" ] || timeout 5 head -c 1000000 "$2" | tr -cd '[:print:]\t\n' |
        sed -e "s/[\"']//g" -e 's/^[[:blank:]]*//' | grep -i "^$1[[:blank:]]" || true
}

# real PATH: without symbolic links, // and the like.
real() { readlink -f "$1" || printf '%s\n' "$1" | sed 's|//*|/|g'; }

# loads FILE...: prints the lines that load the module, however they spell its path.
loads() {
    for file; do
        directives loadmodule "$file" | while read -r _ path arguments; do
            [ "$(real "$path")" != "$(real "@FOLDER@/funnel.so")" ] ||
                printf '%s:loadmodule %s\n' "$file" "$path${arguments:+ $arguments}"
        done
    done | tr -cd '[:print:]\n'
}

