package httplimit

import (
	"fmt"
	"net/http"

	"funnel/limiter"
)

// An Option changes how the middleware of [New] works.
type Option func(*middleware)

// WithName names the policy, for the headers RateLimit and RateLimit-Policy and for
// the keys in Redis: policies of different names never share a funnel. The name is 1
// or more printable ASCII characters; New panics for others.
func WithName(name string) Option {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			panic(fmt.Sprintf("httplimit: a policy's name must be printable ASCII, as headers are, not %q", name))
		}
	}
	if name == "" {
		panic("httplimit: a policy's name must not be empty")
	}
	return func(m *middleware) { m.name = name }
}

// WithKey says whose funnel a request pours into. See [ByIP], [ByHeader],
// [ByPattern], [ByPath] and [Join].
func WithKey(key KeyFunc) Option {
	return func(m *middleware) { m.key = key }
}

// WithLimit gives a request a limit of its own, say that of a plan. The zero Limit
// stands for the one of New. Any other must be valid, or the request is answered as
// [OnError] says.
func WithLimit(limit func(*http.Request) limiter.Limit) Option {
	return func(m *middleware) { m.limitOf = limit }
}

// WithCost says how many tokens a request takes, at least 0; without it, 1. A request
// of cost 0 is let through, also when the funnel is full, and told where it stands.
// One that costs more than the capacity is answered 413. A negative cost is an error;
// see [OnError].
//
// The body has not been read: a cost that reads it has to put it back for the handler.
func WithCost(cost func(*http.Request) int) Option {
	return func(m *middleware) { m.cost = cost }
}

// WithSkip lets the requests that it names through without asking, pouring or
// telling: health checks, say.
func WithSkip(skip func(*http.Request) bool) Option {
	return func(m *middleware) { m.skip = skip }
}

// OnLimited answers the requests that are limited. The headers have been set, with
// Retry-After among them where it belongs; [Status] tells the status. By default the
// answer is a line of text.
func OnLimited(answer func(w http.ResponseWriter, r *http.Request, result limiter.Result)) Option {
	return func(m *middleware) { m.limited = answer }
}

// OnError answers the requests about which the Limiter has decided nothing; see
// [limiter.Limiter]. By default the cause is logged to [log/slog.Default], and the
// answer is 503 Service Unavailable with Retry-After: 1, or 500 when the limit or the
// cost is out of range (a [funnel/gcra.Error] is in the error).
//
// It is not asked when the context of the request has been canceled, because nobody
// waits for an answer: that is answered 499 without a body, for the access log.
func OnError(answer func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(m *middleware) { m.failed = answer }
}
