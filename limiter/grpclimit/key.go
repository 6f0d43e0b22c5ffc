package grpclimit

import (
	"context"
	"net"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"funnel/limiter"
	"funnel/limiter/httplimit"
	"funnel/limiter/internal/policy"
)

// A KeyFunc returns the key of a call: calls with the same key share a limit. Write your own for
// other keys, such as the account that your authentication has found, or a field of the request. A
// KeyFunc must be safe for concurrent use.
//
// Redis keeps each key until its funnel has drained or its period has ended. A client that can
// choose any key is not limited, and fills the memory.
type KeyFunc func(Call) string

// LimitKey returns the key of a limit, without the prefix of the Limiter, from the name of a
// policy, the key of a call and the limit: for tools that peek at a limit or reset it.
// [funnel/limiter/httplimit.LimitKey] describes it: a policy of one name is one limit over HTTP and
// gRPC.
func LimitKey(name, key string, limit limiter.Limit) string { return policy.LimitKey(name, key, limit) }

// SlotsKey returns the key of the slots of a policy with [WithSlots].
func SlotsKey(name, key string) string { return policy.SlotsKey(name, key) }

// ByPeer keys by the address of the client: the address of the peer, or, if the peer is one of the
// trusted proxies, the address in the metadata x-forwarded-for. IPv6 addresses count by /64. Peers
// without an address, such as peers of a Unix socket, share one key. [httplimit.ClientIP] has the
// rules.
func ByPeer(trusted ...netip.Prefix) KeyFunc { return ByClientIP(httplimit.ClientIP{Trusted: trusted}) }

// ByClientIP is ByPeer with all settings of [httplimit.ClientIP], such as another prefix length for
// IPv6 addresses.
func ByClientIP(client httplimit.ClientIP) KeyFunc {
	return func(call Call) string {
		forwarded := metadata.ValueFromIncomingContext(call.Context, "x-forwarded-for")
		return client.KeyOf(addressOf(call.Context), forwarded)
	}
}

// addressOf returns the address of the peer, or "" if it has none. The client chooses the path of
// its end of a Unix socket, and the path may look like an address: it does not count.
func addressOf(ctx context.Context) string {
	from, found := peer.FromContext(ctx)
	if !found || from.Addr == nil {
		return ""
	}
	_, isUnix := from.Addr.(*net.UnixAddr)
	if isUnix {
		return ""
	}
	return from.Addr.String()
}

// ByMetadata keys by the first value of that metadata, such as x-api-key. Redis gets a hash of the
// value, as from [httplimit.ByHeader].
//
// A call without the metadata, or with an empty value, is keyed by absent, such as ByPeer(). If
// absent is nil, all such calls share one funnel.
//
// If the metadata is not verified, a client can send any value, and each value has a funnel of its
// own: authenticate in front of the policy, or limit by address, too.
func ByMetadata(name string, absent KeyFunc) KeyFunc {
	return func(call Call) string {
		value := ""
		values := metadata.ValueFromIncomingContext(call.Context, name)
		if len(values) > 0 {
			value = values[0]
		}
		if value == "" && absent != nil {
			return absent(call)
		}
		return policy.Secret(name, value)
	}
}

// ByMethod keys by the full method, such as "/chat.Chat/Send". A method longer than 64 bytes is
// hashed. There are as many keys as methods, except with
// [google.golang.org/grpc.UnknownServiceHandler], where the client chooses the method.
func ByMethod() KeyFunc {
	return func(call Call) string { return policy.Path(call.Method) }
}

// Join keys by several keys together: Join(ByPeer(), ByMethod()) has a funnel for each address at
// each method. Different lists of keys never make the same key.
func Join(keys ...KeyFunc) KeyFunc {
	return func(call Call) string {
		parts := make([]string, len(keys))
		for i, key := range keys {
			parts[i] = key(call)
		}
		return policy.Join(parts)
	}
}
