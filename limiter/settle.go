package limiter

import (
	"context"
	"errors"
	"fmt"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// Settle corrects what a call took to what was used, at least 0 tokens: it gives the rest back,
// or charges more. With 0, it gives back a reservation that is not used. The Result comes from
// [Limiter.Allow] and its like, [Limiter.Reserve], [Limiter.Charge],
// [Limiter.AllowAll] or [Limiter.TryAcquire] on tokens. Another Limiter, even of another process, may settle it, by
// Key, Limit, Allowed and Receipt.
//
// Tokens that have leaked meanwhile do not come back. A quota is settled in the period in which the call was counted:
// once that is over, Settle sends what it would, and nothing changes. The bound is the one the smaller call would have
// had; docs/commands.md lists the exceptions. Without a receipt (limited calls, Peek,
// decisions without Redis) nothing is given back, and more is charged. Results of funnels in this
// process ([NewLocal], [FailLocal]) are settled there.
//
// Settle sets Allowed to used, and Receipt to 0, once a command may have been sent: to settle the
// same Result again does nothing. Do not settle copies, or one Result from two goroutines. If the answer is lost,
// Settle returns [ErrUnavailable] and the tokens stay taken: no [OnFailure] applies.
//
// Settle returns the Result of the refund or the charge, or a copy if there is nothing to do.
func (l *Limiter) Settle(ctx context.Context, result *Result, used int) (Result, error) {
	switch {
	case result == nil:
		return Result{}, backend.Invalid(errors.New("limiter: Settle needs a Result, not nil"))
	case used < 0:
		return Result{}, backend.Invalid(
			fmt.Errorf("limiter: key %q: the number of used tokens must be at least 0, not %d", result.Key, used))
	case used == result.Allowed, used < result.Allowed && result.Receipt == 0:
		return *result, nil
	}
	q, by := l.settlement(result, used), l.shared
	if result.Source == FromLocal {
		by = l.local
	}
	reply, err := l.decide(ctx, by, q)
	if reply.Sent || reply.Source != "" {
		result.Allowed, result.Receipt = used, 0
	}
	if reply.Refused { // the period is over
		return *result, err
	}
	return q.results[0], err
}

// settlement is a call that refunds what was not used, or charges what was used beyond.
func (l *Limiter) settlement(result *Result, used int) *query {
	operation, quantity := call.Refund, result.Allowed-used
	if quantity < 0 {
		operation, quantity = call.Charge, used-result.Allowed
	}
	q := l.queryFor(operation, result.Key, result.Limit, quantity)
	switch {
	case result.Receipt == 0:
	case result.Limit.isQuota():
		q.forPeriodOf(result)
	case operation == call.Refund:
		q.Receipt = result.Receipt
	}
	return q
}
