package limiter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	inflight "funnel/slots"
)

// Slots limit what is in flight instead of a rate: at most Limit holders at once.
type Slots struct {
	Limit int // at least 1

	// TTL is how long a slot is held that is neither renewed nor released, because its holder has
	// crashed or has lost Redis: at least a millisecond. A [Slot] renews itself.
	TTL time.Duration
}

// ErrSlotLost is the cause of a [Slot.Context] whose slot was lost.
var ErrSlotLost = errors.New("limiter: the slot was lost: it was not renewed in time, and another holder may have it")

// Acquire takes a slot and, as one, the tokens of up to 63 requests, of at least 0 tokens each: all
// of it or nothing. Without a free slot or enough tokens the Slot is nil, and the Results are
// limited. The keys differ, that of the slots included, and in a cluster they have one hash tag.
//
// The Results are the decisions on the slots and then on the requests. In that on the slots,
// Limit.Capacity is slots.Limit and Limit has nothing else, Allowed and Quantity count slots,
// Remaining is how many are free, and RetryAfter is the time until the first one ends if it is not
// renewed. That is mostly far too long, since slots are released before. There is no queue: ask
// again after a moment of about the length of the work, with jitter.
//
// Where Acquire returns without an answer of Redis, because the context is done for instance, it
// gives back in the background what Redis may have taken for it: the slot. Tokens stay taken.
func (l *Limiter) Acquire(ctx context.Context, key string, slots Slots, requests ...Request) (*Slot, Results, error) {
	q, taken := l.newSlotsQuery(key, slots, requests), time.Now()
	a, err := l.decide(ctx, q)
	if err != nil || a.limited {
		return nil, a.results(), err
	}
	return l.newSlot(ctx, &a, slots.TTL, taken), a.results(), nil
}

// An Acquirer takes slots as [Limiter.Acquire] does: a [Limiter], or what wraps one.
type Acquirer interface {
	Acquire(ctx context.Context, key string, slots Slots, requests ...Request) (*Slot, Results, error)
}

// newSlotsQuery is for a new holder.
func (l *Limiter) newSlotsQuery(key string, slots Slots, requests []Request) *query {
	q := l.newQuery(call.Reserve, requests...)
	if len(requests) >= maxFunnels {
		q.invalid = fmt.Errorf("limiter: there must be at most %d requests beside slots, not %d", maxFunnels-1, len(requests))
	}
	checked, err := newSlotsRow(slots.Limit, slots.TTL)
	switch {
	case err != nil:
		q.reject(fmt.Errorf("limiter: key %q: slots of %+v: %w", key, slots, err))
	case slots.Limit == 0:
		q.reject(fmt.Errorf("limiter: key %q: there must be at least 1 slot: %w", key, inflight.ErrLimit))
	}
	q.funnels = append([]funnel{{Request: Request{key, Limit{Capacity: slots.Limit}, 1}, redisKey: l.prefix + key,
		args: &limitArgs{capacity: slots.Limit, count: "SLOTS", period: secondsOf(slots.TTL)},
		row:  checked, holder: rand.Text()}}, q.funnels...)
	q.undo = &query{operation: call.Refund, funnels: q.funnels[:1], receipt: gcra.NoReceipt, decider: redisAlone}
	return q.rejectTwice()
}

// newSlotsRow asks for one of limit slots.
func newSlotsRow(limit int, ttl time.Duration) (call.Row, error) {
	request, err := inflight.NewRequest(int64(limit), int64(ttl))
	return call.Row{Kind: call.Slots, Slots: inflight.Slots{Request: request}}, err
}

// undo gives back the slot that a call may have taken whose answer nobody got. No copy of that call
// is under way any more, unless the network has one.
func (l *Limiter) undo(ctx context.Context, q *query, reply *pending) {
	if reply != nil {
		if <-reply.done; reply.err == nil && reply.answer.limited {
			return
		}
	}
	_, _ = l.decide(ctx, q.undo) // it ends with its TTL in any case
}

// endsSlot reports whether the query gives a slot back. It may be sent any number of times.
func (q *query) endsSlot() bool { return q.operation == call.Refund && q.funnels[0].holder != "" }

// A Slot is held from [Limiter.Acquire] until it is released or lost. All methods may be called
// from any number of goroutines.
//
// It renews itself each third of its TTL, until then, also when the context of Acquire is done. It
// is lost when Redis says so, or has answered no renewal for the TTL, or when the process stood
// still for longer than the TTL.
type Slot struct {
	limiter *Limiter
	ctx     context.Context
	cancel  context.CancelCauseFunc
	ttl     time.Duration
	taken   time.Time    // from before the call that took it was sent
	ends    atomic.Int64 // when it is lost if it is not renewed, as the time since it was taken

	asking  chan struct{} // full while a call about the slot is under way: testing/synctest knows that
	renewal *query        // with a limit of 0, which takes no slot
	refund  *query        // nil once it is answered
	timer   *time.Timer   // nil once the slot is released
}

// newSlot has the slot of an answer renew itself.
func (l *Limiter) newSlot(ctx context.Context, a *answer, ttl time.Duration, taken time.Time) *Slot {
	s := &Slot{limiter: l, ttl: ttl, taken: taken, asking: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if s.ends.Store(math.MaxInt64); a.path == PathOpen {
		return s // nobody counts it
	}
	s.ends.Store(int64(ttl))
	f, refund := a.query.funnels[0], *a.query.undo
	args := *f.args
	f.Limit, f.args, args.capacity = Limit{}, &args, 0
	f.row, _ = newSlotsRow(0, ttl) // as in Acquire
	if a.path == PathLocal {
		refund.decider = processAlone
	}
	s.refund = &refund
	s.renewal = &query{operation: call.Reserve, funnels: []funnel{f}, receipt: gcra.NoReceipt, decider: refund.decider}
	s.asking <- struct{}{} // the timer may be due
	defer func() { <-s.asking }()
	s.timer = time.AfterFunc(ttl/3-time.Since(taken), s.renew)
	return s
}

// Context derives from the context of Acquire. It is done, too, when the slot is released or lost;
// then its cause is [ErrSlotLost]. Work that goes on after that is not counted.
func (s *Slot) Context() context.Context {
	s.left()
	return s.ctx
}

// left is how long the slot is not lost yet.
func (s *Slot) left() time.Duration {
	left := time.Duration(s.ends.Load()) - time.Since(s.taken)
	if left <= 0 {
		s.cancel(ErrSlotLost)
	}
	return left
}

// renew renews the slot once. Where Redis does not answer, it soon asks again.
func (s *Slot) renew() {
	s.asking <- struct{}{}
	defer func() { <-s.asking }()
	sent, left := time.Since(s.taken), s.left()
	if s.timer == nil || left <= 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(s.ctx), left, ErrSlotLost)
	defer cancel()
	a, err := s.limiter.decide(ctx, s.renewal)
	next := s.ttl / 10
	switch {
	case err != nil:
	case a.limited || !a.held:
		s.ends.Store(0)
	default:
		s.ends.Store(int64(sent + s.ttl))
		next = sent + s.ttl/3 - time.Since(s.taken)
	}
	if left = s.left(); left > 0 {
		s.timer.Reset(min(next, left))
	}
}

// Release gives the slot back and ends its Context. It waits for a renewal that is under way, and
// for the answer of Redis, whether or not ctx is done, but no longer than [WithTimeout] allows.
//
// An error says that Redis has not answered. The slot ends with its TTL then, or Release may be
// called again. Once it is answered, Release does nothing.
func (s *Slot) Release(ctx context.Context) error {
	s.cancel(context.Canceled)
	s.asking <- struct{}{}
	defer func() { <-s.asking }()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.refund == nil {
		return nil
	}
	_, err := s.limiter.decide(context.WithoutCancel(ctx), s.refund)
	if err == nil {
		s.refund = nil
	}
	return err
}
