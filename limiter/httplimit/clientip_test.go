// The address of a client is the one that the last trusted proxy saw, whatever the client writes into headers.

package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
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
		{"no address", "@", "192.0.2.1", "unknown"},
		{"rubbish", "1.2.3:4", "", "unknown"},

		{"no proxy", "11.0.0.1:1", "192.0.2.1", "11.0.0.1"},
		{"behind a proxy within IPv6", "[::ffff:10.0.0.1]:1", "192.0.2.1", "192.0.2.1"},
		{"a proxy with a zone", "[fd00::1%eth0]:1", "192.0.2.1", "192.0.2.1"},
		{"spaces, tabs, nothing", "10.0.0.1:1", " ,192.0.2.1\t,, ,\n", "192.0.2.1"},
		{"IPv6 in brackets", "10.0.0.1:1", "[2001:db8::1]", "2001:db8::/64"},
		{"IPv6 in brackets, with a port", "10.0.0.1:1", "[2001:db8::1]:4711", "2001:db8::/64"},
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
	r := from("10.0.0.1")
	r.Header.Set("X-Real-IP", "192.0.2.1")
	require.Equal(t, "10.0.0.1", client.Key(r), "of another header")
	client.Header = "x-real-ip"
	require.Equal(t, "192.0.2.1", client.Key(r))
}

func TestIPv6Bits(t *testing.T) {
	for bits, want := range map[int]string{
		-1: "2001:db8:1:2::/64", 0: "2001:db8:1:2::/64", 1: "::/1", 56: "2001:db8:1::/56",
		128: "2001:db8:1:2:3:4:5:6/128", 1000: "2001:db8:1:2:3:4:5:6/128",
	} {
		client := httplimit.ClientIP{IPv6Bits: bits}
		require.Equal(t, want, client.Key(from("2001:db8:1:2:3:4:5:6")), bits)
	}
}

// The peer of a Unix socket has no address: it is trusted if TrustUnixSocket says so.
// A peer whose address cannot be parsed is not.
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

// A header is at most a megabyte, and reading it must not take much longer than
// receiving it: this test would not end if the time grew with the square.
func TestHostileHeadersAreNotMuchWork(t *testing.T) {
	for _, element := range []string{",", " ", " ,", "10.0.0.2,"} {
		line := strings.Repeat(element, 1<<20/len(element))
		httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8")}.KeyOf("10.0.0.1", []string{line, line})
	}
}

// Whatever a client writes into the header, its address is the one that its proxy saw,
// on the same line or the next, through one proxy or two; without a proxy, it is the
// peer.
func FuzzForwarding(f *testing.F) {
	for _, text := range []string{
		"", "198.51.100.7", "198.51.100.7, 10.0.0.1", ",", " ", "unknown", "[", "10.0.0.2:", "\x00\xff",
	} {
		for shape := range 4 {
			f.Add(text, shape&1 != 0, shape&2 != 0)
		}
	}
	const client, first, second = "192.0.2.1", "10.0.0.1", "10.0.0.2"
	finder := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, text string, ownLine, twoProxies bool) {
		lines := []string{text, client}
		require.Equal(t, client, finder.KeyOf(client, lines[:1]), "without a proxy")
		require.NotEmpty(t, finder.KeyOf(first, lines[:1]), "behind a proxy that passes the header on unchanged")

		if twoProxies {
			lines = append(lines, second)
		}
		if !ownLine {
			lines = []string{strings.Join(lines, ", ")}
		}
		require.Equal(t, client, finder.KeyOf(first, lines), "behind proxies: %q", lines)
	})
}
