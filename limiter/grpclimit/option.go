package grpclimit

import (
	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// An Option changes how a [Policy] works.
type Option func(*settings)

// settings are what options set.
type settings struct {
	common     []policy.Option[Call]
	perMessage bool
}

func common(option policy.Option[Call]) Option {
	return func(s *settings) { s.common = append(s.common, option) }
}

// A LimitFor is a limit of [New] or [WithAlso]: a [limiter.Limit] for all calls, or a function that
// returns the limit of a call, such as the limit of a plan. If the function returns a limit that is
// not valid, as the zero Limit is not, the call gets INTERNAL.
type LimitFor interface {
	limiter.Limit | func(Call) limiter.Limit
}

// WithKey sets the key of calls: calls with the same key share a limit. See [ByPeer], [ByMetadata],
// [ByMethod] and [Join].
func WithKey(key KeyFunc) Option { return common(policy.WithKey(key)) }

// WithCost sets a function that returns how many tokens a call takes, at least 0. The default is 1.
// A call of cost 0 is allowed even if the funnel is full; with [WithAlso] or [WithSlots], an
// overfull funnel limits it. A call that costs more than the capacity is limited and never fits. A
// call of negative cost gets INTERNAL.
func WithCost(cost func(Call) int) Option { return common(policy.WithCost(cost)) }

// WithSkip lets some calls pass without a decision: they take no tokens. Calls of the health
// service, grpc.health.v1, always pass.
func WithSkip(skip func(Call) bool) Option { return common(policy.WithSkip(skip)) }

// WithAlso adds a limit with a name and a key of its own, such as the quota of a plan, or a limit
// for all clients together. A call takes its cost from each limit, and a slot if there is
// [WithSlots], all or nothing, by one [limiter.Limiter.AllowAll] or TryAcquire.
//
// [New] panics if two limits of a policy have the same name, or if the name, the limit or the key
// is not valid. Without slots, the Limiter must have AllowAll and PeekAll, which Shadow and leases
// lack.
func WithAlso[L LimitFor](name string, limit L, key KeyFunc) Option {
	return common(policy.WithAlso(name, limit, key))
}

// WithSlots lets no more than slots.Max calls of one key run at once. A call, even a stream, holds
// a slot until its handler returns. The policy takes slot and tokens together, by
// [limiter.Limiter.TryAcquire]. The Limiter must be a [limiter.Acquirer]; Shadow and leases are
// not. If the slot is lost, the context of the call ends, with [limiter.ErrSlotLost] as its cause.
//
// A slot is given back in the background: the answer does not wait for Redis, and the next call of
// the client may come before the slot is back. If Redis does not decide, the Limiter asks again,
// each tenth of the TTL, until the TTL is over. Call [limiter.Limiter.Drain] after
// [google.golang.org/grpc.Server.GracefulStop].
//
// If only a slot is missing, a call gets RESOURCE_EXHAUSTED without RetryInfo and without pushback,
// because nobody knows when a slot comes free: a client that retries uses its own backoff.
func WithSlots(slots limiter.Slots) Option { return common(policy.WithSlots[Call](slots)) }

// WithMessages also limits the messages that a stream receives. Without it, a stream is one call,
// however many messages it has.
//
// A stream takes its cost when it begins, as any call does, and then the cost of each message, by
// default one token: the functions of the policy get a [Call] with the message as its Request. The
// message is refused if it does not fit: RecvMsg, and Recv of generated code, return the
// RESOURCE_EXHAUSTED that a limited call gets. A handler that returns this error ends the stream.
//
// A message costs a round trip to Redis. For streams of many messages, give [New] leases of package
// funnel/limiter/lease instead of a Limiter. Messages that a handler sends take nothing.
func WithMessages() Option { return func(s *settings) { s.perMessage = true } }
