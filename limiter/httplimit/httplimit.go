package httplimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"

	"funnel/gcra"
	"funnel/limiter"
)

// statusClientClosedRequest is what web servers log when the client has gone. Without
// any status, net/http would send 200 to a client that is still there, as when a server
// that shuts down cancels its requests.
const statusClientClosedRequest = 499

// A Limiter decides on requests: a [limiter.Limiter], or what takes its place in tests.
type Limiter interface {
	AllowN(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error)
}

// New returns middleware that asks l to allow each request, by the funnel of its key.
// By default the key is the address of the peer (see [ByIP]), a request takes one
// token, and the policy is called "default".
//
// The funnel's key in Redis is the prefix of l, the name of the policy, a colon and
// the key of the request. A colon or backslash in the name has a backslash in front:
// policies of different names never share a funnel.
//
// New panics when l is nil, limit is not valid, or an option is not.
func New(l Limiter, limit limiter.Limit, options ...Option) func(http.Handler) http.Handler {
	m := &middleware{
		limiter: l,
		limit:   limit,
		name:    "default",
		key:     ByIP(),
		limited: answerLimited,
	}
	m.failed, m.report = m.answerError, m.logShadow
	for _, option := range options {
		option(m)
	}
	if v := reflect.ValueOf(l); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("httplimit: New needs a Limiter, not nil")
	}
	if m.key == nil {
		panic("httplimit: WithKey needs a KeyFunc, not nil")
	}
	if _, err := limit.Rate(); err != nil {
		panic(fmt.Sprintf("httplimit: New needs a valid limit, not %v: %v", limit, err))
	}
	m.quotedName = quote(m.name)
	m.keyPrefix = strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(m.name) + ":"
	m.policy = policyHeader(m.quotedName, limit)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	limiter Limiter
	limit   limiter.Limit
	name    string
	key     KeyFunc

	// nil for what New says
	limitOf func(*http.Request) limiter.Limit
	cost    func(*http.Request) int
	skip    func(*http.Request) bool

	limited func(http.ResponseWriter, *http.Request, limiter.Result)
	failed  func(http.ResponseWriter, *http.Request, error)

	shadow, shadowHeaders bool
	report                func(ctx context.Context, key string, result limiter.Result, err error)

	quotedName string
	keyPrefix  string
	policy     string // the header RateLimit-Policy of limit
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.skip != nil && m.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	limit, cost := m.limit, 1
	if m.limitOf != nil {
		if own := m.limitOf(r); own != (limiter.Limit{}) {
			limit = own
		}
	}
	if m.cost != nil {
		cost = m.cost(r)
	}
	key := m.keyPrefix + m.key(r)
	asked := cost
	if cost > limit.Capacity {
		asked = limit.Capacity + 1 // as little fits, and the Limiter can compute with it
	}
	result, err := m.limiter.AllowN(r.Context(), key, limit, asked)
	result.Quantity += cost - asked
	gone := err != nil && errors.Is(r.Context().Err(), context.Canceled)
	if m.shadow {
		if m.shadowHeaders && err == nil {
			m.setHeaders(w.Header(), limit, result)
		}
		if !gone && (err != nil || result.Limited()) {
			m.report(r.Context(), key, result, err)
		}
		next.ServeHTTP(w, r)
		return
	}
	if gone {
		w.WriteHeader(statusClientClosedRequest)
		return
	}
	if err != nil {
		m.failed(w, r, err)
		return
	}

	m.setHeaders(w.Header(), limit, result)
	if result.Limited() {
		if Status(result) == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", integer(seconds(result.RetryAfter)))
		}
		m.limited(w, r, result)
		return
	}
	next.ServeHTTP(w, r)
}

// logShadow is the report of a policy in shadow mode.
func (m *middleware) logShadow(ctx context.Context, key string, result limiter.Result, err error) {
	if err != nil {
		m.logError(ctx, err)
		return
	}
	slog.InfoContext(ctx, "shadow: this request would be limited",
		"policy", m.name, "key", key, "limit", result.Limit.String(), "retry_after", result.RetryAfter)
}

// Status returns the status of a limited request: 429 Too Many Requests, or 413 Content
// Too Large when it costs more than the capacity: waiting does not help, and there is no
// Retry-After.
func Status(result limiter.Result) int {
	if result.Quantity > result.Limit.Capacity {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusTooManyRequests
}

func answerLimited(w http.ResponseWriter, _ *http.Request, result limiter.Result) {
	status := Status(result)
	text := fmt.Sprintf("too many requests: try again in %d seconds", seconds(result.RetryAfter))
	if status == http.StatusRequestEntityTooLarge {
		text = fmt.Sprintf("request too large: it costs %d, and at most %d can be granted", result.Quantity, result.Limit.Capacity)
	}
	http.Error(w, text, status)
}

// answerError logs the cause, which would tell a client the address of Redis.
func (m *middleware) answerError(w http.ResponseWriter, r *http.Request, err error) {
	m.logError(r.Context(), err)
	if wrong := gcra.Error(""); errors.As(err, &wrong) {
		// The limit or the cost of this request is out of range, and will be again.
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "rate limits cannot be checked: try again in 1 second", http.StatusServiceUnavailable)
}

func (m *middleware) logError(ctx context.Context, err error) {
	slog.ErrorContext(ctx, "no decision about the rate limit of a request", "policy", m.name, "error", err)
}
