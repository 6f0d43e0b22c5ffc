package limiter

import (
	"context"
	"errors"
	"fmt"

	"funnel/gcra"
)

// A claim is what a Result has for [Limiter.Settle]: the Limiter that made it, the key
// without prefix, and the receipt, or 0.
type claim struct {
	limiter *Limiter
	key     string
	receipt int64
	settled bool
}

// ErrSettled means that a Result was passed to [Limiter.Settle] twice.
var ErrSettled = errors.New("limiter: the Result has been settled: settle each once")

// Settle makes up for the difference between the tokens that a call took and those that were
// used, at least 0: the rest is given back, or more are charged. With 0, it gives a
// reservation back that is not used. The Result is that of [Limiter.Allow] and its like,
// [Limiter.Reserve], [Limiter.Charge], or of one request of [Limiter.AllowAll] or
// [Limiter.AllowMany].
//
// Tokens that have leaked meanwhile do not come back. So the bound holds as if the call had
// taken less, but for what docs/commands.md says of refunds; [Limiter.Refund] has no receipt,
// and may take out other callers' tokens.
//
// Where nothing was taken, or nothing tells which tokens (limited calls, Peek, decisions
// without Redis, and CL.THROTTLE), nothing is given back, and more is charged. Results of
// funnels in this process ([NewLocal], [FailLocal]) are settled there.
//
// A Result is settled once a command may have been sent, whatever came back. Copies of it do
// not know, and two goroutines must not settle one at the same time. A lost answer is an
// error, and the tokens stay taken. [OnFailure] does not apply: where Redis fails, that is the
// error. Settle also returns an error for a Result that no method of this Limiter has made,
// such as that of the whole AllowAll, and [ErrSettled].
//
// The Result that Settle returns is that of the refund or the charge, or, if the same number
// was used or nothing can be given back, a copy of the given one.
func (l *Limiter) Settle(ctx context.Context, result *Result, used int) (Result, error) {
	if result == nil || result.claim.limiter != l {
		return Result{}, errors.New("limiter: Settle needs a Result that a method of this Limiter returned for one key")
	}
	of := &result.claim
	switch {
	case of.settled:
		return Result{}, fmt.Errorf("key %q: %w", of.key, ErrSettled)
	case used < 0:
		return Result{}, fmt.Errorf("limiter: key %q: the number of used tokens must be at least 0, not %d", of.key, used)
	case used == result.Allowed, used < result.Allowed && of.receipt == 0:
		return *result, nil
	}
	operation, quantity := gcra.Refund, result.Allowed-used
	if quantity < 0 {
		operation, quantity = gcra.Charge, -quantity
	}
	calls := []call{{operation: operation, lastWord: of.receipt, strict: true, local: result.Path == PathLocal,
		funnels: []funnel{{key: l.prefix + of.key, limit: result.Limit, quantity: quantity}}, parts: make([]gcra.Item, 1)}}
	l.decide(ctx, calls)
	of.settled = calls[0].asked
	return l.result(&calls[0], 0), calls[0].err
}
