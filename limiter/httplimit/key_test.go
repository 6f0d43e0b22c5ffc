// Each key tells apart what has a funnel of its own, and is the same however a request writes it.

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/limiter/httplimit"
)

func TestByHeader(t *testing.T) {
	key := httplimit.ByHeader("x-api-KEY", httplimit.ByIP())
	of := func(values ...string) string {
		r := from("192.0.2.1")
		r.Header["X-Api-Key"] = values
		return key(r)
	}
	require.Equal(t, "192.0.2.1", of())
	require.Equal(t, "192.0.2.1", of(""))
	require.Regexp(t, `^x-api-key:[0-9a-f]{32}$`, of("secret"))
	require.Equal(t, of("secret"), of("secret", "another"), "as Header.Get has it")
	require.NotEqual(t, of("secret"), of("secreT"))
	require.Len(t, of(strings.Repeat("x", 1<<20)), len(of("x")))
	require.Equal(t, "x-api-key:", httplimit.ByHeader("X-Api-Key", nil)(from("192.0.2.1")))
}

func TestByPattern(t *testing.T) {
	var key string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(_ http.ResponseWriter, r *http.Request) { key = httplimit.ByPattern()(r) })
	ask(mux, httptest.NewRequest(http.MethodGet, "/users/1", nil))
	first := key
	require.Equal(t, "GET /users/%7Bid%7D", first, "no braces, which are hash tags in a cluster")
	ask(mux, httptest.NewRequest(http.MethodGet, "/users/2", nil))
	require.Equal(t, first, key)
	require.Empty(t, httplimit.ByPattern()(httptest.NewRequest(http.MethodGet, "/users/2", nil)), "outside of the mux")
}

func TestByPath(t *testing.T) {
	of := func(path string) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		return httplimit.ByPath()(r)
	}
	require.Equal(t, "/users/1", of("/users/1"))
	require.Equal(t, "/%7Ba%7D%25", of("/{a}%"))
	long := "/" + strings.Repeat("x", 63)
	require.Equal(t, long, of(long))
	require.Len(t, of(long+"x"), 32)
	require.NotEqual(t, of(long+"x"), of(long+"y"))
}

// However a URL writes a host, its requests share a funnel. Other ports and hosts have others.
func TestByHost(t *testing.T) {
	for want, urls := range map[string][]string{
		"api.example.com": {"http://api.example.com", "http://API.Example.com:80/", "https://api.example.com:443",
			"http://api.example.com.", "http://api.example.com.:080", "http://api.example.com:", "https://api.example.com:00443"},
		"api.example.com:8080":  {"http://api.example.com:8080", "https://api.example.com.:08080"},
		"api.example.com:80":    {"https://api.example.com:80"},
		"api.example.com:443":   {"http://api.example.com:443"},
		"2001:db8::1":           {"http://[2001:db8::1]", "http://[2001:0DB8:0:0::0001]:80", "http://[2001:db8::0.0.0.1]"},
		"[2001:db8::1]:8080":    {"http://[2001:db8::1]:8080", "http://[2001:DB8::0001]:08080"},
		"192.0.2.1":             {"http://192.0.2.1", "http://[::ffff:192.0.2.1]", "http://[::ffff:c000:201]:80"},
		"fe80::1%25eth0":        {"http://[fe80::1%25eth0]", "http://[fe80:0::01%25eth0]:80"},
		"xn--bcher-kva.example": {"http://xn--bcher-kva.example", "http://XN--bcher-KVA.example."},
		"non-ascii":             {"http://non-ASCII"},
		"non-ASCII": {"http://bücher.example", "http://ａｐｉ.example.com", "http://api。example．com｡:80",
			"http://%EF%BD%81pi.example.com", "http://１92.0.2.1"},
	} {
		for _, text := range urls {
			r, err := http.NewRequest(http.MethodGet, text, nil)
			require.NoError(t, err)
			require.Equal(t, want, httplimit.ByHost()(r), text)
		}
	}
}

// Two lists of keys are one key only if they are the same.
func TestJoinKeepsKeysApart(t *testing.T) {
	join := func(parts ...string) string {
		var keys []httplimit.KeyFunc
		for _, part := range parts {
			keys = append(keys, func(*http.Request) string { return part })
		}
		return httplimit.Join(keys...)(nil)
	}
	require.Equal(t, "a|b", join("a", "b"))

	parts := []string{"", "a", "|", "||", "a|", "|a", "%", "%7C", "%25", "%257C", "%7", "C", "7C", "25"}
	seen := map[string][]string{}
	add := func(list ...string) {
		joined := join(list...)
		require.Nilf(t, seen[joined], "%q and %q are one", list, seen[joined])
		seen[joined] = list
	}
	for _, first := range parts {
		add(first)
		for _, second := range parts {
			add(first, second)
			for _, third := range parts {
				add(first, second, third)
			}
		}
	}
}
