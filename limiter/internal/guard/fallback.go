package guard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// A Fallback asks Redis, and asks another backend if Redis does not decide. Make one with [NewFallback].
type Fallback struct {
	redis   backend.Backend // in a Limiter, its [Nodes]
	instead backend.Backend
	now     func() time.Duration
	outage  outage
}

// NewFallback returns a Fallback that asks instead if redis does not decide. The policy's name is for the log. Now is a
// monotonic clock.
func NewFallback(policy string, redis, instead backend.Backend, log *slog.Logger, now func() time.Duration) *Fallback {
	return &Fallback{redis: redis, instead: instead, now: now, outage: outage{logger: log, policy: policy}}
}

// Ask asks Redis to decide a call. If Redis does not decide, Ask asks the other backend, and Reply.Cause is the
// error of Redis. It does not ask the other backend about a call that is wrong, or whose caller has given up.
func (f *Fallback) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	reply, cause := f.redis.Ask(ctx, c)
	if cause == nil {
		if f.outage.begun.Load() {
			f.outage.decided(ctx, f.now())
		}
		return reply, nil
	}
	if ctx.Err() != nil || !errors.Is(cause, backend.ErrUnavailable) {
		return reply, cause
	}
	f.outage.failed(ctx, f.now(), cause)
	reply, err := f.instead.Ask(ctx, c)
	reply.Cause = cause
	return reply, err
}

// Open decides as if all funnels were empty, all slots free and no quota used, and accounts for nothing.
type Open struct {
	Wall func() time.Time // tells the periods of quotas
}

// Ask allows every call, except for a quantity above the capacity.
func (o Open) Ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	now := o.Wall()
	if reply, ended := c.Ended(backend.Open, now); ended {
		return reply, nil
	}
	rows := c.Undecided(now.UnixNano(), 0)
	if row, err := c.Operation.Apply(rows, now.UnixNano(), int64(c.MaxWait), c.Receipt); err != nil {
		return backend.Reply{}, backend.Invalid(c.WrapRow(row, err))
	}
	return backend.NewReply(backend.Open, rows), nil
}

// Closed limits every call.
type Closed struct {
	Wall func() time.Time // tells the periods of quotas
}

// closedWait is the wait that Closed replies.
const closedWait = int64(time.Second)

// Ask limits a call for a second. It limits a call for good if its quantity is above the capacity, or its quota has
// ended and has no next period.
func (o Closed) Ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	rows, now := make([]call.Row, len(c.Rows)), o.Wall()
	takesAll := c.Operation == call.Reserve || c.Operation == call.Peek
	for i := range rows {
		row, wait := &c.Rows[i], closedWait
		if takesAll && row.NeverFits() || row.HasEnded(now) {
			wait = gcra.Never
		}
		rows[i].Decision = call.Decision{Limited: true, Wait: wait, ResetAfter: resetAfter(row, now)}
	}
	reply := backend.NewReply(backend.Closed, rows)
	reply.Refused = true
	return reply, nil
}

// resetAfter returns the longest time that the row may take to reset.
func resetAfter(row *backend.Row, now time.Time) int64 {
	switch row.Kind {
	case call.Slots:
		return 0
	case call.Quota:
		return max(0, row.Quota.EndAt(now)-now.UnixNano())
	}
	return row.Words.Rate.Tolerance()
}
