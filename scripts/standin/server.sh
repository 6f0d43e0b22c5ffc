#!/bin/sh
# The official images compile their servers with protected mode off; Debian does not.
# The option follows all others, as the modules do that the Redis image brings.

# Found there, a server is called by its name alone, which is what it shows, and by
# which it knows that it is a sentinel.
PATH=/usr/bin:$PATH
exec "${0##*/}" "$@" --protected-mode no
