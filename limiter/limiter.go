package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
)

// A Limiter asks Redis whether calls may go ahead. Make one with [New]; all methods
// may be called from any number of goroutines.
//
// Methods return an error when there is no decision: a limit or quantity out of
// range (an error of package gcra is inside), a key that holds something else, a
// context that is done, or, unless [OnFailure] says otherwise, a Redis that cannot
// be asked. The Result beside an error is limited.
type Limiter struct {
	server    server
	prefix    string
	timeout   time.Duration
	clock     Clock
	hooks     []Hook
	failure   failure
	stats     stats
	prefilter *prefilter
}

// New returns a Limiter that asks through rdb: a client of one server, of servers
// behind Sentinel, of a cluster, or a ring. It sends nothing yet.
func New(rdb redis.UniversalClient, options ...Option) *Limiter {
	l := &Limiter{server: server{rdb: rdb}, clock: systemClock{}}
	for _, option := range options {
		option(l)
	}
	l.failure.start(l.clock)
	if l.prefilter != nil {
		l.prefilter.start(l.clock)
	}
	return l
}

// Allow is AllowN of one token.
func (l *Limiter) Allow(ctx context.Context, key string, limit Limit) (Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN pours quantity tokens, at least 0, into the funnel of that key: all of
// them, or none when they do not fit.
func (l *Limiter) AllowN(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	answer := l.decide(ctx, []call{{key, limit, quantity}})[0]
	return answer.result, answer.err
}

// AllowAtMost pours as many tokens as fit, up to quantity; Result.Allowed tells how
// many. When it is none, RetryAfter is the time until one fits. It takes two round
// trips or more where not all of them fit.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, limit Limit, quantity int) (Result, error) {
	for attempt := quantity; ; {
		result, err := l.AllowN(ctx, key, limit, attempt)
		if err != nil || result.Allowed > 0 || attempt <= 1 {
			result.Quantity = quantity
			return result, err
		}
		// What remains may be gone by then; and what leaks meanwhile may fit.
		attempt = max(1, min(result.Remaining, attempt-1))
	}
}

// Peek looks at the funnel of that key without pouring. [Result.Limited] then says
// that there is no room for one token.
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
	if l.prefilter != nil {
		l.prefilter.funnels.Empty(key)
	}
	return err
}

// A Request is one of many calls for [Limiter.AllowMany].
type Request struct {
	Key      string
	Limit    Limit
	Quantity int // tokens, at least 0; 0 looks without pouring
}

// AllowMany is AllowN of many requests, sent at once: one round trip, or one to each
// node of a cluster. The requests are decided one by one, in their order for the
// same key, and others may come in between. Results has one for each request; the
// error joins those of the requests that have no decision, each an [*RequestError].
func (l *Limiter) AllowMany(ctx context.Context, requests []Request) (results []Result, err error) {
	if len(requests) == 0 {
		return nil, nil
	}
	calls := make([]call, len(requests))
	for i, request := range requests {
		calls[i] = call{request.Key, request.Limit, request.Quantity}
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

// decide is the way of every call: the prefilter, the server, what to do without
// it, and the hooks.
func (l *Limiter) decide(ctx context.Context, calls []call) []answer {
	start := l.clock.Now()
	answers := make([]answer, len(calls))
	causes := make([]error, len(calls)) // why the server has not decided
	var asked []call
	var askedAt []int
	for i := range calls {
		calls[i].key = l.prefix + calls[i].key
		if answers[i].err = calls[i].check(); answers[i].err != nil {
			continue
		}
		if l.prefilter != nil {
			if result, limited := l.prefilter.limits(calls[i]); limited {
				answers[i].result = result
				continue
			}
		}
		asked, askedAt = append(asked, calls[i]), append(askedAt, i)
	}

	if len(asked) > 0 {
		replies, err := within(ctx, l.timeout, func(ctx context.Context) ([]answer, error) {
			return l.server.ask(ctx, asked), nil
		})
		for n, i := range askedAt {
			answers[i].err = err
			if err == nil {
				answers[i] = replies[n]
			}
			causes[i] = answers[i].err
			switch {
			case answers[i].err == nil:
				l.failure.over()
				if l.prefilter != nil {
					l.prefilter.learn(calls[i], answers[i].result, start)
				}
			case ctx.Err() != nil:
				answers[i].err = context.Cause(ctx)
			case !isFault(answers[i].err):
				answers[i] = l.failure.decide(ctx, calls[i], answers[i].err)
			}
		}
	}

	for i, answer := range answers {
		l.stats.count(answer)
		for _, hook := range l.hooks {
			hook.Decided(ctx, Decision{
				Key: calls[i].key, Limit: calls[i].limit, Quantity: calls[i].quantity,
				Result: answer.result, Err: cmp.Or(causes[i], answer.err), Duration: l.clock.Now().Sub(start),
			})
		}
	}
	return answers
}

// check finds what is wrong with a call without asking the server.
func (c call) check() error {
	rate, err := c.limit.rate()
	if err != nil {
		return err
	}
	if _, err := rate.Decide(gcra.Empty, 0, int64(c.quantity)); err != nil {
		return fmt.Errorf("limiter: quantity %d of a limit of %v: %w", c.quantity, c.limit, err)
	}
	return nil
}

// isFault says that the call is wrong, so that no other server would answer it
// either: its key holds no funnel.
func isFault(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "ERR the key does not hold a funnel")
}

// within gives up when the time is over or the context is done, although a client
// of go-redis may not ([redis.Options].ContextTimeoutEnabled is off by default).
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
