package grpclimit_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"funnel/limiter/grpclimit"
	"funnel/limiter/httplimit"
)

// grpclimit and httplimit make the same keys from the same addresses, values and paths.
func TestKeys(t *testing.T) {
	byPeer := grpclimit.ByPeer(netip.MustParsePrefix("10.0.0.0/8"))
	key := grpclimit.Join(grpclimit.ByMetadata("X-Api-Key", byPeer), grpclimit.ByMethod())
	for _, test := range []struct{ address, forwarded, secret, method, key string }{
		{"192.0.2.1:80", "198.51.100.1", "", "/s/{m}", "192.0.2.1|/s/%257Bm%257D"},
		{"10.0.0.7:80", "203.0.113.9, 2001:db8:1:2:3:4:5:6", "", "/s/m", "2001:db8:1:2::/64|/s/m"},
		{"10.0.0.7:80", "", "secret", "/s/m", "x-api-key:2bb80d537b1da3e38bd30361aa855686|/s/m"},
	} {
		client := &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(test.address))}
		ctx := metadata.NewIncomingContext(peer.NewContext(t.Context(), client),
			metadata.Pairs("x-forwarded-for", test.forwarded, "x-api-key", test.secret))
		require.Equal(t, test.key, key(grpclimit.Call{Context: ctx, Method: test.method}))
	}
	client := grpclimit.ByClientIP(httplimit.ClientIP{IPv6Bits: 48})
	over6 := &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[2001:db8:1:2::3]:80"))}
	require.Equal(t, "2001:db8:1::/48", client(grpclimit.Call{Context: peer.NewContext(t.Context(), over6)}))
	ofClient := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "10.0.0.7", Net: "unix"}}) // as it says
	require.Equal(t, "unknown", grpclimit.ByPeer()(grpclimit.Call{Context: ofClient}))
	require.Equal(t, "x-api-key:", grpclimit.ByMetadata("X-Api-Key", nil)(grpclimit.Call{Context: t.Context()}))
}
