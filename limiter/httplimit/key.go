package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strings"
)

// A KeyFunc returns the key of a request: requests with the same key share a funnel.
// Write your own for other keys, such as the account that your authentication has
// found. It must be safe for concurrent use.
//
// Redis keeps one funnel for each key that has taken tokens within the time in which a
// funnel drains. A client that can choose any key is not limited, and fills the memory.
type KeyFunc func(*http.Request) string

// ByIP keys by the address of the client: that of the peer, or, when the peer is one
// of the trusted proxies, the one in X-Forwarded-For. It is
// [ClientIP]{Trusted: trusted}.Key; see there.
func ByIP(trusted ...netip.Prefix) KeyFunc { return ClientIP{Trusted: trusted}.Key }

// ByHeader keys by the value of a header, such as X-Api-Key; of several values, by
// the first. Redis gets a hash of it (128 bits of SHA-256), which bounds its length
// and keeps secrets out of MONITOR, SLOWLOG and backups.
//
// Requests without the header, or with an empty one, are keyed by absent, such as
// ByIP(); if it is nil they share one funnel.
//
// A client can send any value in a header that is not verified, and each value has a
// funnel of its own: authenticate in front of the middleware, or limit by address, too.
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
// "GET /users/{id}": there are as many keys as routes. The pattern is known only
// inside the mux, so the middleware must be around the handlers of routes; around the
// mux itself, and under routers that do not set [http.Request].Pattern before it,
// all requests share one funnel.
func ByPattern() KeyFunc {
	return func(r *http.Request) string { return escape(r.Pattern) }
}

// ByPath keys by the path of the URL, hashed when it is longer than 64 bytes.
//
// The client chooses the path. Use it where paths that do not exist are answered in
// front of the middleware. One resource may have several paths: /a, //a and /a/.
// [ByPattern] has neither problem.
func ByPath() KeyFunc {
	return func(r *http.Request) string {
		if len(r.URL.Path) > longestPath {
			return digest(r.URL.Path)
		}
		return escape(r.URL.Path)
	}
}

const longestPath = 64

// ByHost keys a request that a [Transport] sends by the host that it goes to, such as
// "api.example.com": in lower case, and with the port where it is not that of the scheme.
func ByHost() KeyFunc {
	return func(r *http.Request) string {
		host := strings.ToLower(r.URL.Host)
		switch r.URL.Scheme {
		case "http":
			host = strings.TrimSuffix(host, ":80")
		case "https":
			host = strings.TrimSuffix(host, ":443")
		}
		return escape(host)
	}
}

// Join keys by all of the keys together: Join(ByIP(), ByPattern()) is a funnel for
// each address at each route. Different lists of keys are different keys, whatever is in them.
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

// escape replaces braces: in a cluster they mark the part of a key that decides on its
// slot, and all routes with {id} would be in one, or in one that a client chooses.
func escape(text string) string { return braces.Replace(text) }

var braces = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}
