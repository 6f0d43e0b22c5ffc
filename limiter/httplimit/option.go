package httplimit

import (
	"fmt"
	"net/http"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// An Option changes how the middleware of [New] works.
type Option func(*middleware)

// WithName names the policy, in the headers RateLimit and RateLimit-Policy and in the keys in Redis: policies of
// different names never share a funnel. WithName panics unless the name is 1 or more printable ASCII characters.
func WithName(name string) Option {
	requireName(name)
	return func(m *middleware) { m.name = name }
}

func requireName(name string) {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			panic(fmt.Sprintf("httplimit: a policy's name must be printable ASCII, as headers are, not %q", name))
		}
	}
	if name == "" {
		panic("httplimit: a policy's name must not be empty")
	}
}

// WithKey sets the key of requests: requests with the same key share a funnel. See [ByIP], [ByHeader], [ByPattern],
// [ByPath] and [Join].
func WithKey(key KeyFunc) Option { return func(m *middleware) { m.key = key } }

// WithLimit sets a function that returns the limit of a request, such as the limit of a plan. The zero Limit means the
// limit of New. Any other limit must be valid, or the request is answered as [OnError] says.
func WithLimit(limit func(*http.Request) limiter.Limit) Option {
	return func(m *middleware) { m.limitOf = limit }
}

// WithCost sets a function that returns how many tokens a request takes, at least 0. The default is 1. A request of
// cost 0 is allowed even if the funnel is full, and gets the headers; with [WithAlso] or [WithSlots], an overfull
// funnel limits it. A request that costs more than the capacity is answered 413. A negative cost is an error: see
// [OnError].
//
// The body has not been read: a function that reads it must replace it for the handler.
func WithCost(cost func(*http.Request) int) Option { return func(m *middleware) { m.cost = cost } }

// WithAlso adds a limit with a name and a key of its own, such as a limit for all clients together:
//
//	httplimit.WithAlso("all", limiter.PerSecond(1000), func(*http.Request) string { return "" })
//
// A request takes its cost from the policy's own funnel and from the funnel of each WithAlso, and a slot if the policy
// has [WithSlots], all or nothing, by one [limiter.Limiter.AllowAll] or TryAcquire. The key of the funnel is the
// [FunnelKey] of name. New panics if two limits of a policy have the same name. Without slots, the Limiter passed to
// New must have AllowAll and PeekAll, which Shadow and leases lack.
//
// Each limit has a member of its own in RateLimit and RateLimit-Policy. X-RateLimit describes the limit with the least
// remaining, which is a limit that refuses the request if any does. Retry-After is the longest wait of all limits, and
// [OnLimited] gets the Result with that wait.
func WithAlso(name string, limit limiter.Limit, key KeyFunc) Option {
	requireName(name)
	if key == nil {
		panic("httplimit: WithAlso needs a KeyFunc, not nil")
	}
	return func(m *middleware) {
		m.also, m.alsoKeys = append(m.also, policy.Also{Name: name, Limit: limit}), append(m.alsoKeys, key)
	}
}

// WithSlots lets no more than slots.Max requests of one key run at once. A request holds a slot until its handler
// returns, even if the handler streams or has hijacked the connection; work that goes on after that is not counted. The
// middleware takes slot and tokens in one call, by [limiter.Limiter.TryAcquire]. The Limiter passed to New must be a
// [limiter.Acquirer]; Shadow and leases are not. If the slot is lost, the context of the request ends, with
// [limiter.ErrSlotLost] as its cause.
//
// A slot is given back in the background: the answer does not wait for Redis, and the next request of the client may
// come before the slot is back. If Redis does not decide, the middleware asks again, each tenth of the TTL, until the
// TTL is over.
//
// If only a slot is missing, a request is answered 429 with Retry-After: 1, because nobody knows when a slot comes
// free: see [SetHeaders]. The keys of funnel and slots have one hash tag: see [SlotsKeys].
func WithSlots(slots limiter.Slots) Option { return func(m *middleware) { m.slots = &slots } }

// WithSkip lets some requests pass without a decision, such as health checks: they take no tokens and get no headers.
func WithSkip(skip func(*http.Request) bool) Option { return func(m *middleware) { m.skip = skip } }

// OnLimited sets the answer to limited requests. The headers are set already, including Retry-After if the request can
// be repeated; [Status] returns the status. By default the answer is a line of text. If only a slot is missing
// ([WithSlots]), the Result is on the slots: its Slots are not zero.
func OnLimited(answer func(w http.ResponseWriter, r *http.Request, result limiter.Result)) Option {
	return func(m *middleware) { m.limited = answer }
}

// OnError sets the answer to requests for which the Limiter returns an error: see [limiter.Limiter]. By default the
// cause is logged to [log/slog.Default], and the answer is 503 Service Unavailable with Retry-After: 1, or 500 if the
// call was wrong ([limiter.ErrInvalid]): the limit or the cost is out of range, or the key holds something else.
//
// If the context of the request is canceled, the client has gone: answer is not called, and the status is 499, for the
// access log.
func OnError(answer func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(m *middleware) { m.failed = answer }
}
