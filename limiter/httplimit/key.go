package httplimit

import (
	"net/http"
	"net/netip"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// A KeyFunc returns the key of a request: requests with the same key share a limit. Write your own
// for other keys, such as the account that your authentication has found. A KeyFunc must be safe
// for concurrent use.
//
// Redis keeps each key until its funnel has drained or its period has ended. A client that can
// choose any key is not limited, and fills the memory.
type KeyFunc func(*http.Request) string

// ByIP keys by the address of the client: the address of the peer, or, if the peer is one of the
// trusted proxies, the address in X-Forwarded-For. It returns [ClientIP.Key] of ClientIP{Trusted:
// trusted}.
func ByIP(trusted ...netip.Prefix) KeyFunc { return ClientIP{Trusted: trusted}.Key }

// ByHeader keys by the first value of a header, such as X-Api-Key. Redis gets a hash of the value
// (128 bits of SHA-256), which bounds the length of keys and keeps secrets out of MONITOR, SLOWLOG
// and backups.
//
// A request without the header, or with an empty value, is keyed by absent, such as ByIP(). If
// absent is nil, all such requests share one funnel.
//
// If the header is not verified, a client can send any value, and each value has a funnel of its
// own: authenticate in front of the middleware, or limit by address, too.
func ByHeader(name string, absent KeyFunc) KeyFunc {
	return func(r *http.Request) string {
		value := r.Header.Get(name)
		if value == "" && absent != nil {
			return absent(r)
		}
		return policy.Secret(name, value)
	}
}

// HeaderKey returns the key of [ByHeader] for requests with that value in the header of that name.
func HeaderKey(name, value string) string { return policy.Secret(name, value) }

// LimitKey returns the key of a limit, without the prefix of the Limiter, from the name of a
// policy, the key of a request and the limit: for tools that peek at a limit or reset it.
//
// It is "{NAME:KEY}:KIND", or NAME:KEY:KIND if KEY has a hash tag of its own; KIND is
// [limiter.Limit.Kind]. In NAME, a backslash stands before a backslash or a colon, and braces are
// written \< and \>. Policies of different names, and limits of different kinds, never have the
// same key: a customer may change from a rate to a quota at any time.
func LimitKey(name, key string, limit limiter.Limit) string { return policy.LimitKey(name, key, limit) }

// SlotsKey returns the key of the slots of a policy with [WithSlots], as [LimitKey] does for its
// tokens: KIND is slots. In a cluster both keys are on one node.
func SlotsKey(name, key string) string { return policy.SlotsKey(name, key) }

// ByPattern keys by the pattern that an [http.ServeMux] has matched, such as "GET /users/{id}":
// there are as many keys as routes. The pattern is known only inside the mux, so put the middleware
// around the handlers of routes. Around the mux itself, and with routers that do not set
// [http.Request].Pattern first, all requests share one funnel.
func ByPattern() KeyFunc { return func(r *http.Request) string { return policy.Escape(r.Pattern) } }

// ByPath keys by the path of the URL. A path longer than 64 bytes is hashed.
//
// The client chooses the path: use ByPath only if paths that do not exist are answered in front of
// the middleware. One resource may have several paths: /a, //a and /a/. [ByPattern] has neither
// problem.
func ByPath() KeyFunc { return func(r *http.Request) string { return policy.Path(r.URL.Path) } }

// Join keys by several keys together: Join(ByIP(), ByPattern()) has a funnel for each address at
// each route. Different lists of keys never make the same key.
func Join(keys ...KeyFunc) KeyFunc {
	return func(r *http.Request) string {
		parts := make([]string, len(keys))
		for i, key := range keys {
			parts[i] = key(r)
		}
		return policy.Join(parts)
	}
}
