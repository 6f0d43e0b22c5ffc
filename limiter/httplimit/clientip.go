package httplimit

import (
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// A ClientIP finds the address of the client of a request, behind trusted proxies. The zero
// ClientIP takes the peer of the connection.
//
// Each proxy adds the address of its own peer to the right end of X-Forwarded-For. So ClientIP
// reads that header from the right, as long as the addresses belong to trusted proxies. It does not
// read the part that the client has written. [ClientIP.KeyOf] reads such a list from elsewhere, for
// instance from another header.
type ClientIP struct {
	// Trusted has the addresses of the proxies, and no others: a client within Trusted can take any
	// address. An IPv4 prefix also matches IPv4-mapped IPv6 addresses.
	Trusted []netip.Prefix

	// TrustUnixSocket means that the peer of a Unix socket is a trusted proxy. The peer has no
	// address, so without this setting all its requests share one key.
	TrustUnixSocket bool

	// IPv6Bits is the length of the prefix by which IPv6 addresses count, from 32 to 128. 0 means
	// 64, the least that networks give to a customer. A customer with a /56 has 256 such prefixes,
	// and a customer with a /48 has 65,536: choose 56 or 48 if that is too many for a limit against
	// attacks. Choose 128 if unrelated clients share a /64, as the servers of some hosters do.
	IPv6Bits int
}

// UnknownClient is the key of requests that have no address.
const UnknownClient = "unknown"

// maxHops bounds the work for a header of many trusted addresses. Requests pass two or three
// proxies, hardly ever ten.
const maxHops = 32

// Key is a [KeyFunc]: it returns "192.0.2.1", "2001:db8:1:2::/64" or [UnknownClient]. IPv6
// addresses count by /64, or as IPv6Bits says: Key panics if that is out of range.
//
// An IPv4 client is one client, however its packets came: IPv4-mapped addresses (::ffff:192.0.2.1)
// and addresses of NAT64 (64:ff9b::192.0.2.1, RFC 6052) count as the IPv4 address.
func (c ClientIP) Key(r *http.Request) string { return c.keyOf(c.Addr(r)) }

// KeyOf is Key for connections that net/http does not serve, and for other headers. Peer is the
// address of the other end, or "" if it has none. Forwarded has the lines of the header.
func (c ClientIP) KeyOf(peer string, forwarded []string) string {
	return c.keyOf(c.find(peer, false, forwarded))
}

func (c ClientIP) keyOf(client netip.Addr, known bool) string {
	bits := c.IPv6Bits
	if bits == 0 {
		bits = 64
	}
	if bits < 32 || bits > 128 {
		panic(fmt.Sprintf("httplimit: ClientIP.IPv6Bits must be from 32 to 128, or 0 for 64, not %d", c.IPv6Bits))
	}
	switch {
	case !known:
		return UnknownClient
	case client.Is4():
		return client.String()
	}
	return netip.PrefixFrom(client, bits).Masked().String()
}

// Addr returns the address of the client. If a proxy sends something that cannot be parsed, such as
// "unknown", it is the address of the proxy. The address is not known if the peer has none.
// Addresses that stand for an IPv4 address are returned as that.
func (c ClientIP) Addr(r *http.Request) (client netip.Addr, known bool) {
	return c.find(r.RemoteAddr, throughUnixSocket(r), r.Header.Values("X-Forwarded-For"))
}

// nat64 is the prefix in front of the IPv4 address of a client whose network translates its packets
// (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func (c ClientIP) find(peer string, isUnix bool, forwarded []string) (client netip.Addr, known bool) {
	client, known = c.findAsWritten(peer, isUnix, forwarded)
	if nat64.Contains(client) {
		bytes := client.As16()
		client = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return client, known
}

// findAsWritten leaves addresses of NAT64 as they are, so that Trusted says which of them are
// trusted: an IPv4 prefix does not match them.
func (c ClientIP) findAsWritten(peer string, isUnix bool, forwarded []string) (client netip.Addr, known bool) {
	client, known = parseAddress(peer)
	if known && !c.trusts(client) || !known && !(isUnix && c.TrustUnixSocket) {
		return client, known
	}
	hops := 0
	for text := range fromTheRight(forwarded) {
		hop, valid := parseAddress(text)
		if !valid {
			break
		}
		client, known = hop, true
		hops++
		if hops == maxHops || !c.trusts(hop) {
			break
		}
	}
	return client, known
}

// fromTheRight yields the elements of a list on one or several lines, the last one first. It skips
// empty elements.
func fromTheRight(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for line != "" {
				comma := strings.LastIndexByte(line, ',')
				element := strings.Trim(line[comma+1:], " \t")
				line = line[:max(comma, 0)]
				if element != "" && !yield(element) {
					return
				}
			}
		}
	}
}

func (c ClientIP) trusts(address netip.Addr) bool {
	for _, prefix := range c.Trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

func throughUnixSocket(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return local != nil && strings.HasPrefix(local.Network(), "unix")
}

// parseAddress reads an address as net/http and proxies write it: with or without a port. IPv6 is
// in brackets, which may be missing if there is no port.
func parseAddress(text string) (address netip.Addr, valid bool) {
	withPort, err := netip.ParseAddrPort(text)
	if err == nil {
		return canonicalAddress(withPort.Addr()), true
	}
	inner, isOpen := strings.CutPrefix(text, "[")
	inner, isClosed := strings.CutSuffix(inner, "]")
	if isOpen && !isClosed {
		return netip.Addr{}, false
	}
	if isOpen {
		text = inner
	}
	address, err = netip.ParseAddr(text)
	return canonicalAddress(address), err == nil
}

// canonicalAddress removes the zone of an address, which names a network card of this machine: no
// prefix contains one.
func canonicalAddress(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }
