package grpclimit

import (
	"context"
	"fmt"
	"unicode/utf8"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// An Option changes how a [Policy] works.
type Option func(*Policy)

// WithName names the policy, for the QuotaFailure of limited calls and for the keys in
// Redis: policies of different names never share a funnel. The name is not empty, and is
// valid UTF-8, as protocol buffers require; WithName panics for others.
func WithName(name string) Option {
	requireName(name)
	return func(p *Policy) { p.name = name }
}

func requireName(name string) {
	if name == "" || !utf8.ValidString(name) {
		panic(fmt.Sprintf("grpclimit: a policy's name must be UTF-8 and not empty, not %q", name))
	}
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

// WithAlso adds a limit with a name and a key of its own, such as one for all clients beside one for each. A call takes
// its cost from the policy's own funnel, from the funnel of each WithAlso, and a slot of [WithSlots] atomically, by one
// [limiter.Limiter.AllowAll] or TryAcquire: all or nothing. The names of a policy differ, or New panics. Without slots,
// the Limiter passed to New must have AllowAll and PeekAll; Shadow and leases have not.
//
// The answer to a limited call names the limit that refuses it; if several do, the one with the longest wait.
func WithAlso(name string, limit limiter.Limit, key KeyFunc) Option {
	requireName(name)
	if key == nil {
		panic("grpclimit: WithAlso needs a KeyFunc, not nil")
	}
	return func(p *Policy) {
		p.also, p.alsoKeys = append(p.also, policy.Also{Name: name, Limit: limit}), append(p.alsoKeys, key)
	}
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
