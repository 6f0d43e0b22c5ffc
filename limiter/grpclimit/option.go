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

// WithName names the policy, in the QuotaFailure of limited calls and in the keys in Redis: policies of different names
// never share a funnel. WithName panics if the name is empty, or not valid UTF-8, which protocol buffers require.
func WithName(name string) Option {
	requireName(name)
	return func(p *Policy) { p.name = name }
}

func requireName(name string) {
	if name == "" || !utf8.ValidString(name) {
		panic(fmt.Sprintf("grpclimit: a policy's name must be UTF-8 and not empty, not %q", name))
	}
}

// WithKey sets the key of calls: calls with the same key share a funnel. See [ByPeer], [ByMetadata], [ByMethod] and
// [Join].
func WithKey(key KeyFunc) Option { return func(p *Policy) { p.key = key } }

// WithLimit sets a function that returns the limit of a call, such as the limit of a plan. The zero Limit means the
// limit of New. Any other limit must be valid, or the call gets INTERNAL.
func WithLimit(limit func(context.Context, Call) limiter.Limit) Option {
	return func(p *Policy) { p.limitOf = limit }
}

// WithCost sets a function that returns how many tokens a call takes, at least 0. The default is 1. A call of cost 0 is
// allowed even if the funnel is full; with [WithAlso] or [WithSlots], an overfull funnel limits it. A call that costs
// more than the capacity is limited and never fits. A call of negative cost gets INTERNAL.
func WithCost(cost func(context.Context, Call) int) Option { return func(p *Policy) { p.cost = cost } }

// WithAlso adds a limit with a name and a key of its own, such as a limit for all clients together. A call takes
// its cost from the policy's own funnel and from the funnel of each WithAlso, and a slot if the policy has [WithSlots],
// all or nothing, by one [limiter.Limiter.AllowAll] or TryAcquire. New panics if two limits of a policy have the same
// name. Without slots, the Limiter passed to New must have AllowAll and PeekAll, which Shadow and leases lack.
//
// The answer to a limited call names the limit that refuses the call. If several limits do, it names the limit with the
// longest wait.
func WithAlso(name string, limit limiter.Limit, key KeyFunc) Option {
	requireName(name)
	if key == nil {
		panic("grpclimit: WithAlso needs a KeyFunc, not nil")
	}
	return func(p *Policy) {
		p.also, p.alsoKeys = append(p.also, policy.Also{Name: name, Limit: limit}), append(p.alsoKeys, key)
	}
}

// WithSlots lets no more than slots.Max calls of one key run at once. A call, even a stream, holds a slot until its
// handler returns. The policy takes slot and tokens together, by [limiter.Limiter.TryAcquire]. The Limiter passed to
// New must be a [limiter.Acquirer]; Shadow and leases are not. If the slot is lost, the context of the call ends, with
// [limiter.ErrSlotLost] as its cause.
//
// A slot is given back in the background: the answer does not wait for Redis, and the next call of the client may come
// before the slot is back. If Redis does not decide, the policy asks again, each tenth of the TTL, until the TTL is
// over.
//
// If only a slot is missing, a call gets RESOURCE_EXHAUSTED without details and without pushback, because nobody knows
// when a slot comes free: a client that retries uses its own backoff. The keys of funnel and slots have one hash tag:
// see [funnel/limiter/httplimit.SlotsKeys].
func WithSlots(slots limiter.Slots) Option { return func(p *Policy) { p.slots = &slots } }

// WithSkip lets some calls pass without a decision, such as health checks: they take no tokens.
func WithSkip(skip func(context.Context, Call) bool) Option { return func(p *Policy) { p.skip = skip } }
