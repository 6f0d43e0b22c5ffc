// Requests that should share a funnel have one key, however they are written. The address of a
// client is the address that the last trusted proxy saw, whatever the client writes into headers.

package httplimit_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/limiter/httplimit"
)

func prefixes(texts ...string) (parsed []netip.Prefix) {
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

func TestClientIP(t *testing.T) {
	client := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8", "fd00::/8")}
	for _, test := range []struct{ name, peer, forwarded, want string }{
		{"a peer", "192.0.2.1:1234", "", "192.0.2.1"},
		{"a peer of IPv6", "[2001:db8:1:2:3:4:5:6]:1234", "", "2001:db8:1:2::/64"},
		{"IPv4 within IPv6", "[::ffff:192.0.2.1]:1234", "", "192.0.2.1"},
		{"a peer with a zone", "[fe80::1:2%eth0]:1234", "", "fe80::/64"},
		{"a peer without a port, as some middleware leaves it", "192.0.2.1", "", "192.0.2.1"},
		{"a peer of IPv6 without a port", "2001:db8::1", "", "2001:db8::/64"},
		{"NAT64", "[64:ff9b::192.0.2.1]:1234", "", "192.0.2.1"},
		{"not NAT64", "[64:ff9b:0:0:0:1:c000:201]:1234", "", "64:ff9b::/64"},
		{"a prefix of a network's own", "[64:ff9b:1::c000:201]:1234", "", "64:ff9b:1::/64"},
		{"no address", "@", "192.0.2.1", "unknown"},
		{"rubbish", "1.2.3:4", "", "unknown"},

		{"no proxy", "11.0.0.1:1", "192.0.2.1", "11.0.0.1"},
		{"behind a proxy within IPv6", "[::ffff:10.0.0.1]:1", "192.0.2.1", "192.0.2.1"},
		{"a proxy with a zone", "[fd00::1%eth0]:1", "192.0.2.1", "192.0.2.1"},
		{"spaces, tabs, nothing", "10.0.0.1:1", " ,192.0.2.1\t,, ,\n", "192.0.2.1"},
		{"IPv6 in brackets", "10.0.0.1:1", "[2001:db8::1]", "2001:db8::/64"},
		{"IPv6 in brackets, with a port", "10.0.0.1:1", "[2001:db8::1]:4711", "2001:db8::/64"},
		{"IPv4 within IPv6, behind a proxy", "10.0.0.1:1", "::ffff:192.0.2.1", "192.0.2.1"},
		{"NAT64 behind a proxy", "10.0.0.1:1", "64:ff9b::c000:201", "192.0.2.1"},
		{"NAT64 of the address of a proxy is no proxy", "[64:ff9b::10.0.0.1]:1", "192.0.2.1", "10.0.0.1"},
		{"half a bracket", "10.0.0.1:1", "[2001:db8::1", "10.0.0.1"},
		{"all are proxies", "10.0.0.1:1", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
		{"an empty header", "10.0.0.1:1", "", "10.0.0.1"},
		{"the proxy does not know", "10.0.0.1:1", "192.0.2.1, unknown", "10.0.0.1"},
		{"the second proxy does not know", "10.0.0.1:1", "192.0.2.1, unknown\n10.0.0.2", "10.0.0.2"},
		{"31 proxies", "10.0.0.1:1", "192.0.2.1" + strings.Repeat(", 10.0.0.2", 31), "192.0.2.1"},
		{"too many proxies", "10.0.0.1:1", "192.0.2.1" + strings.Repeat(", 10.0.0.2", 32), "10.0.0.2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr, r.Header["X-Forwarded-For"] = test.peer, strings.Split(test.forwarded, "\n")
			require.Equal(t, test.want, client.Key(r))
			require.Equal(t, test.want, client.KeyOf(test.peer, r.Header["X-Forwarded-For"]))
		})
	}
}

// IPv6Bits is the length of the prefix by which IPv6 addresses count. IPv4 addresses count whole.
func TestIPv6Bits(t *testing.T) {
	for _, c := range []struct {
		bits int
		want string
	}{
		{bits: 0, want: "2001:db8:1:203::/64"},
		{bits: 32, want: "2001:db8::/32"},
		{bits: 48, want: "2001:db8:1::/48"},
		{bits: 56, want: "2001:db8:1:200::/56"},
		{bits: 64, want: "2001:db8:1:203::/64"},
		{bits: 128, want: "2001:db8:1:203:4:5:6:7/128"},
	} {
		client := httplimit.ClientIP{IPv6Bits: c.bits}
		require.Equal(t, c.want, client.Key(from("2001:db8:1:203:4:5:6:7")))
		require.Equal(t, "192.0.2.1", client.Key(from("192.0.2.1")))
		require.Equal(t, "192.0.2.1", client.Key(from("64:ff9b::192.0.2.1")))
		require.Equal(t, "192.0.2.1", client.Key(from("::ffff:192.0.2.1")))
	}
	for _, bits := range []int{-1, 1, 31, 129} {
		want := fmt.Sprintf("httplimit: ClientIP.IPv6Bits must be from 32 to 128, or 0 for 64, not %d", bits)
		require.PanicsWithValue(t, want, func() { httplimit.ClientIP{IPv6Bits: bits}.Key(from("192.0.2.1")) })
	}
}

// The peer of a Unix socket has no address. It is trusted if TrustUnixSocket says so. A peer with
// an address that cannot be parsed is never trusted.
func TestUnixSocket(t *testing.T) {
	const forwarded = "198.51.100.7, 192.0.2.1, 10.0.0.2"
	unix, tcp := &net.UnixAddr{Name: "/run/http", Net: "unix"}, &net.TCPAddr{}
	for name, test := range map[string]struct {
		local           net.Addr
		trust           bool
		forwarded, want string
	}{
		"trusted":               {unix, true, forwarded, "192.0.2.1"},
		"trusted, but no proxy": {unix, true, "", "unknown"},
		"not trusted":           {unix, false, forwarded, "unknown"},
		"rubbish over TCP":      {tcp, true, forwarded, "unknown"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, test.local)) // as http.Server does
		r.RemoteAddr = "@"
		r.Header.Set("X-Forwarded-For", test.forwarded)
		client := httplimit.ClientIP{TrustUnixSocket: test.trust, Trusted: prefixes("10.0.0.0/8")}
		require.Equal(t, test.want, client.Key(r), name)
	}
}

// Reading a header of a megabyte must not take much longer than receiving it: this test would not
// end if the time grew with the square of the length.
func TestHostileHeadersAreNotMuchWork(t *testing.T) {
	for _, element := range []string{",", " ", " ,", "10.0.0.2,"} {
		line := strings.Repeat(element, 1<<20/len(element))
		httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8")}.KeyOf("10.0.0.1", []string{line, line})
	}
}

func TestByHeader(t *testing.T) {
	r := from("192.0.2.1")
	require.Equal(t, "x-api-key:", httplimit.ByHeader("x-api-KEY", nil)(r), "without the header")
	require.Equal(t, "192.0.2.1", httplimit.ByHeader("x-api-KEY", httplimit.ByIP())(r), "by another key then")
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

// Requests for one host share a funnel, however their URLs write the host. Other hosts and ports
// have other funnels.
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
