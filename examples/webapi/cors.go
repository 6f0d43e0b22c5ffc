package main

import "net/http"

// withCORS lets pages of all sites call the API from a browser. It belongs outside of the limits.
// There, a preflight takes no token: it is a question of the browser before the request of the
// customer, and comes without the API key. And a 429 has the headers, too: without them, a browser
// shows the page neither the status nor Retry-After.
func withCORS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*") // no cookies, so the site does not matter
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
			w.Header().Set("Access-Control-Allow-Headers", apiKeyHeader)
			w.Header().Set("Access-Control-Max-Age", "86400") // seconds in which the browser does not ask again
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Access-Control-Expose-Headers", "Retry-After, RateLimit, RateLimit-Policy, "+
			"X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset")
		next.ServeHTTP(w, r)
	})
}
