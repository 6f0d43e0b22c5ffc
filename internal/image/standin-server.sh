#!/bin/bash
# The official images compile their servers with protected mode off; Debian does not.
# The option follows all others, as the modules do that the Redis image brings.

exec -a "${0##*/}" "/usr/bin/$STANDIN-server" "$@" --protected-mode no
