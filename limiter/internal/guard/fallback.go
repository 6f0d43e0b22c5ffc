package guard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"funnel/internal/call"
	"funnel/internal/decision"
	"funnel/limiter/internal/backend"
)

// A Fallback is what a Limiter does if Redis fails. It asks Redis, and another backend if Redis
// does not decide. What this process has granted instead of Redis is renewed, settled and given
// back here. Make one with [NewFallback].
type Fallback struct {
	next    backend.Backend // asks Redis; in a Limiter, its [PerNode]
	local   backend.Backend // has granted the rows that are local
	instead Decider         // nil if the caller gets the error
	now     func() time.Duration
	outage  outage
	wrong   misconfiguration
}

// A Decider decides calls instead of Redis.
type Decider interface {
	Ask(ctx context.Context, c *backend.Call) (backend.Reply, error)
}

// NewFallback returns a Fallback that asks instead if redis does not decide, or returns the error
// if instead is nil. The policy's name is for the log. Now is a monotonic clock.
func NewFallback(redis, local backend.Backend, instead Decider, policy string, log *slog.Logger,
	now func() time.Duration) *Fallback {
	return &Fallback{next: redis, local: local, instead: instead, now: now, outage: outage{logger: log, policy: policy},
		wrong: misconfiguration{logger: log}}
}

// Ask asks Redis to decide a call. If Redis does not decide, Ask asks the other backend, and each
// row of the reply has the error of Redis as its cause. It does not ask the other backend about a
// call that is wrong, that carries no policy, or whose caller has given up.
func (f *Fallback) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	if c.Rows[0].IsLocal {
		return f.local.Ask(ctx, c)
	}
	reply, cause := backend.Reply{}, c.Failure
	if cause == nil {
		reply, cause = f.next.Ask(ctx, c)
	}
	if cause == nil {
		if f.outage.begun.Load() {
			f.outage.decided(ctx, f.now())
		}
		return reply, nil
	}
	isMisconfigured := ctx.Err() == nil && f.wrong.note(ctx, f.now(), cause)
	if f.instead == nil || !c.HasPolicy() || ctx.Err() != nil || !errors.Is(cause, backend.ErrUnavailable) {
		reply.Blame(len(c.Rows), cause)
		return reply, cause
	}
	if !isMisconfigured {
		f.outage.failed(ctx, f.now(), cause)
	}
	reply, err := f.instead.Ask(ctx, c)
	reply.Blame(len(c.Rows), cause)
	return reply, err
}

// Reset deletes a key, in this process and in Redis.
func (f *Fallback) Reset(ctx context.Context, key string) error {
	err := f.local.Reset(ctx, key)
	if err != nil {
		return err
	}
	return f.next.Reset(ctx, key)
}

// Open decides as if all funnels were empty, all slots free and no quota used, and accounts for
// nothing.
type Open struct {
	Wall func() time.Time // tells the periods of quotas
}

// Ask allows every call, except for a quantity above the capacity.
func (o Open) Ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	now := o.Wall()
	reply, ended := c.Ended(backend.Open, now)
	if ended {
		return reply, nil
	}
	rows := c.Undecided(now.UnixNano(), 0)
	wrong, err := c.Operation.Apply(rows, now.UnixNano(), int64(c.MaxWait), c.Receipt)
	if err != nil {
		return backend.Reply{}, backend.Invalid(c.WrapRow(wrong, err))
	}
	return backend.NewReply(backend.Open, rows), nil
}

// Closed limits every call.
type Closed struct {
	Wall func() time.Time // tells the periods of quotas
}

// closedWait is the wait that Closed replies: as soon as it is over, an open breaker lets a call
// try whether Redis is back.
const closedWait = int64(openFor)

// Ask limits a call for a second. It limits a call for good if its quantity is above the capacity,
// or its quota has ended and has no next period.
func (o Closed) Ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	rows, now := make([]call.Row, len(c.Rows)), o.Wall()
	takesAll := c.Operation == call.Reserve || c.Operation == call.Peek
	for i := range rows {
		row, wait := &c.Rows[i], closedWait
		if takesAll && row.NeverFits() || row.HasEnded(now) {
			wait = decision.Never
		}
		*rows[i].Decision() = decision.Decision{Limited: true, Wait: wait, ResetAfter: resetAfter(row, now)}
	}
	reply := backend.NewReply(backend.Closed, rows)
	reply.Refused = true
	return reply, nil
}

// resetAfter returns the longest time that the row may take to reset.
func resetAfter(row *backend.AskedRow, now time.Time) int64 {
	switch row.Kind {
	case call.Slots:
		return 0
	case call.Quota:
		return max(0, row.Quota.EndAt(now)-now.UnixNano())
	}
	return row.Words.Rate.Tolerance()
}
