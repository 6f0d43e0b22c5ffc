// Command caddy is Caddy with its standard modules and the handler funnel: what xcaddy builds.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "funnel/limiter/caddylimit"
)

func main() { caddycmd.Main() }
