package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// ErrNeverFits means that a quantity is larger than the capacity, so that waiting
// cannot help.
var ErrNeverFits = errors.New("limiter: the quantity is larger than the capacity: no waiting helps")

// Wait is WaitN of one token.
func (l *Limiter) Wait(ctx context.Context, key string, limit Limit) error {
	return l.WaitN(ctx, key, limit, 1)
}

// WaitN waits until quantity tokens have been poured. It calls [Limiter.AllowN],
// sleeps for RetryAfter and up to an eighth more, at random, and calls again. Waiters
// are not served in order. It returns the cause when ctx is done,
// [context.DeadlineExceeded] at once when it would sleep beyond the deadline of ctx,
// and [ErrNeverFits] when the quantity is larger than the capacity.
func (l *Limiter) WaitN(ctx context.Context, key string, limit Limit, quantity int) error {
	for {
		result, err := l.AllowN(ctx, key, limit, quantity)
		switch {
		case err != nil:
			return err
		case quantity == 0 || !result.Limited():
			return nil
		case quantity > limit.Capacity():
			return ErrNeverFits
		}
		pause := withJitter(result.RetryAfter)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
			return fmt.Errorf("limiter: key %q is limited for %v, beyond the deadline: %w",
				key, result.RetryAfter, context.DeadlineExceeded)
		}
		if err := l.clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// shortestPause bounds how often those who wait for fast funnels call.
const shortestPause = time.Millisecond

func withJitter(pause time.Duration) time.Duration {
	pause = max(pause, shortestPause)
	return pause + rand.N(pause/8)
}

// Do waits, as [Limiter.Wait] does, and then calls do and returns its error.
func (l *Limiter) Do(ctx context.Context, key string, limit Limit, do func(context.Context) error) error {
	if err := l.Wait(ctx, key, limit); err != nil {
		return err
	}
	return do(ctx)
}
