package limiter

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/line"
	"funnel/limiter/internal/redis"
)

// Slots limit what is in flight instead of a rate: at most Max holders at once.
type Slots struct {
	Max int // at least 1

	// TTL is how long a slot is held if it is neither renewed nor released, because its holder has
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

// RetryAfter is the longest time that a limited call waits before it asks again: the maximum over its rows, and
// [NoRetry] if one of them can never allow it. It is 0 for a call that was allowed.
//
// For the slots, it is the time until the first slot ends if it is not renewed. That is mostly far too long, because
// slots are released earlier: ask again after a moment of about the length of the work, with jitter, but not before
// Requests.RetryAfter.
func (a Acquisition) RetryAfter() time.Duration {
	if !a.Limited() {
		return 0
	}
	return max(a.Slots.RetryAfter, a.Requests.RetryAfter())
}

// An Acquirer takes slots as [Limiter.TryAcquire] does: a [Limiter], or a wrapper of one.
type Acquirer interface {
	TryAcquire(ctx context.Context, key string, slots Slots, requests ...Request) (Acquisition, error)
}

// TryAcquire takes a slot and the tokens of up to 63 requests: all or nothing. A request may ask for 0
// tokens. Without a free slot or enough tokens the Acquisition is limited, and has no Slot: TryAcquire does not wait.
// The keys differ, the key of the slots included. What [Limiter.AllowAll] says of hash tags applies.
//
// If TryAcquire returns without a decision of Redis, because the context is done or Redis replies an error, it gives
// back in the background what Redis may have taken for it: the slot. It asks each tenth of the TTL, until Redis answers
// or the TTL is over. Tokens stay taken.
func (l *Limiter) TryAcquire(ctx context.Context, key string, slots Slots, requests ...Request) (Acquisition, error) {
	return l.newAttempt(key, slots, requests).ask(ctx, nil)
}

// Acquire is TryAcquire that waits: without an error, the Acquisition has a Slot. Callers of one Limiter with the same
// key and Slots stand in one line. Only the first asks Redis, so they get slots in the order of asking. It asks again
// when this Limiter releases a slot with the same key and Slots, or after a pause of 5 ms to 1 s, which depends on how
// long slots are held and how many there are. A caller that lacks tokens leaves the line until they are due, and keeps
// its number: meanwhile smaller requests may be served. Between processes there is no order, but each gets a share.
//
// It returns [ErrWaitTooLong] if no slot comes free within [WithMaxWait], and at once if the tokens would be due after
// that, or after the deadline of ctx. With a max wait of 0 it asks once, outside the line. Other errors are
// [ErrNeverFits], [ErrTooManyWaiting], and the cause if ctx is done. A caller that gives up leaves no slot behind.
//
// If Redis does not answer, all who stand in the line are answered, each as [OnFailure] says: with FailLocal they get
// slots of this process in the order of asking, and with [FailClosed] they ask again each second.
func (l *Limiter) Acquire(ctx context.Context, key string, slots Slots, requests ...Request) (Acquisition, error) {
	a := l.newAttempt(key, slots, requests)
	if l.maxWait == 0 || a.isHopeless() {
		got, err := a.ask(ctx, nil)
		if err == nil && got.Limited() {
			_, err = got.due(0)
			err = cmp.Or(err, waitsNoLonger(key, noSlot, 0))
		}
		return got, err
	}
	place := l.lines.Join(lineKey{key, slots}, l.maxWaiting, requests)
	if place == nil {
		tooMany := fmt.Errorf("%w: key %q: %d callers wait already", ErrTooManyWaiting, key, l.maxWaiting)
		return a.ask(ctx, &failure{cause: tooMany})
	}
	defer place.Leave()
	within, cancel := context.WithTimeoutCause(ctx, l.maxWait, waitsNoLonger(key, noSlot, l.maxWait))
	defer cancel()
	for {
		turn, err := place.Await(within)
		a = l.newAttempt(key, slots, requests)
		a.q.waited, a.q.behind = turn.Waited, turn.Behind
		var known *failure
		if err != nil {
			known = &failure{cause: err}
		} else if turn.Failure != nil {
			known = &failure{turn.Failure, l.fallback()}
		}
		got, err := a.ask(ctx, known)
		if a.unanswered != nil {
			place.Failed(a.unanswered)
		}
		if err == nil {
			err = got.endTurn(within, place)
		}
		if err != nil || !got.Limited() {
			return got, err
		}
	}
}

// noSlot is why a caller has waited in vain.
const noSlot = "no slot has come free"

// A lineKey tells which callers stand in one line.
type lineKey struct {
	key   string
	slots Slots
}

// endTurn ends the turn of a caller in its line, or returns why a caller that is limited does not wait on.
func (a *Acquisition) endTurn(within context.Context, place *line.Place[lineKey, []Request]) error {
	source := a.Slots.Source
	full := a.Slots.Remaining == 0 && source != FromOpen && source != FromClosed
	if !a.Limited() {
		place.Served(full, source != FromLocal)
		return nil
	}
	deadline, _ := within.Deadline()
	due, err := a.due(max(time.Until(deadline), 0))
	switch {
	case err != nil:
	case due == 0:
		place.Limited(a.Slots.Slots.TTL - a.Slots.ResetAfter)
	default:
		place.Away(due, full, a.lacks)
	}
	return err
}

// due returns the time until the tokens that a limited call lacked are there, or 0 if it lacked only a slot. The error
// says why a caller that waits for no more than maxWait does not wait for them.
func (a *Acquisition) due(maxWait time.Duration) (time.Duration, error) {
	slowest := a.Requests.slowest()
	if a.Slots.Source == FromClosed {
		slowest = append(Results{a.Slots}, a.Requests...).slowest()
	}
	due := slowest.RetryAfter
	switch {
	case due == NoRetry:
		return 0, slowest.neverFits()
	case due > maxWait:
		return 0, waitsNoLonger(slowest.Key, fmt.Sprintf("the tokens would be due after %v", due), maxWait)
	}
	return max(due, pause(a.Requests, maxWait)), nil
}

// lacks reports whether a call with other requests lacks the tokens for which this call has to wait the longest.
func (a *Acquisition) lacks(requests []Request) bool {
	longest := a.Requests.RetryAfter()
	return slices.ContainsFunc(requests, func(other Request) bool {
		return slices.ContainsFunc(a.Requests, func(r Result) bool {
			return r.RetryAfter == longest && r.Key == other.Key && r.Limit == other.Limit && r.Quantity <= other.Quantity
		})
	})
}

// An attempt is one call for a slot, and for tokens with it.
type attempt struct {
	hold
	q          *query
	unanswered error // why Redis has not answered, which concerns other callers, too, unlike an error reply
}

// newAttempt returns an attempt under the name of a new holder, which is to be sent at once.
func (l *Limiter) newAttempt(key string, slots Slots, requests []Request) *attempt {
	q := newQuery(call.Reserve, 1+len(requests))
	q.addSlots(l, key, slots, rand.Text())
	for _, request := range requests {
		q.addTokens(l, request.Key, request.Limit, request.Quantity)
	}
	a := &attempt{q: q}
	a.hold = hold{limiter: l, key: key, slots: slots, holder: q.Rows[0].Holder, taken: time.Now()}
	q.Lost = a.giveBackLost
	return a
}

// isHopeless reports whether no waiting helps: the call is wrong, or can never be allowed.
func (a *attempt) isHopeless() bool {
	return a.q.invalid != nil || slices.ContainsFunc(a.q.Rows, func(row backend.Row) bool {
		return row.NeverFits() || row.HasEnded(a.limiter.wall())
	})
}

// ask has Redis decide, and the policy of [OnFailure] if it fails, unless the outcome is known.
func (a *attempt) ask(ctx context.Context, known *failure) (Acquisition, error) {
	var cause, err error
	if known == nil {
		cause, err = a.limiter.decideTogether(ctx, a.q)
	} else {
		_, err = a.limiter.decide(ctx, known, a.q)
	}
	got := Acquisition{Slots: a.q.results[0], Requests: a.q.results[1:]}
	if err == nil && got.Slots.Allowed == 1 {
		got.Slot = a.newSlot(ctx, string(got.Slots.Source))
	}
	if ctx.Err() == nil && !isDecided(cause) && !redis.IsAnswered(cause) {
		a.unanswered = cause
	}
	return got, err
}

// A failure answers calls that Redis does not decide.
type failure struct {
	cause   error
	instead backend.Backend // decides, or is nil
}

// Ask returns the cause, unless another backend decides.
func (f *failure) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	if f.instead == nil {
		return backend.Reply{}, f.cause
	}
	reply, err := f.instead.Ask(ctx, c)
	reply.Cause = f.cause
	return reply, err
}
