package httplimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// statusClientClosedRequest is the status that web servers log if the client has gone. Without a status, net/http would
// send 200 to a client that is still there, for instance if a server cancels its requests because it shuts down.
const statusClientClosedRequest = 499

// New returns middleware that asks l to allow each request, by the funnel of its key. By default the key is the address
// of the peer (see [ByIP]), a request takes one token, and the policy is called "default".
//
// The key of the funnel in Redis is the prefix of l, the name of the policy, a colon and the key of the request: see
// [FunnelKey]. A colon, backslash or opening brace in the name is escaped by a backslash, so policies of different
// names never share a funnel.
//
// New panics if l is nil, or if limit or an option is not valid.
func New(l limiter.Allower, limit limiter.Limit, options ...Option) func(http.Handler) http.Handler {
	m := &middleware{
		name:    "default",
		key:     ByIP(),
		limited: answerLimited,
	}
	m.failed = m.answerError
	for _, option := range options {
		option(m)
	}
	switch {
	case m.key == nil:
		panic("httplimit: WithKey needs a KeyFunc, not nil")
	case m.limited == nil:
		panic("httplimit: OnLimited needs an answer, not nil")
	case m.failed == nil:
		panic("httplimit: OnError needs an answer, not nil")
	}
	m.policy = policy.New("httplimit", m.name, l, limit, m.slots, m.also)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	policy policy.Policy
	name   string
	key    KeyFunc

	// nil for the defaults of New
	limitOf func(*http.Request) limiter.Limit
	cost    func(*http.Request) int
	skip    func(*http.Request) bool
	slots   *limiter.Slots

	also     []policy.Also
	alsoKeys []KeyFunc // the keys for also, in the same order

	limited func(http.ResponseWriter, *http.Request, limiter.Result)
	failed  func(http.ResponseWriter, *http.Request, error)
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.skip != nil && m.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	decision, err := m.check(r)
	switch {
	case err != nil && errors.Is(r.Context().Err(), context.Canceled):
		w.WriteHeader(statusClientClosedRequest)
		return
	case err != nil:
		m.failed(w, r, err)
		return
	}
	SetHeaders(w.Header(), m.name, decision.Tokens)
	for i, result := range decision.Also {
		SetHeaders(w.Header(), m.also[i].Name, result)
	}
	if decision.Slots.Slots.Max > 0 {
		SetHeaders(w.Header(), m.name, decision.Slots)
	}
	if result, _, limited := decision.Limiting(); limited {
		if result.RetryAfter == limiter.NoRetry {
			w.Header().Del("Retry-After") // even if a slot is missing, too
		}
		m.limited(w, r, result)
		return
	}
	ctx, end := decision.Begin(r.Context())
	defer end()
	inner := r.WithContext(ctx)
	defer func() { r.MultipartForm = inner.MultipartForm }() // whose files the server removes
	next.ServeHTTP(w, inner)
}

// ResultFrom returns the Result of the middleware that let the request with this context through, and whether there is
// one. After several middlewares, it is the Result of the innermost. A handler can settle it:
//
//	result, ok := httplimit.ResultFrom(r.Context())
//	...
//	l.Settle(ctx, &result, used)
func ResultFrom(ctx context.Context) (result limiter.Result, ok bool) { return policy.ResultFrom(ctx) }

// ResultsFrom returns the Result of [ResultFrom], followed by the Results on the limits of [WithAlso] in the order of
// the options. Without a middleware it is empty. A handler can settle each of them.
func ResultsFrom(ctx context.Context) limiter.Results { return policy.ResultsFrom(ctx) }

// check asks for the tokens of a request, and for a slot if the policy has slots.
func (m *middleware) check(r *http.Request) (policy.Decision, error) {
	limit, cost := limiter.Limit{}, 1
	if m.limitOf != nil {
		limit = m.limitOf(r)
	}
	if m.cost != nil {
		cost = m.cost(r)
	}
	var also []string
	for _, key := range m.alsoKeys {
		also = append(also, key(r))
	}
	return m.policy.Check(r.Context(), m.key(r), limit, cost, also)
}

// Status returns the status of a limited request: 429 Too Many Requests, or 413 Content Too Large if it costs more than
// the capacity. There is no Retry-After if waiting does not help: if the request is too large, or the quota of
// [limiter.Until] has ended.
func Status(result limiter.Result) int {
	if result.RetryAfter == limiter.NoRetry && result.Quantity > result.Limit.Capacity {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusTooManyRequests
}

func answerLimited(w http.ResponseWriter, _ *http.Request, result limiter.Result) {
	status := Status(result)
	text := fmt.Sprintf("too many requests: try again in %d seconds", seconds(result.RetryAfter))
	switch {
	case result.Slots.Max > 0:
		text = "too many requests at once: try again in a moment"
	case status == http.StatusRequestEntityTooLarge:
		text = fmt.Sprintf("request too large: it costs %d, and at most %d can be granted",
			result.Quantity, result.Limit.Capacity)
	case result.RetryAfter == limiter.NoRetry:
		text = "too many requests: the quota has ended"
	}
	http.Error(w, text, status)
}

// answerError logs the cause instead of sending it: it may contain the address of Redis.
func (m *middleware) answerError(w http.ResponseWriter, r *http.Request, err error) {
	slog.ErrorContext(r.Context(), "no decision about the rate limit of a request", "policy", m.name, "error", err)
	if errors.Is(err, limiter.ErrInvalid) { // asking again does not help
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "rate limits cannot be checked: try again in 1 second", http.StatusServiceUnavailable)
}
