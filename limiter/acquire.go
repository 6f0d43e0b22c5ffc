package limiter

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"funnel/internal/call"
)

// Slots limit what is in flight instead of a rate: at most Max holders at once.
type Slots struct {
	Max int // at least 1

	// TTL is how long a slot is held that is neither renewed nor released, because its holder has
	// crashed or has lost Redis: at least a millisecond. A [Slot] renews itself.
	TTL time.Duration
}

// An Acquisition is the decision on a slot, and on tokens with it. The zero Acquisition is limited.
type Acquisition struct {
	Slot     *Slot   // nil if the call was limited
	Slots    Result  // on the slots. Its Limit is zero, and Remaining is how many slots are free
	Requests Results // on the requests, in their order
}

// Limited reports whether nothing was taken.
func (a Acquisition) Limited() bool { return a.Slot == nil }

// RetryAfter is how long a limited call should wait before it asks again, at the longest: the longest time of all its
// rows, and [NoRetry] if one of them can never allow it. It is 0 for a call that was allowed.
//
// The time of the slots is until the first one ends if it is not renewed. That is mostly far too long, since slots are
// released before: ask again after a moment of about the length of the work, with jitter, but not before
// Requests.RetryAfter.
func (a Acquisition) RetryAfter() time.Duration {
	if !a.Limited() {
		return 0
	}
	return max(a.Slots.RetryAfter, a.Requests.RetryAfter())
}

// An Acquirer takes slots as [Limiter.TryAcquire] does: a [Limiter], or what wraps one.
type Acquirer interface {
	TryAcquire(ctx context.Context, key string, slots Slots, requests ...Request) (Acquisition, error)
}

// TryAcquire takes a slot and the tokens of up to 63 requests: all or nothing. A request may ask for 0
// tokens. Without a free slot or enough tokens the Acquisition is limited, and has no Slot: TryAcquire does not wait.
// The keys differ, the key of the slots included. What [Limiter.AllowAll] says of hash tags applies.
//
// If TryAcquire returns without an answer from Redis, because the context is done for instance, it gives back in the
// background what Redis may have taken for it: the slot. It asks each tenth of the TTL, until Redis answers or the TTL
// is over. Tokens stay taken.
func (l *Limiter) TryAcquire(ctx context.Context, key string, slots Slots, requests ...Request) (Acquisition, error) {
	q := newQuery(call.Reserve, 1+len(requests))
	if slots.Max == 0 {
		q.reject(fmt.Errorf("limiter: key %q: %w", key, errNoSlots))
	}
	q.addSlots(l, key, slots, rand.Text())
	for _, request := range requests {
		q.addTokens(l, request.Key, request.Limit, request.Quantity)
	}
	h := hold{limiter: l, key: key, slots: slots, holder: q.Rows[0].Holder, taken: time.Now()}
	q.Lost = h.giveBack
	err := l.decideTogether(ctx, q)
	got := Acquisition{Slots: q.results[0], Requests: q.results[1:]}
	if err == nil && got.Slots.Allowed == 1 {
		got.Slot = h.newSlot(ctx, string(got.Slots.Source))
	}
	return got, err
}
