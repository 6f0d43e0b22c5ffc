package httplimit

import (
	"net/http"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// An Option changes how the middleware of [New] works.
type Option func(*settings)

// settings are what options set.
type settings struct {
	common  []policy.Option[*http.Request]
	limited func(http.ResponseWriter, *http.Request, Refusal)
	failed  func(http.ResponseWriter, *http.Request, error)
}

func common(option policy.Option[*http.Request]) Option {
	return func(s *settings) { s.common = append(s.common, option) }
}

// A LimitFor is a limit of [New] or [WithAlso]: a [limiter.Limit] for all requests, or a function
// that returns the limit of a request, such as the limit of a plan. If the function returns a limit
// that is not valid, as the zero Limit is not, the request is answered as [OnError] says.
type LimitFor interface {
	limiter.Limit | func(*http.Request) limiter.Limit
}

// WithKey sets the key of requests: requests with the same key share a limit. See [ByIP],
// [ByHeader], [ByPattern], [ByPath] and [Join].
func WithKey(key KeyFunc) Option { return common(policy.WithKey(key)) }

// WithCost sets a function that returns how many tokens a request takes, at least 0. The default is
// 1. A request of cost 0 is allowed even if the funnel is full, and gets the headers; with
// [WithAlso] or [WithSlots], an overfull funnel limits it. A request that costs more than the
// capacity is answered 413. A negative cost is an error: see [OnError].
//
// The body has not been read: a function that reads it must replace it for the handler.
func WithCost(cost func(*http.Request) int) Option { return common(policy.WithCost(cost)) }

// WithSkip lets some requests pass without a decision, such as health checks and preflights of
// CORS: they take no tokens and get no headers.
func WithSkip(skip func(*http.Request) bool) Option { return common(policy.WithSkip(skip)) }

// WithAlso adds a limit with a name and a key of its own, such as the quota of a plan, or a limit
// for all clients together. A request takes its cost from each limit, and a slot if there is
// [WithSlots], all or nothing, by one [limiter.Limiter.AllowAll] or TryAcquire.
//
// [New] panics if two limits of a policy have the same name, or if the name, the limit or the key
// is not valid. Without slots, the Limiter must have AllowAll and PeekAll, which Shadow and leases
// lack.
//
// In a cluster the keys of one decision may be on several nodes. They are on one node if all
// KeyFuncs return the same hash tag, such as "{org42}".
func WithAlso[L LimitFor](name string, limit L, key KeyFunc) Option {
	return common(policy.WithAlso(name, limit, key))
}

// WithSlots lets no more than slots.Max requests of one key run at once. A request holds a slot
// until its handler returns, even if the handler streams or has hijacked the connection; work that
// goes on after that is not counted. So an [http.TimeoutHandler], whose handler goes on after the
// time-out, belongs outside.
//
// The middleware takes slot and tokens in one call, by [limiter.Limiter.TryAcquire]. The Limiter
// must be a [limiter.Acquirer]; Shadow and leases are not. If the slot is lost, the context of the
// request ends, with [limiter.ErrSlotLost] as its cause.
//
// A slot is given back in the background: the answer does not wait for Redis, and the next request
// of the client may come before the slot is back. If Redis does not decide, the Limiter asks again,
// each tenth of the TTL, until the TTL is over. Call [limiter.Limiter.Drain] after
// [http.Server.Shutdown].
//
// If only a slot is missing, a request is answered 429 with Retry-After: 1, because nobody knows
// when a slot comes free.
func WithSlots(slots limiter.Slots) Option {
	return common(policy.WithSlots[*http.Request](slots))
}

// OnLimited sets the answer to limited requests. The headers are set already; [Refusal.Status]
// returns the status. By default the answer is a line of text that names the policy.
func OnLimited(answer func(w http.ResponseWriter, r *http.Request, refusal Refusal)) Option {
	return func(s *settings) { s.limited = answer }
}

// OnError sets the answer to requests for which the Limiter returns an error: see
// [limiter.Limiter]. By default the answer is 503 Service Unavailable with Retry-After: 1, or 500
// if the call was wrong ([limiter.ErrInvalid]): the limit or the cost is out of range, or the key
// holds something else. The cause is not sent, since it may contain the address of Redis.
//
// If the deadline of the request has passed, err is a context.DeadlineExceeded or the cause of the
// request's context. If the request was canceled, the client has gone: answer is not called, and
// the status is 499, for the access log.
//
// Whatever the answer, [log/slog.Default] gets a line when an outage begins and a line when it has
// ended, and a line a minute about calls that are wrong. Requests whose own context is done are not
// logged.
func OnError(answer func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(s *settings) { s.failed = answer }
}
