package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"funnel/gcra"
)

// forever is the longest wait that the commands take.
const forever time.Duration = 1<<63 - 1

// ErrNeverFits means that a quantity is larger than the capacity: waiting cannot help.
var ErrNeverFits = errors.New("limiter: the quantity is larger than the capacity: no waiting helps")

// Reserve takes quantity tokens, as AllowN does, and also tokens that will have leaked
// within longestWait: Result.Wait says how long the caller has to wait before it goes ahead.
// Reservations are served in the order of asking, because the funnel limits others until
// then. A longest wait of 0 or less is AllowN.
//
// If the wait would be longer, the call is limited and has reserved nothing, and RetryAfter
// says after what time the same call would be allowed.
//
// An unused reservation is not returned: settle its Result with 0, see [Limiter.Settle].
func (l *Limiter) Reserve(ctx context.Context, key string, limit Limit, quantity int, longestWait time.Duration) (Result, error) {
	return l.one(ctx, gcra.Reserve, key, limit, quantity, int64(max(longestWait, 0)), false)
}

// Wait is WaitN of one token.
func (l *Limiter) Wait(ctx context.Context, key string, limit Limit) error {
	return l.WaitN(ctx, key, limit, 1)
}

// WaitN reserves quantity tokens and sleeps until the reservation is due: one call and one
// sleep, in the order of asking.
//
// It waits no longer than the deadline of ctx and [WithLongestWait] allow. If the wait would
// be longer, it reserves nothing and returns an error at once, which wraps
// [context.DeadlineExceeded]. It returns [ErrNeverFits] when the quantity is larger than the
// capacity, and the cause when ctx is done before the reservation is due.
//
// A caller that gives up leaves its reservation behind: nobody else gets the tokens. Where
// callers without a deadline give up often, as when users close their connections, set
// [WithLongestWait], or the reservations of callers that have gone starve the others.
func (l *Limiter) WaitN(ctx context.Context, key string, limit Limit, quantity int) error {
	return l.wait(ctx, func(longest time.Duration) (Result, time.Duration, error) {
		result, err := l.Reserve(ctx, key, limit, quantity, longest)
		if result.Path == PathClosed {
			return result, result.RetryAfter, err // there is no queue
		}
		return result, longest + min(result.RetryAfter, forever-longest), err
	})
}

// WaitAll waits until it has taken the tokens of 1 to 64 requests from all funnels. There
// is no queue for several funnels: it asks, as AllowAll does, and asks again after
// RetryAfter. Callers that need less may be served first.
//
// Deadlines and errors are those of [Limiter.WaitN].
func (l *Limiter) WaitAll(ctx context.Context, requests ...Request) error {
	return l.wait(ctx, func(time.Duration) (Result, time.Duration, error) {
		whole, _, err := l.AllowAll(ctx, requests...)
		return whole, whole.RetryAfter, err
	})
}

// wait asks until tokens are taken, and sleeps until they are due. Ask is told how long the
// caller can wait, and also returns how long a limited one would have to.
func (l *Limiter) wait(ctx context.Context, ask func(longest time.Duration) (Result, time.Duration, error)) error {
	begin := l.now()
	for waited := time.Duration(0); ; waited = l.now().Sub(begin) {
		longest := l.longestWait - waited
		if deadline, ok := ctx.Deadline(); ok {
			longest = min(longest, time.Until(deadline))
		}
		longest = max(longest, 0)
		result, due, err := ask(longest)
		switch {
		case err != nil:
			return err
		case !result.Limited():
			return sleep(ctx, result.Wait)
		case result.RetryAfter == NoRetry:
			return ErrNeverFits
		case due > longest:
			return fmt.Errorf("limiter: the tokens would be due after %v, and the caller waits for no more than %v: %w", due, longest, context.DeadlineExceeded)
		}
		if err := sleep(ctx, result.RetryAfter); err != nil {
			return err
		}
	}
}

// sleep returns nil after d, or the cause when ctx is done before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
