package limiter

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
	"funnel/gcra/local"
)

// A Limiter limits the rate of calls by funnels in Redis. Make one with [New]; all methods
// may be called from any number of goroutines.
//
// Methods return an error when there is no decision: a limit or quantity out of
// range (an error of package gcra is inside), a key that does not hold a funnel, a
// context that is done, or, unless [OnFailure] says otherwise, a Redis that does not
// answer. The Result beside an error is limited.
type Limiter struct {
	server      server
	prefix      string
	timeout     time.Duration
	tooLate     error // when it is over
	longestWait time.Duration
	hooks       []Hook
	shapes      shapes
	prefilter   prefilter
	failure     failure
	now         func() time.Time
	heeds       bool // the client gives up when the context is done
}

// New returns a Limiter that uses rdb. It sends nothing yet. Share it rather than make
// one for each request: each finds out by itself whether the server has the module.
func New(rdb Client, options ...Option) *Limiter {
	l := &Limiter{now: time.Now, longestWait: forever, heeds: heedsContext(rdb)}
	for _, option := range options {
		option(l)
	}
	l.tooLate = fmt.Errorf("limiter: no answer from Redis within %v: %w", l.timeout, context.DeadlineExceeded)
	l.server.rdb, l.server.now = rdb, l.now
	l.prefilter.funnels = local.New(l.now)
	l.failure.now, l.failure.local = l.now, local.New(l.now)
	if l.failure.logger == nil {
		l.failure.logger = slog.Default()
	}
	return l
}

// Allow is AllowN of one token.
func (l *Limiter) Allow(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN pours quantity tokens, at least 0, into the funnel of that key: all of
// them, or none when they do not fit. More than the capacity never fit: the call is limited,
// and RetryAfter is [NoRetry].
func (l *Limiter) AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.one(ctx, gcra.Reserve, key, limit, quantity, 0)
}

// AllowAtMost pours as many whole tokens as fit, up to quantity, which is at least 0;
// Result.Allowed is how many.
// When it is 0, RetryAfter is the time until one fits. It takes two round
// trips or more where not all of them fit.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	for attempt := quantity; ; {
		result, err := l.AllowN(ctx, key, limit, attempt)
		if err != nil || result.Allowed > 0 || attempt <= 1 {
			result.Quantity = quantity
			return result, err
		}
		// Others may take what remains, and more may leak, before the next attempt.
		attempt = max(1, min(result.Remaining, attempt-1))
	}
}

// Peek answers as Allow would, but pours nothing: Remaining and ResetAfter tell the state
// as it is, and Allowed is 0. Clients that read from replicas ask one of these.
func (l *Limiter) Peek(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.one(ctx, gcra.Peek, key, limit, 1, 0)
}

// Charge books tokens that were used, at least 0, whatever the funnel holds: it may become
// overfull, and then limits until enough has leaked; Result.RetryAfter says for how long. A
// quantity above the capacity is fine.
func (l *Limiter) Charge(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.one(ctx, gcra.Charge, key, limit, quantity, 0)
}

// Refund gives tokens back, at least 0. What has leaked cannot be given back: the funnel
// becomes no emptier than empty. Result.Allowed is the quantity, whatever had leaked.
func (l *Limiter) Refund(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	return l.one(ctx, gcra.Refund, key, limit, quantity, 0)
}

// Reset empties the funnel of that key, by DEL: whatever the key holds is deleted. It returns
// an error when Redis does not answer, whatever [OnFailure] says.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	key = l.prefix + key
	l.failure.local.Empty(key)
	l.prefilter.funnels.Empty(key)
	ctx, cancel := l.withTimeout(ctx)
	defer cancel()
	return l.within(ctx, func(ctx context.Context) error {
		return l.server.send(ctx, redis.NewCmd(ctx, "del", key))
	})
}

// one decides a call of one funnel.
func (l *Limiter) one(ctx context.Context, operation gcra.Operation, key string, limit Limit, quantity int, longestWait time.Duration) (Result, error) {
	var single struct { // one allocation, not three
		call
		funnel  [1]funnel
		results [1]Result
	}
	single.funnel[0] = funnel{key: l.prefix + key, limit: limit, quantity: quantity}
	single.call = call{operation: operation, funnels: single.funnel[:], longestWait: longestWait, results: single.results[:]}
	err := l.decide(ctx, &single.call)
	return single.call.results[0], err
}

// decide decides a call and calls the hooks.
func (l *Limiter) decide(ctx context.Context, c *call) error {
	start := l.now()
	err := c.check(&l.shapes)
	cause := err
	if err == nil && !l.prefilter.limits(c) {
		cause = l.ask(ctx, c)
		err = l.settle(ctx, c, cause, start)
	}
	l.tell(ctx, c, err, cause, start)
	return err
}

// ask asks Redis, unless it has ceased to answer.
func (l *Limiter) ask(ctx context.Context, c *call) error {
	if err := l.refuses(ctx); err != nil {
		return err
	}
	within, cancel := l.withTimeout(ctx)
	defer cancel()
	var err error
	if l.heeds || within.Done() == nil {
		err = causeOf(within, l.server.ask(within, c))
	} else {
		// A call that was given up may still be answered, in results that nobody reads.
		late := *c
		if err = l.within(within, func(ctx context.Context) error { return l.server.ask(ctx, &late) }); err != nil {
			c.results = make([]Result, len(c.results))
		}
	}
	l.report(ctx, err)
	return err
}

// refuses returns why Redis is not to be asked, or nil.
func (l *Limiter) refuses(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.failure.breaker.refuses(l.now())
}

// report tells the breaker how calls that were sent at once have ended, but for those that
// the caller has given up. A reply is an answer, also one that says an error.
func (l *Limiter) report(ctx context.Context, errs ...error) {
	for _, err := range errs {
		if err == nil || isReply(err) {
			l.failure.breaker.answered()
			return
		}
	}
	if ctx.Err() == nil {
		l.failure.breaker.failed(l.now(), errs[0])
	}
}

// settle takes what Redis said, or decides without it.
func (l *Limiter) settle(ctx context.Context, c *call, cause error, start time.Time) error {
	if cause == nil {
		l.failure.outage.over(ctx, l.failure.logger, l.now())
		l.prefilter.learn(c, start)
		return nil
	}
	clear(c.results) // the first attempt of two may have filled them in
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isFault(cause):
		return cause
	}
	return l.failure.decide(ctx, c, cause)
}

// tell calls the hooks.
func (l *Limiter) tell(ctx context.Context, c *call, err, cause error, start time.Time) {
	if len(l.hooks) == 0 {
		return
	}
	duration := l.now().Sub(start)
	for i := range c.funnels {
		c.results[i].Err = err
		decision := Decision{Command: names[c.operation].script.(string), Key: c.funnels[i].key, Result: c.results[i], Err: cause, Duration: duration}
		decision.Result.Limit, decision.Result.Quantity = c.funnels[i].limit, c.funnels[i].quantity
		c.results[i].Err = nil
		for _, hook := range l.hooks {
			hook(ctx, decision)
		}
	}
}

func (l *Limiter) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, l.timeout, l.tooLate)
}

// heedsContext says that a client of go-redis gives up when the context is done, which is
// off by default.
func heedsContext(rdb Client) bool {
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

// within returns when the context is done, which the client may not.
func (l *Limiter) within(ctx context.Context, ask func(context.Context) error) error {
	if l.heeds || ctx.Done() == nil {
		return causeOf(ctx, ask(ctx))
	}
	done := make(chan error, 1) // from no pool: a channel of a bubble of synctest must not leave it
	go func() { done <- ask(ctx) }()
	select {
	case err := <-done:
		return causeOf(ctx, err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// causeOf says why, where the context is the reason for an error.
func causeOf(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // the connection, which has the same deadline, may be faster
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
