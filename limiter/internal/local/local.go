// Package local is the backend that decides in this process: it keeps rows in memory, each under its key. A row takes
// its key and its state, and is removed some time after its funnel has drained or its last slot has ended.
package local

import (
	"context"
	"strings"
	"sync"
	"time"

	"funnel/gcra"
	"funnel/internal/idle"
	"funnel/limiter/internal/backend"
)

// A Backend keeps funnels and slots. Make one with [New].
type Backend struct {
	now   func() time.Duration
	start time.Time

	mutex   sync.Mutex
	funnels idle.Map[string, int64] // the TAT by key
	slots   idle.Map[string, *slots]
}

// New returns a backend without any state. Now is a monotonic clock: a wall clock that is set back by an hour
// would limit every call for that hour.
func New(now func() time.Duration) *Backend { return &Backend{now: now, start: time.Now().Add(-now())} }

// Ask decides a call. An error changes nothing.
func (b *Backend) Ask(_ context.Context, c *backend.Call) (backend.Reply, error) {
	items := c.Items()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := b.instant() // under the lock: no call has an earlier time than the last
	for i := range items {
		if items[i].Request.IsSlots() {
			b.slots.Get(c.Rows[i].Key).read(c.Rows[i].Holder, &items[i], now/1e6)
		} else {
			items[i].TAT = b.funnels.Get(c.Rows[i].Key)
		}
	}
	if _, err := c.Operation.Decide(items, now, int64(c.MaxWait), c.Receipt); err != nil {
		return backend.Reply{}, backend.Invalid(c.Wrap(err))
	}
	reply := backend.NewReply(backend.Local, items)
	for i := range items {
		before, after := items[i].TAT, items[i].Decision.TAT
		switch {
		case before == after:
		case items[i].Request.IsSlots():
			b.keepSlot(&c.Rows[i], after, now/1e6)
		default:
			b.keepFunnel(c.Rows[i].Key, after, now)
			if c.Operation != gcra.Refund {
				reply.Row(i).Receipt = after
			}
		}
	}
	return reply, nil
}

// instant is the time in nanoseconds since the Unix epoch.
func (b *Backend) instant() int64 { return b.start.UnixNano() + int64(b.now()) }

// keepFunnel keeps a funnel's TAT.
func (b *Backend) keepFunnel(key string, tat, now int64) {
	if b.funnels.Has(key) {
		b.funnels.Set(key, tat)
		return
	}
	// A key that is part of a larger string must not keep all of that in memory.
	b.funnels.Add(strings.Clone(key), tat, func(_ string, tat int64) bool { return tat <= now })
}

// keepSlot keeps when a holder's slot ends, in milliseconds since the Unix epoch; 0 ends it.
func (b *Backend) keepSlot(row *backend.Row, end, now int64) {
	held := b.slots.Get(row.Key)
	if held == nil {
		held = &slots{ends: map[string]int64{}}
		b.slots.Add(strings.Clone(row.Key), held, func(_ string, held *slots) bool { return held.last() <= now })
	}
	held.set(row.Holder, end)
}

// Reset empties the funnel of a key, and ends its slots.
func (b *Backend) Reset(ctx context.Context, key string) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.funnels.Has(key) {
		b.funnels.Set(key, gcra.Empty)
	}
	if b.slots.Has(key) {
		*b.slots.Get(key) = slots{ends: map[string]int64{}}
	}
	return context.Cause(ctx)
}

// Len returns how many rows are kept, some of which may be over.
func (b *Backend) Len() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.funnels.Len() + b.slots.Len()
}
