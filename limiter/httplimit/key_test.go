// Each key tells apart what has a funnel of its own, and is the same however a request writes it.

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/limiter/httplimit"
)

func TestByHeader(t *testing.T) {
	r := from("192.0.2.1")
	require.Equal(t, "x-api-key:", httplimit.ByHeader("x-api-KEY", nil)(r), "without the header")
	r.Header["X-Api-Key"] = []string{"secret", "another"}
	require.Equal(t, "x-api-key:2bb80d537b1da3e38bd30361aa855686", httplimit.ByHeader("x-api-KEY", nil)(r), "the first")
}

// Braces are escaped: in a cluster they are hash tags.
func TestByPatternAndPath(t *testing.T) {
	of := func(pattern, path string) (keys [2]string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Pattern, r.URL.Path = pattern, path
		return [2]string{httplimit.ByPattern()(r), httplimit.ByPath()(r)}
	}
	require.Equal(t, [2]string{"GET /users/%7Bid%7D", "/users/1"}, of("GET /users/{id}", "/users/1"))
	require.Equal(t, [2]string{"", "/%7Ba%7D%25"}, of("", "/{a}%"), "outside of the mux")
	long := "/" + strings.Repeat("x", 63)
	require.Equal(t, long, of("", long)[1])
	require.Len(t, of("", long+"x")[1], 32)
	require.NotEqual(t, of("", long+"x"), of("", long+"y"))
}

// However a URL writes a host, its requests share a funnel. Other ports and hosts have others.
func TestByHost(t *testing.T) {
	for want, urls := range map[string][]string{
		"api.example.com": {"http://api.example.com", "http://API.Example.com:80/", "http://api.example.com.:080",
			"http://api.example.com:", "https://api.example.com:443", "https://api.example.com:00443"},
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
	parts := []string{"", "a", "|", "||", "a|", "|a", "%", "%7C", "%25", "%257C", "%7", "C", "7C", "25"}
	seen := map[string][]string{}
	var extend func(list []string, keys []httplimit.KeyFunc)
	extend = func(list []string, keys []httplimit.KeyFunc) {
		for _, part := range parts {
			list, keys := append(list, part), append(keys, func(*http.Request) string { return part })
			joined := httplimit.Join(keys...)(nil)
			require.Nilf(t, seen[joined], "%q and %q are one", list, seen[joined])
			seen[joined] = slices.Clone(list)
			if len(list) < 3 {
				extend(list, keys)
			}
		}
	}
	extend(nil, nil)
}
