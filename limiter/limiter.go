package limiter

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"funnel/internal/call"
	"funnel/internal/funnels"
	"funnel/internal/isnil"
)

// A Limiter limits the rate of calls by funnels in Redis. Make one with [New], or with
// [NewLocal] by funnels in this process; all methods may be called from any number of
// goroutines.
//
// Methods return an error when there is no decision: a limit or quantity out of range (an
// error of package gcra is inside), a key that does not hold a funnel, a context that is done,
// or, unless [OnFailure] says otherwise, a Redis that does not answer. The Result beside an
// error is limited.
type Limiter struct {
	server       *server // nil for [NewLocal]
	onlyPath     Path    // of WithPath, or empty
	prefix       string
	timeout      time.Duration
	timeoutCause error // what a call that waited for the whole timeout gets
	maxWait      time.Duration
	hooks        []Hook
	logger       *slog.Logger
	policy       FailurePolicy
	local        *funnels.Set
	limits       limits
	breaker      breaker
	outage       outage
	now          func() time.Time
}

// New returns a Limiter that uses rdb. It sends nothing yet. Share one Limiter between all
// requests: it remembers whether the server has the module.
//
// New panics when rdb is nil or an option is not valid.
func New(rdb Client, options ...Option) *Limiter {
	if isnil.Is(rdb) {
		panic("limiter: New needs a client of Redis, not nil")
	}
	l := NewLocal(options...)
	l.server = &server{rdb: rdb, onlyPath: l.onlyPath, now: l.now, start: l.now()}
	return l
}

// NewLocal returns a Limiter without Redis, by funnels in this process: for tests, and for programs
// of one process. Options about Redis have no effect. In a bubble of testing/synctest it goes by
// the clock of the bubble.
//
// NewLocal panics when an option is not valid.
func NewLocal(options ...Option) *Limiter {
	l := &Limiter{now: time.Now, maxWait: maxDuration, logger: slog.Default()}
	for _, option := range options {
		option(l)
	}
	l.timeoutCause = fmt.Errorf("limiter: no answer from Redis within %v: %w", l.timeout, context.DeadlineExceeded)
	l.local = funnels.New(l.now)
	return l
}

// Allow is AllowN of one token.
func (l *Limiter) Allow(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN takes quantity tokens, at least 0, from the funnel of that key: all of them, or
// none when they do not fit. More than the capacity never fit: the call is limited, and
// RetryAfter is [NoRetry].
func (l *Limiter) AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	a, err := l.decide(ctx, l.newQuery(call.Reserve, Request{key, limit, quantity}))
	return a.result(0), err
}

// AllowAtMost takes as many whole tokens as fit, up to quantity, which is at least 0.
// Result.Allowed is how many. When it is 0, RetryAfter is the time until one fits.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	a, err := l.decide(ctx, l.newQuery(call.Take, Request{key, limit, quantity}))
	return a.result(0), err
}

// Peek answers as Allow would, and takes nothing: Remaining and ResetAfter tell the state
// as it is, and Allowed is 0. Clients that read from replicas ask one of these.
func (l *Limiter) Peek(ctx context.Context, key string, limit Limit) (Result, error) {
	a, err := l.decide(ctx, l.newQuery(call.Peek, Request{key, limit, 1}))
	return a.result(0), err
}

// Charge accounts for tokens that were used, at least 0, whatever the funnel holds: it may
// become overfull, and then limits until enough has leaked. Result.RetryAfter says for how
// long, and is [NoRetry] if it is not overfull. A quantity above the capacity is fine.
func (l *Limiter) Charge(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	a, err := l.decide(ctx, l.newQuery(call.Charge, Request{key, limit, quantity}))
	return a.result(0), err
}

// Reset empties the funnel of that key, by DEL: whatever the key holds is deleted. It returns
// an error when Redis does not answer, whatever [OnFailure] says.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	l.local.Empty(l.prefix + key)
	if l.server == nil {
		return context.Cause(ctx)
	}
	_, err := l.await(ctx, &query{deletes: true, funnels: []funnel{{redisKey: l.prefix + key}}})
	return err
}
