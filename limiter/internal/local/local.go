// Package local is the backend that decides in this process: it keeps rows in memory, each under its key. A row takes
// its key and its state, and is removed some time after its funnel has drained or its last slot has ended.
package local

import (
	"context"
	"strings"
	"sync"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/idle"
	"funnel/limiter/internal/backend"
)

// Rows are kept in memory. Make them with [New].
type Rows struct {
	now   func() time.Duration
	start time.Time

	mutex   sync.Mutex
	funnels idle.Map[string, int64] // the TAT by key
	slots   idle.Map[string, *holders]
}

// New returns a backend that keeps nothing yet. Now is a monotonic clock: a wall clock that is set back by an hour
// would limit every call for that hour.
func New(now func() time.Duration) *Rows { return &Rows{now: now, start: time.Now().Add(-now())} }

// Ask decides a call. An error changes nothing.
func (r *Rows) Ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	rows := c.Undecided()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.instant() // under the lock: no call has an earlier time than the last
	for i := range rows {
		r.read(&c.Rows[i], &rows[i], now)
	}
	if _, err := c.Operation.Apply(rows, now, int64(c.MaxWait), c.Receipt); err != nil {
		return backend.Reply{}, backend.Invalid(c.Wrap(err))
	}
	reply := backend.NewReply(backend.Local, rows)
	for i := range rows {
		if rows[i].Changes() {
			r.write(&c.Rows[i], &rows[i], now)
			reply.Row(i).Receipt = receiptOf(c, &rows[i])
		}
	}
	return reply, nil
}

// receiptOf is the receipt of a row that changes: of tokens that were taken.
func receiptOf(c *backend.Call, row *call.Row) int64 {
	if row.Kind != call.Funnel || c.Operation == call.Refund {
		return 0
	}
	return row.Funnel.Decision.TAT
}

// read fills in the state of a row.
func (r *Rows) read(asked *backend.Row, row *call.Row, now int64) {
	switch row.Kind {
	case call.Slots:
		row.Slots.State = r.slots.Get(asked.Key).read(asked.Holder, now/1e6)
	default:
		row.Funnel.TAT = r.funnels.Get(asked.Key)
	}
}

// write keeps the state of a row.
func (r *Rows) write(asked *backend.Row, row *call.Row, now int64) {
	switch row.Kind {
	case call.Slots:
		r.writeSlots(asked, row.Slots.Decision.End, now/1e6)
	default:
		r.writeFunnel(asked.Key, row.Funnel.Decision.TAT, now)
	}
}

// instant is the time in nanoseconds since the Unix epoch.
func (r *Rows) instant() int64 { return r.start.UnixNano() + int64(r.now()) }

// writeFunnel keeps a funnel's TAT.
func (r *Rows) writeFunnel(key string, tat, now int64) {
	if r.funnels.Has(key) {
		r.funnels.Set(key, tat)
		return
	}
	// A key that is part of a larger string must not keep all of that in memory.
	r.funnels.Add(strings.Clone(key), tat, func(_ string, tat int64) bool { return tat <= now })
}

// writeSlots keeps when a holder's slot ends, in milliseconds since the Unix epoch; 0 ends it.
func (r *Rows) writeSlots(asked *backend.Row, end, now int64) {
	held := r.slots.Get(asked.Key)
	if held == nil {
		held = &holders{ends: map[string]int64{}}
		r.slots.Add(strings.Clone(asked.Key), held, func(_ string, held *holders) bool { return held.last() <= now })
	}
	held.set(asked.Holder, end)
}

// Reset empties the funnel of a key, and ends its slots.
func (r *Rows) Reset(ctx context.Context, key string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.funnels.Has(key) {
		r.funnels.Set(key, gcra.Empty)
	}
	if r.slots.Has(key) {
		*r.slots.Get(key) = holders{ends: map[string]int64{}}
	}
	return context.Cause(ctx)
}

// Len returns how many rows are kept, some of which may be over.
func (r *Rows) Len() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.funnels.Len() + r.slots.Len()
}
