package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
)

// A Limiter limits the rate of calls by funnels in Redis. Make one with [New]; all methods
// may be called from any number of goroutines.
//
// Methods return an error when there is no decision: a limit or quantity out of
// range (an error of package gcra is inside), a key that does not hold a funnel, a
// context that is done, or, unless [OnFailure] says otherwise, a Redis that does not
// answer. The Result beside an error is limited.
type Limiter struct {
	server    server
	prefix    string
	timeout   time.Duration
	clock     Clock
	hooks     []Hook
	failure   failure
	stats     stats
	prefilter prefilter
}

// New returns a Limiter that uses rdb: a client of one server, of servers behind
// Sentinel, of a cluster, or a ring. It sends nothing yet. Share it rather than make
// one for each request: each asks once whether the server has the module.
func New(rdb redis.UniversalClient, options ...Option) *Limiter {
	l := &Limiter{server: server{rdb: rdb}, clock: systemClock{}}
	for _, option := range options {
		option(l)
	}
	l.failure.start(l.clock)
	l.prefilter.start(l.clock)
	return l
}

// Allow is AllowN of one token.
func (l *Limiter) Allow(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN pours quantity tokens, at least 0, into the funnel of that key: all of
// them, or none when they do not fit.
func (l *Limiter) AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	answer := l.decide(ctx, []call{{key: key, limit: limit, quantity: quantity}})[0]
	return answer.result, answer.err
}

// AllowAtMost pours as many tokens as fit, up to quantity; Result.Allowed is how many.
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

// Peek returns the state of the funnel of that key without pouring. [Result.Limited]
// then says that there is no room for one token.
func (l *Limiter) Peek(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.AllowN(ctx, key, limit, 0)
}

// Reset empties the funnel of that key.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	key = l.prefix + key
	_, err := within(ctx, l.timeout, func(ctx context.Context) (int64, error) {
		return l.server.rdb.Del(ctx, key).Result()
	})
	l.failure.local.Empty(key)
	l.prefilter.empty(key)
	return err
}

// A Request is one of many calls for [Limiter.AllowMany].
type Request struct {
	Key      string
	Limit    Limit
	Quantity int // tokens, at least 0; 0 peeks
}

// AllowMany is AllowN of many requests, sent at once: one round trip, or one to each
// node of a cluster. The requests are decided one by one, in their order for the
// same key, and calls of others may come in between. Results has one for each request; the
// error joins those of the requests that have no decision, each an [*RequestError].
func (l *Limiter) AllowMany(ctx context.Context, requests []Request) (results []Result, err error) {
	if len(requests) == 0 {
		return nil, nil
	}
	calls := make([]call, len(requests))
	for i, request := range requests {
		calls[i] = call{key: request.Key, limit: request.Limit, quantity: request.Quantity}
	}
	results = make([]Result, len(requests))
	var errs []error
	for i, answer := range l.decide(ctx, calls) {
		results[i] = answer.result
		if answer.err != nil {
			errs = append(errs, &RequestError{Index: i, Key: requests[i].Key, Err: answer.err})
		}
	}
	return results, errors.Join(errs...)
}

// A RequestError says which request of [Limiter.AllowMany] has no decision, and why.
type RequestError struct {
	Index int
	Key   string
	Err   error
}

// Error names the request.
func (e *RequestError) Error() string {
	return fmt.Sprintf("request %d, key %q: %v", e.Index, e.Key, e.Err)
}

// Unwrap returns the reason.
func (e *RequestError) Unwrap() error { return e.Err }

// decide decides calls: first those that need no server, then those that do, then by
// the failure policy, and calls the hooks.
func (l *Limiter) decide(ctx context.Context, calls []call) []answer {
	start := l.clock.Now()
	answers := make([]answer, len(calls))
	causes := make([]error, len(calls)) // why Redis has not decided
	var pending []int                   // indexes of the calls that Redis has to decide
	for i := range calls {
		calls[i].key = l.prefix + calls[i].key
		if answers[i].err = calls[i].check(); answers[i].err != nil {
			causes[i] = answers[i].err
		} else if result, limited := l.prefilter.limits(calls[i]); limited {
			answers[i].result = result
		} else {
			pending = append(pending, i)
		}
	}

	replies := l.ask(ctx, calls, pending)
	for n, i := range pending {
		answers[i], causes[i] = replies[n], replies[n].err
		switch {
		case causes[i] == nil:
			l.failure.over(ctx)
			l.prefilter.learn(calls[i], answers[i].result, start)
		case ctx.Err() != nil:
			answers[i].err = context.Cause(ctx)
		case !isFault(causes[i]):
			answers[i] = l.failure.decide(ctx, calls[i], causes[i])
		}
	}

	duration := l.clock.Now().Sub(start)
	for i, answer := range answers {
		l.stats.count(answer)
		for _, hook := range l.hooks {
			hook.Decided(ctx, Decision{
				Key: calls[i].key, Limit: calls[i].limit, Quantity: calls[i].quantity,
				Result: answer.result, Err: causes[i], Duration: duration,
			})
		}
	}
	return answers
}

// ask asks Redis about the pending calls, for as long as the timeout allows.
func (l *Limiter) ask(ctx context.Context, calls []call, pending []int) []answer {
	if len(pending) == 0 {
		return nil
	}
	asked := make([]call, len(pending))
	for n, i := range pending {
		asked[n] = calls[i]
	}
	// The answers are returned, not written in place, because calls that were given
	// up may still be answered.
	answers, err := within(ctx, l.timeout, func(ctx context.Context) ([]answer, error) {
		return l.server.ask(ctx, asked), nil
	})
	if err != nil {
		answers = make([]answer, len(asked))
		for n := range answers {
			answers[n].err = err
		}
	}
	return answers
}

// check validates a call without asking the server.
func (c *call) check() (err error) {
	if c.rate, err = c.limit.rate(); err != nil {
		return err
	}
	if _, err := c.rate.Decide(gcra.Empty, 0, int64(c.quantity)); err != nil {
		return fmt.Errorf("limiter: quantity %d of a limit of %v: %w", c.quantity, c.limit, err)
	}
	return nil
}

// isFault reports whether the call itself is wrong, so that any server would reply an
// error. HasErrorPrefix skips a leading ERR.
func isFault(err error) bool {
	for _, prefix := range []string{
		"WRONGTYPE",
		"the key does not hold a funnel",
		"quantity and period are too large together", // for a funnel of that level
	} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// within returns when the time is over or the context is done, which a client of
// go-redis may not ([redis.Options].ContextTimeoutEnabled is off by default).
func within[T any](ctx context.Context, timeout time.Duration, ask func(context.Context) (T, error)) (T, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout,
			fmt.Errorf("limiter: no answer from Redis within %v: %w", timeout, context.DeadlineExceeded))
		defer cancel()
	}
	if ctx.Done() == nil {
		return ask(ctx)
	}
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := ask(ctx)
		done <- outcome{value, err}
	}()
	select {
	case outcome := <-done:
		if outcome.err != nil && ctx.Err() != nil {
			outcome.err = context.Cause(ctx)
		}
		return outcome.value, outcome.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
