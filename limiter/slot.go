package limiter

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/wait"
)

// Slots limit what is in flight instead of a rate: at most Max holders at once.
type Slots struct {
	Max int // at least 1

	// TTL is how long a slot is held if it is neither renewed nor released, because its holder has
	// crashed or has lost Redis: at least a millisecond. An [Acquisition] renews its slots.
	TTL time.Duration
}

// An Acquisition is the decision on the rows of [Limiter.TryAcquire] or [Limiter.Acquire], and
// holds the slots that the call took. All methods may be called from any number of goroutines. If
// the call was limited, there is nothing to hold: the methods do nothing then, and nothing on a nil
// Acquisition, so `defer got.Release(ctx)` is always right. Tests of other packages can make one
// from Results.
//
// All slots are held until they are released or lost. An Acquisition renews them each third of the
// shortest TTL, even if the context of the call is done. A slot is lost if Redis says so, if Redis
// has answered no renewal within its TTL, or if the process stood still for longer. One lost slot
// ends the Acquisition: the other slots are given back.
type Acquisition struct {
	// Results are the decisions on the rows, in the order of the call. For slots, Limit is zero,
	// and Remaining is how many are free.
	Results Results

	limiter *Limiter
	ctx     context.Context
	cancel  context.CancelCauseFunc
	taken   time.Time    // the instant just before the call was sent
	ends    atomic.Int64 // the time from taken until a slot is lost, unless all are renewed

	asking      chan struct{} // a mutex as a channel, on which testing/synctest sees a goroutine block: full while locked
	slots       []heldSlot    // counted by Redis or by this process: slots of FailOpen are not
	timer       *time.Timer   // of the next renewal; nil if nobody counts the slots
	isHeld      bool          // the call was allowed: ctx and cancel are set; never changes
	isGivenBack bool          // Release has been called, or a slot was lost
	isLost      bool          // a slot was lost, and no Release has said so
}

// A heldSlot is one of the slots of an Acquisition.
type heldSlot struct {
	row  backend.AskedRow // of the call that took it
	key  string           // without the prefix of the Limiter
	ends time.Duration    // from taken
}

// newAcquisition returns what a call has taken.
func (l *Limiter) newAcquisition(ctx context.Context, inv *invocation, reply *backend.Reply,
	taken time.Time) *Acquisition {
	a := &Acquisition{Results: inv.results, limiter: l, taken: taken, asking: make(chan struct{}, 1)}
	if inv.results == nil || a.Results.Limited() {
		return a
	}
	a.isHeld = true
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	for i, result := range inv.results {
		if inv.Rows[i].Kind == call.Slots && result.Source != FromOpen {
			row := inv.Rows[i]
			row.IsLocal, row.Shard = result.Source == FromLocal, reply.Row(i).Shard
			a.slots = append(a.slots, heldSlot{row: row, key: result.Key, ends: row.TTL})
		}
	}
	a.ends.Store(int64(a.firstEnd()))
	if len(a.slots) > 0 {
		a.asking <- struct{}{} // the timer may be due at once
		defer func() { <-a.asking }()
		a.timer = time.AfterFunc(a.renewsAfter()-time.Since(taken), a.renew)
	}
	return a
}

// Limited reports whether nothing was taken.
func (a *Acquisition) Limited() bool { return a == nil || !a.isHeld && a.Results.Limited() }

// RetryAfter is how long a limited call should wait before it asks again: the longest wait of its
// rows, and [NoRetry] if one of them can never allow it. It is 0 for a call that was allowed.
//
// A row of slots counts as a second at most. The time until the first slot ends is mostly far too
// long, because slots are released earlier.
func (a *Acquisition) RetryAfter() time.Duration {
	if a == nil || !a.Limited() {
		return 0
	}
	return waitsForSlots(a.Results).RetryAfter()
}

// waitsForSlots returns the results with the wait for slots that a caller is told: no longer than
// [wait.ForSlot].
func waitsForSlots(results Results) Results {
	results = slices.Clone(results)
	for i := range results {
		r := &results[i]
		if r.Slots.Max > 0 && r.RetryAfter != NoRetry {
			r.RetryAfter = min(r.RetryAfter, wait.ForSlot)
		}
	}
	return results
}

// firstEnd returns when the first slot ends, from taken: never, if nobody counts the slots.
func (a *Acquisition) firstEnd() time.Duration {
	first := wait.Forever
	for _, slot := range a.slots {
		first = min(first, slot.ends)
	}
	return first
}

// shortest returns the shortest TTL of the slots.
func (a *Acquisition) shortest() time.Duration {
	shortest := wait.Forever
	for _, slot := range a.slots {
		shortest = min(shortest, slot.row.TTL)
	}
	return shortest
}

// renewsAfter is the time between two renewals. At a third of the TTL, one renewal may fail and the
// next one is still in time.
func (a *Acquisition) renewsAfter() time.Duration { return a.shortest() / 3 }

// Context returns a context that derives from the context of the call. It is also done when the
// slots are released, and when a slot is lost: the cause is then [ErrSlotLost]. Work that goes on
// after that is not counted. The context of a limited Acquisition is done.
//
// After a pause of the whole process, a context from an earlier call of Context may stay alive for
// some milliseconds: call Context again before a step that cannot be undone.
func (a *Acquisition) Context() context.Context {
	switch {
	case a.Limited():
		return endedContext
	case !a.isHeld: // a test has made it
		return context.Background()
	}
	a.cancelIfLost()
	return a.ctx
}

// endedContext is the context of an Acquisition that holds nothing.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// cancelIfLost cancels the context if a slot is lost, and returns the time that is left until one
// is.
func (a *Acquisition) cancelIfLost() (left time.Duration) {
	left = time.Duration(a.ends.Load()) - time.Since(a.taken)
	if left <= 0 {
		a.cancel(ErrSlotLost)
	}
	return left
}

// renew renews the slots once. If Redis does not answer, the next renewal follows soon.
func (a *Acquisition) renew() {
	a.asking <- struct{}{}
	defer func() { <-a.asking }()
	if a.isGivenBack {
		return
	}
	left := a.cancelIfLost()
	if left <= 0 {
		a.endLost()
		return
	}
	sent, next := time.Since(a.taken), a.shortest()/10
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(a.ctx), left, ErrSlotLost)
	defer cancel()
	reply, err := a.limiter.decide(ctx, a.renewal())
	if err == nil {
		next = sent + a.renewsAfter() - time.Since(a.taken)
	}
	for i := range a.slots {
		slot := &a.slots[i]
		switch {
		case !reply.IsDecided(i):
		case reply.Row(i).Limited || !reply.Row(i).Held:
			slot.ends = 0
		default:
			slot.ends = sent + slot.row.TTL
		}
	}
	a.ends.Store(int64(a.firstEnd()))
	left = a.cancelIfLost()
	if left <= 0 {
		a.endLost()
		return
	}
	a.timer.Reset(min(next, left))
}

// renewal returns a call that renews the slots. Its limits are 0, so it takes no slot that is lost.
func (a *Acquisition) renewal() *invocation {
	inv := newInvocation(call.Reserve, len(a.slots))
	inv.Renews = true
	for _, slot := range a.slots {
		inv.addSlots(a.limiter, slot.key, Slots{TTL: slot.row.TTL}, slot.row.Holder)
		added := &inv.Rows[len(inv.Rows)-1]
		added.IsLocal, added.Shard = slot.row.IsLocal, slot.row.Shard
	}
	return inv
}

// refund returns a call that ends the slots.
func (a *Acquisition) refund() *backend.Call {
	inv := newInvocation(call.Refund, len(a.slots))
	for _, slot := range a.slots {
		slot.row.HeldFor = time.Since(a.taken)
		inv.Rows = append(inv.Rows, slot.row)
	}
	return &inv.Call
}

// endLost gives the slots back after one was lost.
func (a *Acquisition) endLost() {
	a.isGivenBack, a.isLost = true, true
	undo, refund := a.limiter.undo, a.refund()
	undo.Go(a.ctx, func(ctx context.Context) { _, _ = undo.GiveBack(ctx, refund) })
}

// Release gives the slots back and ends their Context. It waits for a renewal that is under way,
// and then for the answer of Redis, whether or not ctx is done: for each no longer than
// [WithTimeout] allows.
//
// [ErrSlotLost] means that a slot had been lost before, and that other holders may have worked at
// the same time. (It may also mean that go-redis has repeated the call after a lost answer.)
// [ErrUnavailable] means that Redis has not decided. Then the Limiter goes on in the background: it
// asks each tenth of the TTL, until Redis decides or the TTL is over. Later calls of Release do
// nothing.
func (a *Acquisition) Release(ctx context.Context) error {
	if a == nil || !a.isHeld {
		return nil
	}
	a.cancel(context.Canceled)
	a.asking <- struct{}{}
	defer func() { <-a.asking }()
	if a.timer != nil {
		a.timer.Stop()
	}
	switch {
	case a.isLost:
		a.isLost = false
		return ErrSlotLost
	case a.isGivenBack || len(a.slots) == 0:
		return nil
	}
	a.isGivenBack = true
	reply, err := a.limiter.undo.GiveBack(ctx, a.refund())
	for i := range a.slots {
		if reply.IsDecided(i) && !reply.Row(i).Held && err == nil {
			err = ErrSlotLost
		}
	}
	return err
}

// ReleaseSoon is Release that does not wait: it returns at once, and gives the slots back in the
// background. [Limiter.Drain] waits until Redis has answered.
func (a *Acquisition) ReleaseSoon(ctx context.Context) {
	if a != nil && a.isHeld {
		a.limiter.undo.Go(ctx, func(ctx context.Context) { _ = a.Release(ctx) })
	}
}
