package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
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
	proxies := prefixes("10.0.0.0/8", "fd00::/8")
	list := httplimit.ClientIP{Trusted: proxies}
	forwarded := httplimit.ClientIP{Trusted: proxies, Header: "forwarded"}
	const forwardedFor, rfc7239 = "X-Forwarded-For", "Forwarded"
	for _, test := range []struct {
		name   string
		client httplimit.ClientIP
		peer   string
		header string
		lines  []string
		want   string
	}{
		{"a peer", list, "192.0.2.1:1234", "", nil, "192.0.2.1"},
		{"a peer of IPv6", list, "[2001:db8:1:2:3:4:5:6]:1234", "", nil, "2001:db8:1:2::/64"},
		{"IPv4 within IPv6", list, "[::ffff:192.0.2.1]:1234", "", nil, "192.0.2.1"},
		{"a peer with a zone", list, "[fe80::1:2%eth0]:1234", "", nil, "fe80::/64"},
		{"a peer without a port, as some middleware leaves it", list, "192.0.2.1", "", nil, "192.0.2.1"},
		{"a peer of IPv6 without a port", list, "2001:db8::1", "", nil, "2001:db8::/64"},
		{"no address", list, "@", forwardedFor, []string{"192.0.2.1"}, "unknown"},
		{"rubbish", list, "1.2.3:4", "", nil, "unknown"},

		{"nobody is trusted", httplimit.ClientIP{}, "10.0.0.1:1", forwardedFor, []string{"192.0.2.1"}, "10.0.0.1"},
		{"behind a proxy", list, "10.0.0.1:1", forwardedFor, []string{"192.0.2.1"}, "192.0.2.1"},
		{"behind a proxy within IPv6", list, "[::ffff:10.0.0.1]:1", forwardedFor, []string{"192.0.2.1"}, "192.0.2.1"},
		{"a proxy with a zone", list, "[fd00::1%eth0]:1", forwardedFor, []string{"192.0.2.1"}, "192.0.2.1"},
		{"spaces, tabs, nothing", list, "10.0.0.1:1", forwardedFor, []string{" ,192.0.2.1\t,, ,", ""}, "192.0.2.1"},
		{"IPv6 in brackets", list, "10.0.0.1:1", forwardedFor, []string{"[2001:db8::1]"}, "2001:db8::/64"},
		{"IPv6 in brackets, with a port", list, "10.0.0.1:1", forwardedFor, []string{"[2001:db8::1]:4711"}, "2001:db8::/64"},
		{"half a bracket", list, "10.0.0.1:1", forwardedFor, []string{"[2001:db8::1"}, "10.0.0.1"},
		{"all are proxies", list, "10.0.0.1:1", forwardedFor, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"an empty header", list, "10.0.0.1:1", forwardedFor, []string{""}, "10.0.0.1"},
		{"the proxy does not know", list, "10.0.0.1:1", forwardedFor, []string{"192.0.2.1, unknown"}, "10.0.0.1"},
		{"the second proxy does not know", list, "10.0.0.1:1", forwardedFor, []string{"192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"too many proxies", list, "10.0.0.1:1", forwardedFor, []string{"192.0.2.1" + strings.Repeat(", 10.0.0.2", 1000)}, "10.0.0.2"},
		{"the other header", list, "10.0.0.1:1", rfc7239, []string{"for=192.0.2.1"}, "10.0.0.1"},
		{"a header of one address", httplimit.ClientIP{Trusted: proxies, Header: "X-Real-IP"}, "10.0.0.1:1", "X-Real-Ip", []string{"192.0.2.1"}, "192.0.2.1"},

		{"Forwarded with more parameters", forwarded, "10.0.0.1:1", rfc7239, []string{`proto=https;For="192.0.2.1:4711";by=10.0.0.1;host="a,b;c"`}, "192.0.2.1"},
		{"Forwarded IPv6", forwarded, "10.0.0.1:1", rfc7239, []string{`for="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::/64"},
		{"Forwarded by two", forwarded, "10.0.0.1:1", rfc7239, []string{`for=198.51.100.7, for=192.0.2.1;host=",", for=10.0.0.2`}, "192.0.2.1"},
		{"Forwarded, escaped", forwarded, "10.0.0.1:1", rfc7239, []string{`for="192.0.\2.1";host="\",\\"`}, "192.0.2.1"},
		{"Forwarded, trailing semicolon", forwarded, "10.0.0.1:1", rfc7239, []string{`for=192.0.2.1;`}, "192.0.2.1"},
		{"Forwarded, spaces", forwarded, "10.0.0.1:1", rfc7239, []string{`proto=http ; for=192.0.2.1 ;by=10.0.0.1`}, "192.0.2.1"},
		{"Forwarded, after a quoted parameter", forwarded, "10.0.0.1:1", rfc7239, []string{`host="a,b;c" ;for=192.0.2.1`}, "192.0.2.1"},
		{"Forwarded, a parameter without a value", forwarded, "10.0.0.1:1", rfc7239, []string{`for=192.0.2.1;proto`}, "10.0.0.1"},
		{"Forwarded, a quote within a value", forwarded, "10.0.0.1:1", rfc7239, []string{`proto=a"b";for=192.0.2.1`}, "10.0.0.1"},
		{"Forwarded, more than a quoted value", forwarded, "10.0.0.1:1", rfc7239, []string{`for=192.0.2.1;host="a"b`}, "10.0.0.1"},
		{"Forwarded, unknown", forwarded, "10.0.0.1:1", rfc7239, []string{`for=192.0.2.1, for=unknown`}, "10.0.0.1"},
		{"Forwarded without for", forwarded, "10.0.0.1:1", rfc7239, []string{`for=192.0.2.1, proto=https`}, "10.0.0.1"},
		{"Forwarded with two for", forwarded, "10.0.0.1:1", rfc7239, []string{`for=192.0.2.1;for=192.0.2.2`}, "10.0.0.1"},
		{"Forwarded behind an open quote, quoted", forwarded, "10.0.0.1:1", rfc7239, []string{`for=198.51.100.7;x=", for="192.0.2.1";host=";for=198.51.100.7"`}, "192.0.2.1"},
		{"Forwarded within a host", forwarded, "10.0.0.1:1", rfc7239, []string{`for=192.0.2.1;host="x\", for=198.51.100.7"`}, "192.0.2.1"},
		{"Forwarded within a host, after a comma", forwarded, "10.0.0.1:1", rfc7239, []string{`for=192.0.2.1;host="a, for=198.51.100.7;x=\"b"`}, "192.0.2.1"},
		{"Forwarded, and the other header", forwarded, "10.0.0.1:1", forwardedFor, []string{"192.0.2.1"}, "10.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = test.peer
			if test.header != "" {
				r.Header[test.header] = test.lines
			}
			require.Equal(t, test.want, test.client.Key(r))
			require.Equal(t, test.lines, r.Header[test.header], "the header is left alone")
		})
	}
}

func TestIPv6Bits(t *testing.T) {
	for bits, want := range map[int]string{
		-1: "2001:db8:1:2::/64", 0: "2001:db8:1:2::/64", 1: "::/1", 48: "2001:db8:1::/48", 56: "2001:db8:1::/56",
		127: "2001:db8:1:2:3:4:5:6/127", 128: "2001:db8:1:2:3:4:5:6/128", 1000: "2001:db8:1:2:3:4:5:6/128",
	} {
		client := httplimit.ClientIP{IPv6Bits: bits}
		require.Equal(t, want, client.Key(from("2001:db8:1:2:3:4:5:6")), bits)
		require.Equal(t, "192.0.2.1", client.Key(from("192.0.2.1")), bits)
	}
}

// The peer of a Unix socket has no address: it is trusted if TrustUnixSocket says so.
// A peer whose address cannot be parsed is not.
func TestUnixSocket(t *testing.T) {
	var client httplimit.ClientIP
	var key string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { key = client.Key(r) }))
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	listenerOfTCP := server.Listener
	listenerOfTCP.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	through := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	t.Cleanup(through.CloseIdleConnections)
	for trust, want := range map[bool]string{false: "unknown", true: "192.0.2.1"} {
		client = httplimit.ClientIP{TrustUnixSocket: trust, Trusted: prefixes("10.0.0.0/8")}
		r, err := http.NewRequest(http.MethodGet, "http://unix/", nil)
		require.NoError(t, err)
		for header, want := range map[string]string{"": "unknown", "198.51.100.7, 192.0.2.1, 10.0.0.2": want} {
			r.Header.Set("X-Forwarded-For", header)
			response, err := through.Do(r)
			require.NoError(t, err)
			response.Body.Close()
			require.Equal(t, want, key)
		}
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		r.RemoteAddr = "rubbish"
		require.Equal(t, "unknown", client.Key(r))
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, listenerOfTCP.Addr()))
		require.Equal(t, "unknown", client.Key(r))
	}
}

// A header is at most a megabyte, and reading it must not take much longer than
// receiving it: this test would not end if the time grew with the square.
func TestHostileHeadersAreNotMuchWork(t *testing.T) {
	for _, line := range []string{
		strings.Repeat(",", 1<<20),
		strings.Repeat("10.0.0.2,", 1<<17),
		strings.Repeat(`"`, 1<<20),
		strings.Repeat(`\`, 1<<20) + `"`,
		strings.Repeat(`for="\",`, 1<<17),
		strings.Repeat(`for=10.0.0.2;`, 1<<16),
		`for="` + strings.Repeat(`\"`, 1<<19) + `"`,
	} {
		for _, header := range []string{"X-Forwarded-For", "Forwarded"} {
			r := from("10.0.0.1")
			r.Header[header] = []string{line, line}
			httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8"), Header: header}.Key(r)
		}
	}
}
