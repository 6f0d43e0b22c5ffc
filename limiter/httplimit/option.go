package httplimit

import (
	"fmt"
	"net/http"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// An Option changes how the middleware of [New] works.
type Option func(*middleware)

// WithName names the policy, for the headers RateLimit and RateLimit-Policy and for
// the keys in Redis: policies of different names never share a funnel. The name is 1
// or more printable ASCII characters; New panics for others.
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

// WithKey sets the key of requests, which share a funnel if it is the same. See [ByIP], [ByHeader],
// [ByPattern], [ByPath] and [Join].
func WithKey(key KeyFunc) Option {
	return func(m *middleware) { m.key = key }
}

// WithLimit sets a limit for each request, such as that of a plan. The zero Limit
// means the one of New. Any other must be valid, or the request is answered as
// [OnError] says.
func WithLimit(limit func(*http.Request) limiter.Limit) Option {
	return func(m *middleware) { m.limitOf = limit }
}

// WithCost sets how many tokens a request takes, at least 0; without it, 1. A request
// of cost 0 is allowed, even if the funnel is full, and gets the headers.
// A request that costs more than the capacity is answered 413. A negative cost is an error;
// see [OnError].
//
// The body has not been read: a cost that reads it must replace it for the handler.
func WithCost(cost func(*http.Request) int) Option {
	return func(m *middleware) { m.cost = cost }
}

// WithAlso adds a limit with a name and a key of its own, such as one for all clients beside one for each:
//
//	httplimit.WithAlso("all", limiter.PerSecond(1000), func(*http.Request) string { return "" })
//
// A request takes its cost from the policy's own funnel, from the funnel of each WithAlso, and a slot of [WithSlots]
// by one [limiter.Limiter.AllowAll] or TryAcquire: all or nothing. The names of a policy differ, or New
// panics; the key of the funnel is that of [FunnelKey]. Without slots, the Limiter passed to New must have AllowAll and
// PeekAll; Shadow and leases lack them.
//
// Each limit has a member of its own in RateLimit and RateLimit-Policy. X-RateLimit describes the limit with the least
// remaining, which refuses the request if any does. Retry-After is the longest wait of all, and [OnLimited] gets its
// Result.
func WithAlso(name string, limit limiter.Limit, key KeyFunc) Option {
	requireName(name)
	if key == nil {
		panic("httplimit: WithAlso needs a KeyFunc, not nil")
	}
	return func(m *middleware) {
		m.also, m.alsoKeys = append(m.also, policy.Also{Name: name, Limit: limit}), append(m.alsoKeys, key)
	}
}

// WithSlots lets no more than slots.Max requests of one key run at once. A request holds a slot
// until its handler returns, even if it streams or has hijacked the connection; what goes on
// after that is not counted. It is taken in one call with the tokens, by [limiter.Limiter.TryAcquire].
// The Limiter passed to New must be a [limiter.Acquirer]; Shadow and leases are not. The context of the request ends
// if the slot is lost, with [limiter.ErrSlotLost] as its cause.
//
// A slot is given back in the background: no answer waits for Redis, and the next request of the client may come
// before it is back.
// If Redis does not answer, the middleware asks again, each tenth of the TTL, until the TTL is over.
//
// If only a slot is missing, a request is answered 429 with Retry-After: 1, since nobody knows
// when a slot comes free; see [SetHeaders]. The funnel's key has braces around it, and the slots' key is that and
// ":slots"; see [SlotsKeys].
func WithSlots(slots limiter.Slots) Option {
	return func(m *middleware) { m.slots = &slots }
}

// WithSkip skips the middleware for some requests, such as health checks: they take
// no tokens and get no headers.
func WithSkip(skip func(*http.Request) bool) Option {
	return func(m *middleware) { m.skip = skip }
}

// OnLimited sets the answer to limited requests. The headers have been set, with
// Retry-After among them if the request can be repeated; [Status] returns the status. By default the
// answer is a line of text. If only a slot is missing ([WithSlots]), the Result is on the slots:
// its Slots are not zero.
func OnLimited(answer func(w http.ResponseWriter, r *http.Request, result limiter.Result)) Option {
	return func(m *middleware) { m.limited = answer }
}

// OnError sets the answer to requests that the Limiter could not decide; see
// [limiter.Limiter]. By default the cause is logged to [log/slog.Default], and the
// answer is 503 Service Unavailable with Retry-After: 1, or 500 if the call was wrong
// ([limiter.ErrInvalid]): the limit or the cost is out of range, or the key holds something else.
//
// It is not called if the context of the request has been canceled, because the
// client has gone: the status is 499 then, for the access log.
func OnError(answer func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(m *middleware) { m.failed = answer }
}
