package httplimit

import (
	"net/http"
	"net/netip"

	"funnel/limiter/internal/policy"
)

// A KeyFunc returns the key of a request: requests with the same key share a funnel.
// Write your own for other keys, such as the account that your authentication has
// found. It must be safe for concurrent use.
//
// Redis keeps one funnel for each key that has taken tokens within the time in which a
// funnel drains. A client that can choose any key is not limited, and fills the memory.
type KeyFunc func(*http.Request) string

// ByIP keys by the address of the client: the address of the peer, or, if the peer is one
// of the trusted proxies, the address in X-Forwarded-For. It is
// [ClientIP]{Trusted: trusted}.Key; see there.
func ByIP(trusted ...netip.Prefix) KeyFunc { return ClientIP{Trusted: trusted}.Key }

// ByHeader keys by the value of a header, such as X-Api-Key; of several values, by
// the first. Redis gets a hash of it (128 bits of SHA-256), which bounds its length
// and keeps secrets out of MONITOR, SLOWLOG and backups.
//
// Requests without the header, or with an empty one, are keyed by absent, such as
// ByIP(); if absent is nil, they share one funnel.
//
// A client can send any value in a header that is not verified, and each value has a
// funnel of its own: authenticate in front of the middleware, or limit by address, too.
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

// FunnelKey returns the key of the funnel that the middleware of [New] with that name asks for the key of a request,
// without the prefix of its Limiter: for tools that peek at a funnel or reset it.
func FunnelKey(name, key string) string { return policy.Key(name, key) }

// SlotsKeys returns the keys of the funnel and of the slots if the middleware has [WithSlots]. See [FunnelKey].
func SlotsKeys(name, key string) (funnel, slots string) { return policy.SlotsKeys(name, key) }

// ByPattern keys by the pattern that an [http.ServeMux] has matched, such as
// "GET /users/{id}": there are as many keys as routes. The pattern is known only
// inside the mux, so the middleware must be around the handlers of routes; around the
// mux itself, and under routers that do not set [http.Request].Pattern before it,
// all requests share one funnel.
func ByPattern() KeyFunc {
	return func(r *http.Request) string { return policy.Escape(r.Pattern) }
}

// ByPath keys by the path of the URL, hashed when it is longer than 64 bytes.
//
// The client chooses the path. Use it where paths that do not exist are answered in
// front of the middleware. One resource may have several paths: /a, //a and /a/.
// [ByPattern] has neither problem.
func ByPath() KeyFunc {
	return func(r *http.Request) string { return policy.Path(r.URL.Path) }
}

// Join keys by all of the keys together: Join(ByIP(), ByPattern()) is a funnel for
// each address at each route. Different lists of keys are different keys, whatever is in them.
func Join(keys ...KeyFunc) KeyFunc {
	return func(r *http.Request) string {
		parts := make([]string, len(keys))
		for i, key := range keys {
			parts[i] = key(r)
		}
		return policy.Join(parts)
	}
}
