package grpclimit

import (
	"context"
	"fmt"
	"unicode/utf8"

	"funnel/limiter"
)

// An Option changes how a [Policy] works.
type Option func(*Policy)

// WithName names the policy, for the QuotaFailure of limited calls and for the keys in
// Redis: policies of different names never share a funnel. The name is not empty, and is
// valid UTF-8, as protocol buffers require; WithName panics for others.
func WithName(name string) Option {
	if name == "" || !utf8.ValidString(name) {
		panic(fmt.Sprintf("grpclimit: a policy's name must be UTF-8 and not empty, not %q", name))
	}
	return func(p *Policy) { p.name = name }
}

// WithKey sets the key of calls, which share a funnel if it is the same. See [ByPeer],
// [ByMetadata], [ByMethod] and [Join].
func WithKey(key KeyFunc) Option {
	return func(p *Policy) { p.key = key }
}

// WithLimit sets a limit for each call, such as that of a plan. The zero Limit means the
// one of New. Any other must be valid, or the call gets INTERNAL.
func WithLimit(limit func(context.Context, Call) limiter.Limit) Option {
	return func(p *Policy) { p.limitOf = limit }
}

// WithCost sets how many tokens a call takes, at least 0; without it, 1. A call of cost 0 is
// allowed, even if the funnel is full. A call that costs more than the capacity is limited
// and never fits. A negative cost is an error, and the call gets INTERNAL.
func WithCost(cost func(context.Context, Call) int) Option {
	return func(p *Policy) { p.cost = cost }
}

// WithSlots lets no more than slots.Max calls of one key run at once. A call, even a stream,
// holds a slot until its handler returns. It is taken in one call with the tokens, by
// [limiter.Limiter.TryAcquire]. The Limiter passed to New must be a [limiter.Acquirer]; Shadow and leases are not. The
// context of the call ends if the slot is lost, with [limiter.ErrSlotLost] as its cause.
//
// A slot is given back in the background: no answer waits for Redis, and the next call of the client may come before
// it is back.
// If Redis does not answer, the policy asks again, each tenth of the TTL, until the TTL is over.
//
// If only a slot is missing, a call gets RESOURCE_EXHAUSTED without details and without
// pushback, since nobody knows when a slot comes free: a client that retries goes by its own backoff.
// The funnel's key has braces around it, and the slots' key is that and ":slots".
func WithSlots(slots limiter.Slots) Option {
	return func(p *Policy) { p.slots = &slots }
}

// WithSkip lets some calls through without a decision, such as health checks: they take no
// tokens.
func WithSkip(skip func(context.Context, Call) bool) Option {
	return func(p *Policy) { p.skip = skip }
}
