package httplimit

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"funnel/limiter/internal/policy"
)

// ByHost keys a request that a [Transport] sends by its host, such as "api.example.com", and by its
// port if that is not the default of the scheme. All spellings of a host have one key: names are in
// lower case, without a final dot, and IP addresses are as [netip.Addr.String] writes them. A name
// and the addresses that it stands for are different hosts.
//
// All names with letters beyond ASCII share the key "non-ASCII", because the Transport of net/http
// accepts many spellings of one name, for instance in full-width letters. If you send requests to
// such hosts, convert their names with golang.org/x/net/idna, in Key or in the URL.
func ByHost() KeyFunc { return func(r *http.Request) string { return policy.Escape(hostOf(r.URL)) } }

func hostOf(u *url.URL) string {
	name, port := canonicalName(u.Hostname()), strings.TrimLeft(u.Port(), "0")
	if port == "" || port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		return name
	}
	return net.JoinHostPort(name, port)
}

func canonicalName(name string) string {
	if strings.ContainsFunc(name, func(letter rune) bool { return letter >= utf8.RuneSelf }) {
		return "non-ASCII" // other names are in lower case
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	address, err := netip.ParseAddr(name)
	if err != nil {
		return name
	}
	return address.Unmap().String()
}
