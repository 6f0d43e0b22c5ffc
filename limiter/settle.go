package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/undo"
)

// Settle adjusts a call to the number of tokens that were used, at least 0: it gives the rest back,
// or charges more. With 0, it gives back a reservation that is not used. The Result comes from any
// method that takes or charges tokens. Another Limiter, even of another process, may settle it, by
// Key, Limit, Allowed and Receipt.
//
// Tokens that have leaked meanwhile do not come back. A quota is settled in the period in which the
// call was counted: once that period is over, nothing changes, and tokens beyond the estimate are
// counted nowhere. The limit holds as if the call had taken the smaller number; docs/commands.md
// lists the exceptions. Without a receipt (limited calls, Peek, [FailOpen]) nothing is given back,
// but more is charged. A Result of this process ([NewLocal], [FailLocal]) is settled in this
// process.
//
// Once a command may have been sent, Settle sets Allowed to used, and Receipt to 0. So settling the
// same Result with the same number again does nothing; a larger number charges the difference, and
// a smaller one changes nothing, since the receipt is spent. A stream may call Settle with its
// running total. A refused connection counts as sent. Do not settle copies of a Result, nor one
// Result from two goroutines. If the answer is lost, Settle returns [ErrUnavailable], and tokens
// may stay taken, or not be charged; [OnFailure] does not apply.
//
// Settle returns the Result of the refund or the charge. If there is nothing to do, it returns a
// copy of result.
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
	inv := l.settlement(result, used)
	reply, err := l.decide(ctx, inv)
	if reply.Sent || reply.First.Source != "" {
		result.Allowed, result.Receipt = used, 0
	}
	if reply.Refused { // the period is over
		return *result, err
	}
	return inv.results[0], err
}

// SettleAll settles each of 1 to 64 Results of one call, or of several, with its number of used
// tokens, all at once: see [Limiter.Settle]. Used has a number for each Result. SettleAll returns
// the Results after, in the same order, and the errors of all that were not settled, joined.
//
// Like Settle, it changes each Result once its settlement may have been sent. After an error,
// settle those again whose Allowed is not yet used.
func (l *Limiter) SettleAll(ctx context.Context, results Results, used []int) (Results, error) {
	if len(results) != len(used) || len(results) < 1 || len(results) > call.MaxRows {
		return make(Results, len(results)), backend.Invalid(fmt.Errorf(
			"limiter: SettleAll needs 1 to %d Results, and a number of used tokens for each: got %d Results and %d numbers",
			call.MaxRows, len(results), len(used)))
	}
	after, errs := make(Results, len(results)), make([]error, len(results))
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { after[i], errs[i] = l.Settle(ctx, &results[i], used[i]) })
	}
	group.Wait()
	return after, errors.Join(errs...)
}

// SettleSoon is Settle that does not wait: it returns at once, and settles in the background, even
// if ctx is done. If no connection is free, a queue is full or an outage keeps calls from being
// sent, it tries again for 51 seconds. [Limiter.Drain] waits until Redis has answered. The Result
// is a copy, so the caller's does not tell that it is settled: do not settle it again.
func (l *Limiter) SettleSoon(ctx context.Context, result Result, used int) {
	l.undo.Go(ctx, func(ctx context.Context) {
		settle := func() error { _, err := l.Settle(ctx, &result, used); return err }
		_ = undo.SendAgain(settle(), settle)
	})
}

// settlement returns a call that refunds the tokens that were not used, or charges the tokens that
// were used beyond.
func (l *Limiter) settlement(result *Result, used int) *invocation {
	operation, quantity := call.Refund, result.Allowed-used
	if quantity < 0 {
		operation, quantity = call.Charge, used-result.Allowed
	}
	inv := l.invocationFor(operation, result.Key, result.Limit, quantity)
	inv.Settles = true
	inv.Rows[0].IsLocal = result.Source == FromLocal
	switch {
	case result.Receipt == 0:
	case result.Limit.isQuota():
		inv.forPeriodOf(result)
	case operation == call.Refund:
		inv.Receipt = result.Receipt
	}
	return inv
}
