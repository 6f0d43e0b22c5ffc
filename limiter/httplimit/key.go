package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strings"
)

// A KeyFunc says whose funnel a request pours into: requests of one key share one.
// Write your own for what is not here, such as the account that your authentication
// has found. It must be safe for use by many goroutines.
//
// Redis keeps one funnel for each key that has poured within the time in which a
// funnel drains. Who can choose keys freely is not limited, and fills the memory.
type KeyFunc func(*http.Request) string

// ByIP keys by the address of the client: that of the peer, or, when the peer is one
// of the trusted proxies, the one that X-Forwarded-For tells. It is
// [ClientIP]{Trusted: trusted}.Key; see there.
func ByIP(trusted ...netip.Prefix) KeyFunc { return ClientIP{Trusted: trusted}.Key }

// ByHeader keys by the value of a header, such as X-Api-Key; of several values, by
// the first. Redis gets a hash of it (128 bits of SHA-256): that bounds its length,
// and keys are often secrets, which MONITOR, SLOWLOG and backups would show.
//
// Requests without the header, or with an empty one, are keyed by absent, such as
// ByIP(); if it is nil they share one funnel.
//
// A header that nobody has verified is the client's choice, and a new value a new
// funnel: authenticate in front of the middleware, or limit by address, too.
func ByHeader(name string, absent KeyFunc) KeyFunc {
	prefix := strings.ToLower(name) + ":"
	return func(r *http.Request) string {
		value := r.Header.Get(name)
		switch {
		case value != "":
			return prefix + digest(value)
		case absent != nil:
			return absent(r)
		default:
			return prefix
		}
	}
}

// ByPattern keys by the pattern that an [http.ServeMux] has matched, such as
// "GET /users/{id}": there are as many keys as routes. The pattern is known inside of
// the mux only, so the middleware must be around the handlers of routes; around the
// mux itself, and under routers that do not set [http.Request].Pattern before it,
// all requests share one funnel.
func ByPattern() KeyFunc {
	return func(r *http.Request) string { return escape(r.Pattern) }
}

// ByPath keys by the path of the URL, hashed when it is longer than 64 bytes.
//
// The client chooses the path. Use it where all others than the paths that exist are
// refused in front of the middleware, and mind that one resource may have several:
// /a, //a and /a/. [ByPattern] has none of these problems.
func ByPath() KeyFunc {
	return func(r *http.Request) string {
		if len(r.URL.Path) > longestPath {
			return digest(r.URL.Path)
		}
		return escape(r.URL.Path)
	}
}

const longestPath = 64

// Join keys by all of the keys together: Join(ByIP(), ByPattern()) is a funnel for
// each address at each route. Different keys stay different however they are spelled.
func Join(keys ...KeyFunc) KeyFunc {
	return func(r *http.Request) string {
		parts := make([]string, len(keys))
		for i, key := range keys {
			parts[i] = separator.Replace(key(r))
		}
		return strings.Join(parts, "|")
	}
}

var separator = strings.NewReplacer("%", "%25", "|", "%7C")

// escape hides braces: in a cluster they say which part of a key decides on its node,
// and all routes with {id} would be on one, or those of a client on one that it picks.
func escape(text string) string { return braces.Replace(text) }

var braces = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}
