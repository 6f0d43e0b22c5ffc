// Package caddylimit limits the requests of a Caddy server, exactly, over any number of Caddys that
// share a Redis or Valkey server. It is a module of Caddy: import it for its effect. docs/caddy.md
// is for its users.
//
// # The parts
//
// [App], which Caddy calls funnel, has the settings of Redis: one for all handlers of a
// configuration. [Handler], http.handlers.funnel, has policies. It asks about all policies that
// apply to a request in one call: they take all, or none. A Caddyfile has both, as a global option
// and as a directive of the same name.
//
// # Through reloads
//
// A reload makes new Apps and Handlers. The [limiter.Limiter] and its connections stay, as long as
// the settings of Redis stay: with them stays what a process knows alone, such as its leases, its
// breaker, and what it has granted while Redis was down. Slots are held by requests, which end in
// the configuration that they began in.
package caddylimit
