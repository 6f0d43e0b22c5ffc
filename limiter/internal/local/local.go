// Package local has the backend that decides in this process. It keeps the state of each row in
// memory, under its key, and removes the state some time after the funnel has drained, the last
// slot has ended or the period of the quota is over.
package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/idle"
	"funnel/limiter/internal/backend"
	"funnel/quota"
)

// Rows are the rows in memory. Make them with [New].
type Rows struct {
	now   func() time.Duration
	wall  func() time.Time
	start time.Time

	mutex   sync.Mutex
	funnels idle.Map[string, int64] // the TAT by key
	slots   idle.Map[string, *holders]
	quotas  idle.Map[string, quota.State] // with expiries by the wall clock
}

// New returns a backend without rows. Now is a monotonic clock: with a wall clock that is set back
// by an hour, funnels would limit every call for that hour. Wall is the wall clock, which tells
// when the period of a quota ends.
func New(now func() time.Duration, wall func() time.Time) *Rows {
	return &Rows{now: now, wall: wall, start: wall().Add(-now())}
}

// Ask decides a call. An error changes nothing.
func (r *Rows) Ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.instant() // under the lock, so that time never goes back
	ahead := r.ahead(c, now)
	reply, ended := c.Ended(backend.Local, time.Unix(0, now+int64(ahead)))
	if ended {
		return reply, nil
	}
	rows := c.Undecided(now, ahead)
	for i := range rows {
		if r.holdsAnotherKind(&c.Rows[i], now) {
			return backend.Reply{}, backend.Invalid(fmt.Errorf("limiter: key %q: %w", c.Rows[i].Key, errOtherKind))
		}
		r.read(&c.Rows[i], &rows[i], now, ahead)
	}
	wrong, err := c.Operation.Apply(rows, now, int64(c.MaxWait), c.Receipt)
	if err != nil {
		return backend.Reply{}, backend.Invalid(c.WrapRow(wrong, err))
	}
	reply = backend.NewReply(backend.Local, rows)
	for i := range rows {
		if rows[i].Changes() {
			r.write(&c.Rows[i], &rows[i], now, ahead)
			reply.Row(i).Receipt = receiptOf(c, &rows[i], ahead)
		}
	}
	return reply, nil
}

// errOtherKind is the error of a call that Redis, too, would refuse.
var errOtherKind = errors.New("the key holds a row of another kind: a key is for a funnel, a quota or slots")

// holdsAnotherKind reports whether the key of a row holds state of another kind that is not over.
func (r *Rows) holdsAnotherKind(asked *backend.AskedRow, now int64) bool {
	key := asked.Key
	return asked.Kind != call.Funnel && r.funnels.Get(key) > now ||
		asked.Kind != call.Slots && r.slots.Get(key).last() > now/1e6 ||
		asked.Kind != call.Quota && r.quotas.Has(key) && r.quotas.Get(key).Expiry > r.wall().UnixMilli()
}

// receiptOf returns the receipt of a row that changes, or 0 if it took no tokens.
func receiptOf(c *backend.Call, row *call.Row, ahead time.Duration) int64 {
	switch {
	case row.Kind == call.Quota && row.Quota.Until > 0:
		return row.Quota.Until + int64(ahead)
	case row.Kind == call.Funnel && c.Operation != call.Refund:
		return row.Funnel.NewTAT
	}
	return 0
}

// read fills in the state of a row.
func (r *Rows) read(asked *backend.AskedRow, row *call.Row, now int64, ahead time.Duration) {
	switch row.Kind {
	case call.Quota:
		row.Quota.State = later(r.quotas.Get(asked.Key), -ahead)
	case call.Slots:
		row.Slots.State = r.slots.Get(asked.Key).read(asked.Holder, now/1e6)
	default:
		row.Funnel.TAT = r.funnels.Get(asked.Key)
	}
}

// write keeps the state of a row.
func (r *Rows) write(asked *backend.AskedRow, row *call.Row, now int64, ahead time.Duration) {
	switch row.Kind {
	case call.Quota:
		state, wall := later(row.Quota.NewState, ahead), (now+int64(ahead))/1e6
		keep(&r.quotas, asked.Key, state, func(_ string, state quota.State) bool { return state.Expiry <= wall })
	case call.Slots:
		r.writeSlots(asked, row.Slots.End, now/1e6)
	default:
		keep(&r.funnels, asked.Key, row.Funnel.NewTAT, func(_ string, tat int64) bool { return tat <= now })
	}
}

// instant returns the time in nanoseconds since the Unix epoch.
func (r *Rows) instant() int64 { return r.start.UnixNano() + int64(r.now()) }

// keep sets the state of a key. If the key is new, keep also removes some keys whose state is over.
func keep[State any](rows *idle.Map[string, State], key string, state State, isOver func(string, State) bool) {
	if rows.Has(key) {
		rows.Set(key, state)
		return
	}
	// A clone: a key that is a part of a larger string would keep that string in memory.
	rows.Add(strings.Clone(key), state, isOver)
}

// writeSlots keeps the end of a holder's slot, in milliseconds since the Unix epoch. 0 ends the
// slot.
func (r *Rows) writeSlots(asked *backend.AskedRow, end, now int64) {
	held := r.slots.Get(asked.Key)
	if held == nil {
		held = &holders{ends: map[string]int64{}}
		r.slots.Add(strings.Clone(asked.Key), held, func(_ string, held *holders) bool { return held.last() <= now })
	}
	held.set(asked.Holder, end)
}

// Reset empties the funnel and the quota of a key, and ends its slots.
func (r *Rows) Reset(ctx context.Context, key string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.funnels.Has(key) {
		r.funnels.Set(key, gcra.Empty)
	}
	if r.slots.Has(key) {
		*r.slots.Get(key) = holders{ends: map[string]int64{}}
	}
	if r.quotas.Has(key) {
		r.quotas.Set(key, quota.State{})
	}
	return context.Cause(ctx)
}

// Len returns the number of rows in memory, some of which may be over.
func (r *Rows) Len() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.funnels.Len() + r.slots.Len() + r.quotas.Len()
}
