#!/bin/sh
# The official images compile their servers with protected mode off; Debian does not.
# The option follows all others, like the modules in the Redis image.

# With this PATH, the server is called by its plain name. It shows that name, and is a sentinel if the name says so.
PATH=/usr/bin:$PATH
# --test-memory takes no options.
[ "${1-}" != --test-memory ] || exec "${0##*/}" "$@"
exec "${0##*/}" "$@" --protected-mode no
