package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/wait"
)

// Reserve takes quantity tokens as AllowN does, even if they fit only later, within maxWait:
// Result.Wait says how long the caller has to wait before it goes ahead. Reservations are served in
// the order of asking, because the funnel limits all other callers until then. With a max wait of 0
// or less, Reserve is AllowN; for a quota it must be 0 or less.
//
// If the wait would be longer, the call is limited and has reserved nothing, and RetryAfter is the
// time after which the same call would be allowed. Give a reservation that is not used back with
// [Limiter.Settle].
func (l *Limiter) Reserve(ctx context.Context, key string, limit Limit, quantity int, maxWait time.Duration) (
	Result, error) {
	inv := l.invocationFor(call.Reserve, key, limit, quantity)
	inv.MaxWait = max(maxWait, 0)
	inv.checkMaxWait(key)
	return l.decideOne(ctx, inv)
}

// Wait is WaitN of one token.
func (l *Limiter) Wait(ctx context.Context, key string, limit Limit) error {
	return l.WaitN(ctx, key, limit, 1)
}

// WaitN reserves quantity tokens and sleeps until the reservation is due: one call and one sleep.
// Callers are served in the order of asking. Tokens of a quota cannot be reserved: WaitN asks for
// them, and if it is limited, asks again within a second after the period has ended. Callers of a
// quota are served in no order.
//
// WaitN waits no longer than the deadline of ctx and [WithMaxWait] allow. If the wait would be
// longer, it reserves nothing and returns [ErrWaitTooLong] at once. It returns [ErrNeverFits] if
// the quantity is above the capacity or the quota has ended for good, and the cause if ctx is done
// before the reservation is due. While Redis fails, it returns [ErrUnavailable], or waits as
// [OnFailure] says: with [FailClosed] it asks again each second.
//
// A caller that gives up leaves its reservation behind, and nobody else gets the tokens. If the
// tokens came back, a newcomer could take them and go ahead beside callers who reserved later and
// keep their turns: more than the limit. If callers without a deadline give up often, set
// [WithMaxWait], or the reservations that they leave starve other callers.
func (l *Limiter) WaitN(ctx context.Context, key string, limit Limit, quantity int) error {
	return l.wait(ctx, func(maxWait time.Duration) (Results, time.Duration, error) {
		if limit.isQuota() {
			result, err := l.AllowN(ctx, key, limit, quantity)
			return Results{result}, result.RetryAfter, err
		}
		result, err := l.Reserve(ctx, key, limit, quantity, maxWait)
		due := wait.Due(maxWait, result.RetryAfter)
		if result.Source == FromClosed {
			due = result.RetryAfter // there is no queue
		}
		return Results{result}, due, err
	})
}

// WaitAll asks as [Limiter.AllowAll] does, and asks again after RetryAfter, until it has taken all
// tokens. There is no queue for calls of several rows: smaller calls may be served first. Deadlines
// and errors are as in [Limiter.WaitN]. Results that come with an error are limited.
func (l *Limiter) WaitAll(ctx context.Context, requests ...Request) (results Results, err error) {
	err = l.wait(ctx, func(time.Duration) (Results, time.Duration, error) {
		results, err = l.AllowAll(ctx, requests...)
		return results, results.RetryAfter(), err
	})
	return results, err
}

// wait asks until tokens are taken, and sleeps until they are due. Ask gets the time that the
// caller can wait, and also returns the time after which the tokens of a limited call would be due.
func (l *Limiter) wait(ctx context.Context, ask func(maxWait time.Duration) (Results, time.Duration, error)) error {
	began := l.now()
	for waited := time.Duration(0); ; waited = l.now() - began {
		maxWait := max(0, min(l.maxWait-waited, wait.Left(ctx)))
		results, due, err := ask(maxWait)
		slowest := results.slowest()
		switch {
		case err != nil:
			return err
		case !results.Limited():
			return wait.Sleep(ctx, results[0].Wait)
		case slowest.RetryAfter == NoRetry:
			return slowest.neverFits()
		case due > maxWait:
			return waitsNoLonger(slowest.Key, tokensLate(due), slowest.RetryAfter, maxWait)
		}
		err = wait.Sleep(ctx, untilRetry(results, maxWait))
		if err != nil {
			return err
		}
	}
}

// neverFits returns the error of a caller that waits for a Result that can never be allowed.
func (r Result) neverFits() error {
	return fmt.Errorf("%w: key %q: %d of a limit of %v", ErrNeverFits, r.Key, r.Quantity, r.Limit)
}

// waitsNoLonger returns the error of a caller that waits for no more than maxWait.
func waitsNoLonger(key, why string, retryAfter, maxWait time.Duration) error {
	text := fmt.Sprintf("%v: key %q: %s, and the caller waits for no more than %v", ErrWaitTooLong, key, why, maxWait)
	return &WaitError{Key: key, RetryAfter: retryAfter, text: text}
}

func tokensLate(due time.Duration) string {
	return fmt.Sprintf("the tokens would be due after %v", due)
}

// checkMaxWait rejects a call that reserves tokens of a quota for later.
func (inv *invocation) checkMaxWait(key string) {
	if inv.MaxWait > 0 && inv.Rows[0].Kind == call.Quota {
		inv.rejectInvalid(fmt.Errorf("limiter: key %q: tokens of a quota cannot be reserved for later: "+
			"the max wait must be 0, not %v; WaitN waits for the next period", key, inv.MaxWait))
	}
}

// maxSpread is the longest time within which callers that wait for a quota ask again, because all
// wait for the same instant.
const maxSpread = time.Second

// spreadOf returns that time for a limit: for a window no more than a tenth, so that little of the
// next one is lost.
func spreadOf(limit Limit) time.Duration {
	lasts := limit.calendar.Lasts()
	if lasts > 0 {
		return min(maxSpread, lasts/10)
	}
	return maxSpread
}

// untilRetry returns how long the caller of a limited call sleeps before it asks again: at most
// maxWait.
func untilRetry(results Results, maxWait time.Duration) time.Duration {
	after := results.RetryAfter()
	for _, r := range results {
		if r.Limited() && r.Limit.isQuota() && r.Source != FromClosed {
			return after + rand.N(min(spreadOf(r.Limit), maxWait-after)+1)
		}
	}
	return after
}
