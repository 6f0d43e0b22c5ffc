package limiter

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
	"funnel/internal/funnels"
)

// A Limiter limits the rate of calls by funnels in Redis. Make one with [New], or with
// [NewLocal] by funnels in this process; all methods may be called from any number of
// goroutines.
//
// Methods return an error when there is no decision: a limit or quantity out of
// range (an error of package gcra is inside), a key that does not hold a funnel, a
// context that is done, or, unless [OnFailure] says otherwise, a Redis that does not
// answer. The Result beside an error is limited.
type Limiter struct {
	server      *server // nil for [NewLocal]
	prefix      string
	timeout     time.Duration
	tooLate     error // when it is over
	longestWait time.Duration
	hooks       []Hook
	shapes      shapes
	prefilter   prefilter
	leases      leases
	failure     failure
	now         func() time.Time
	only        []Path
	givesUp     bool // the client returns when the context is done
}

// New returns a Limiter that uses rdb. It sends nothing yet. Share it rather than make
// one for each request: each finds out by itself whether the server has the module.
//
// New panics when rdb is nil or an option is not valid.
func New(rdb Client, options ...Option) *Limiter {
	if v := reflect.ValueOf(rdb); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("limiter: New needs a client of Redis, not nil")
	}
	l := NewLocal(options...)
	l.server = &server{rdb: rdb, now: l.now}
	if len(l.only) > 0 {
		l.server.only = l.only[0]
	}
	l.givesUp = givesUp(rdb)
	l.prefilter.enabled = l.prefilter.enabled && !l.leases.enabled
	return l
}

// NewLocal returns a Limiter without Redis, by funnels in this process: for tests, and for
// programs of one process. Options about Redis have no effect. In a bubble of
// testing/synctest it goes by the clock of the bubble.
//
// NewLocal panics when an option is not valid.
func NewLocal(options ...Option) *Limiter {
	l := &Limiter{now: time.Now, longestWait: forever}
	l.failure.logger = slog.Default()
	for _, option := range options {
		option(l)
	}
	switch {
	case l.failure.policy < FailWithError || l.failure.policy > FailLocal:
		panic(fmt.Sprintf("limiter: OnFailure needs one of the constants, not Failure(%d)", l.failure.policy))
	case len(l.only) > 1:
		panic("limiter: only one of WithModuleOnly and WithScriptOnly is possible")
	case l.failure.logger == nil:
		panic("limiter: WithLogger needs a logger, not nil")
	}
	for _, hook := range l.hooks {
		if hook == nil {
			panic("limiter: WithHook needs a hook, not nil")
		}
	}
	l.tooLate = fmt.Errorf("limiter: no answer from Redis within %v: %w", l.timeout, context.DeadlineExceeded)
	l.prefilter.funnels = funnels.New(l.now)
	l.failure.now, l.failure.local = l.now, funnels.New(l.now)
	return l
}

// givesUp says that a client of go-redis returns when the context is done, which is off by
// default.
func givesUp(rdb Client) bool {
	switch rdb := rdb.(type) {
	case interface{ Options() *redis.Options }:
		return rdb.Options().ContextTimeoutEnabled
	case interface{ Options() *redis.ClusterOptions }:
		return rdb.Options().ContextTimeoutEnabled
	case interface{ Options() *redis.RingOptions }:
		return rdb.Options().ContextTimeoutEnabled
	}
	return false
}

// Allow is AllowN of one token.
func (l *Limiter) Allow(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN takes quantity tokens, at least 0, from the funnel of that key: all of them, or
// none when they do not fit. More than the capacity never fit: the call is limited, and
// RetryAfter is [NoRetry].
func (l *Limiter) AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	if result, ok := l.leased(ctx, key, limit, quantity); ok {
		return result, nil
	}
	return l.one(ctx, gcra.Reserve, key, limit, quantity, 0, true)
}

// AllowAtMost takes as many whole tokens as fit, up to quantity, which is at least 0;
// Result.Allowed is how many. When it is 0, RetryAfter is the time until one fits. It is one
// round trip; servers that have CL.THROTTLE alone need more where not all of them fit.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.one(ctx, gcra.Take, key, limit, quantity, 0, false)
}

// Peek answers as Allow would, and takes nothing: Remaining and ResetAfter tell the state
// as it is, and Allowed is 0. Clients that read from replicas ask one of these.
func (l *Limiter) Peek(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.one(ctx, gcra.Peek, key, limit, 1, 0, false)
}

// Charge accounts for tokens that were used, at least 0, whatever the funnel holds: it may
// become overfull, and then limits until enough has leaked. Result.RetryAfter says for how
// long, and is [NoRetry] if it is not overfull. A quantity above the capacity is fine.
func (l *Limiter) Charge(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.one(ctx, gcra.Charge, key, limit, quantity, 0, false)
}

// Refund gives tokens back, at least 0, out of whatever the funnel holds, but not below
// empty. Result.Allowed is the quantity, whatever had leaked.
//
// A late Refund goes over the bound. Of a funnel of 10 that drains in a second, A takes 10.
// 1.1 seconds later B takes 10, and A gives back its 10, which have leaked: B's come out, and
// C is allowed 10 at the same instant. [Limiter.Settle] gives back only those tokens of a
// call that have not leaked; prefer it where there is a Result.
//
// Refunds are sent once, whatever retries the client is set to. After an error without a
// reply the tokens may be back or not: do not refund them again.
func (l *Limiter) Refund(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.one(ctx, gcra.Refund, key, limit, quantity, gcra.NoReceipt, false)
}

// Reset empties the funnel of that key, by DEL: whatever the key holds is deleted. It returns
// an error when Redis does not answer, whatever [OnFailure] says.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	defer l.leases.endBackOff(key)
	key = l.prefix + key
	l.failure.local.Empty(key)
	l.prefilter.funnels.Empty(key)
	if l.server == nil {
		return context.Cause(ctx)
	}
	within, cancel := l.withTimeout(ctx)
	defer cancel()
	return l.await(within, func(ctx context.Context) error {
		return l.server.send(ctx, redis.NewCmd(ctx, "del", key))
	})
}
