package httplimit_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/limiter/httplimit"
)

// Whatever stands in X-Forwarded-For, the key is an address, or says that none is known. What a
// client writes into the header changes nothing behind a proxy, which writes from the right.
func FuzzForwarded(f *testing.F) {
	f.Add("10.0.0.1:1", "192.0.2.1", 64)
	f.Add("[fd00::1%eth0]:1", "2001:db8::1, [fd00::2]:80", 48)
	f.Add("10.0.0.1", "::ffff:192.0.2.1\t,, ,unknown", 128)
	f.Add("[64:ff9b::a00:1]:1", "64:ff9b::c000:201", 32)
	f.Add("@", "192.0.2.1", 56)
	f.Fuzz(func(t *testing.T, peer, forwarded string, bits int) {
		if bits < 32 || bits > 128 {
			t.Skip()
		}
		client := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8", "fd00::/8"), IPv6Bits: bits}
		got := client.KeyOf(peer, []string{forwarded})
		if got != httplimit.UnknownClient {
			address, err := netip.ParseAddr(got)
			if err != nil {
				prefix, err := netip.ParsePrefix(got)
				require.NoError(t, err, "%q", got)
				require.Equal(t, bits, prefix.Bits())
				require.Equal(t, prefix.Masked(), prefix)
				address = prefix.Addr()
			}
			require.Equal(t, err != nil, address.Is6(), "%q", got)
			require.False(t, address.Is4In6())
		}

		behind := client.KeyOf("10.0.0.1", []string{forwarded, "192.0.2.9, 10.0.0.7"})
		require.Equal(t, "192.0.2.9", behind, "two proxies, and a client that writes lines of its own")
		behind = client.KeyOf("10.0.0.1", []string{forwarded + ",192.0.2.9"})
		require.Equal(t, "192.0.2.9", behind, "a proxy that appends to the line of the client")
	})
}
