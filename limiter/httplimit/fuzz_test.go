package httplimit_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/limiter/httplimit"
)

// Whatever a client writes into the header, its address is the one that its proxy saw,
// on the same line or the next, through one proxy or two; without a proxy, it is the
// peer.
func FuzzForwarding(f *testing.F) {
	for _, text := range []string{
		"", "198.51.100.7", "198.51.100.7, 10.0.0.1", ",", `"`, `\`, `for=198.51.100.7;x="`, `for="a\`,
		`for="[2001:db8::1]";host="x`, "unknown", "[", "10.0.0.2:", "for=10.0.0.2,", "\x00\xff",
	} {
		for shape := range 64 {
			f.Add(text, "example.com", byte(shape))
			f.Add(text, `a, for=198.51.100.7;x="b`, byte(shape))
			f.Add(text, `\", for=198.51.100.7;x=\`, byte(shape))
		}
	}
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	const client, first, second = "192.0.2.1", "10.0.0.1", "10.0.0.2"
	f.Fuzz(func(t *testing.T, text, host string, shape byte) {
		finder := httplimit.ClientIP{Trusted: trusted}
		hop := func(address string) string { return address }
		if shape&1 != 0 {
			finder.Header = "Forwarded"
			hop = func(address string) string {
				switch shape >> 4 & 3 {
				case 0:
					return "for=" + address
				case 1:
					return `proto=http;for="` + address + `:4711"`
				default:
					// Proxies add the host, which the client has chosen.
					return "for=" + address + ";host=" + quoted(host)
				}
			}
		}
		name := http.CanonicalHeaderKey(finder.Header)
		if name == "" {
			name = "X-Forwarded-For"
		}

		lines := []string{text}
		add := func(element string) {
			if shape&2 != 0 {
				lines = append(lines, element)
			} else {
				lines[len(lines)-1] += ", " + element
			}
		}
		r := from(client)
		r.Header[name] = lines
		require.Equal(t, client, finder.Key(r), "without a proxy")

		add(hop(client))
		if shape&4 != 0 {
			add(hop(second))
		}
		r = from(first)
		r.Header[name] = lines
		require.Equal(t, client, finder.Key(r), "behind proxies: %q", lines)

		// A header that the proxy passes on unchanged gives some key.
		r.Header[name] = []string{text}
		require.NotEmpty(t, finder.Key(r))
	})
}

// quoted is a quoted-string of HTTP, of any bytes.
func quoted(text string) string {
	result := []byte{'"'}
	for _, character := range []byte(text) {
		if character == '"' || character == '\\' {
			result = append(result, '\\')
		}
		result = append(result, character)
	}
	return string(append(result, '"'))
}
