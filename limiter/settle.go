package limiter

import (
	"context"
	"errors"
	"fmt"

	"funnel/internal/call"
)

// Settle corrects what a call took to what was used, at least 0 tokens: it gives the rest back,
// or charges more. With 0, it gives back a reservation that is not used. The Result is one that
// [Limiter.Allow] and its like, [Limiter.Reserve] or [Limiter.Charge] returned, or one of
// [Limiter.AllowAll]. Another Limiter, also of another process, may settle it, by Key, Limit,
// Allowed and Receipt.
//
// Tokens that have leaked meanwhile do not come back. The bound holds as if the call had taken
// less, but for what docs/commands.md says of refunds. Without a receipt (limited calls, Peek,
// decisions without Redis) nothing is given back, and more is charged. Results of funnels in this
// process ([NewLocal], [FailLocal]) are settled there.
//
// Settle sets Allowed to used, and Receipt to 0, once a command may have been sent: to settle the
// same Result again does nothing. Copies of it do not know, and two goroutines must not settle one
// at the same time. A lost answer is an error, and the tokens stay taken: no [OnFailure] applies.
//
// Settle returns the Result of the refund or the charge, or a copy where there is nothing to do.
func (l *Limiter) Settle(ctx context.Context, result *Result, used int) (Result, error) {
	switch {
	case result == nil:
		return Result{}, errors.New("limiter: Settle needs a Result, not nil")
	case used < 0:
		return Result{}, fmt.Errorf("limiter: key %q: the number of used tokens must be at least 0, not %d", result.Key, used)
	case used == result.Allowed, used < result.Allowed && result.Receipt == 0:
		return *result, nil
	}
	a, err := l.decide(ctx, l.settlementQuery(result, used))
	if a.acted {
		result.Allowed, result.Receipt = used, 0
	}
	return a.result(0), err
}

// settlementQuery is for the refund of what was not used, or the charge of what was used beyond.
func (l *Limiter) settlementQuery(result *Result, used int) *query {
	var q *query
	if used < result.Allowed {
		q = l.newQuery(call.Refund, Request{result.Key, result.Limit, result.Allowed - used})
		q.receipt, q.extra = result.Receipt, []any{result.Receipt}
	} else {
		q = l.newQuery(call.Charge, Request{result.Key, result.Limit, used - result.Allowed})
	}
	if q.decider = redisAlone; result.Path == PathLocal {
		q.decider = processAlone
	}
	return q
}
