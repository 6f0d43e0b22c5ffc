package limiter

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/line"
	"funnel/limiter/internal/redis"
	"funnel/limiter/internal/wait"
)

// An Acquirer takes slots as [Limiter.TryAcquire] does: a [Limiter], or a wrapper of one.
type Acquirer interface {
	TryAcquire(ctx context.Context, rows ...Row) (*Acquisition, error)
}

// TryAcquire takes slots, and tokens with them: all rows or none. Of the 1 to 64 rows at least one
// is of slots; each key differs from the others, and a request may ask for 0 tokens. Without a free
// slot or enough tokens the Acquisition is limited: TryAcquire does not wait. What
// [Limiter.AllowAll] says of hash tags applies. The Acquisition that comes with an error is
// limited.
//
// If TryAcquire returns without a decision of Redis, the slots that Redis may have taken are given
// back in the background: see the package comment, "Callers that give up".
func (l *Limiter) TryAcquire(ctx context.Context, rows ...Row) (*Acquisition, error) {
	got, _, err := l.attempt(ctx, l.newAttempt(rows))
	return got, err
}

// Acquire is TryAcquire that waits: without an error, the Acquisition holds its slots. Callers of
// one Limiter who ask for the same slots (keys, Max and TTL, in any order) stand in one line. Only
// the first asks Redis, so they are served in the order of asking. It asks again when this Limiter
// releases a slot of one of its keys, or after a pause of 5 ms to 1 s, which depends on how long
// slots are held and how many there are. A caller that lacks tokens leaves the line until they are
// due, and keeps its number: meanwhile smaller requests may be served. Between processes there is
// no order, but each gets a share.
//
// It returns [ErrWaitTooLong] if no slot comes free within [WithMaxWait], and at once if the tokens
// would be due after that, or after the deadline of ctx. With a max wait of 0 it asks once, outside
// the line. Other errors are [ErrNeverFits], [ErrTooManyWaiting], and the cause if ctx is done. A
// caller that gives up leaves no slot behind.
//
// If Redis does not answer, [OnFailure] answers all callers in the line. With [FailLocal] they get
// slots of this process in the order of asking. With [FailClosed] they ask again each second.
func (l *Limiter) Acquire(ctx context.Context, rows ...Row) (*Acquisition, error) {
	inv := l.newAttempt(rows)
	if l.maxWait == 0 || l.isHopeless(inv) {
		return l.acquireNow(ctx, inv)
	}
	slots, requests := inv.slots(), inv.requests()
	place, leave := l.lines.join(slots, requests, l.maxWaiting)
	if place == nil {
		inv.rejected = fmt.Errorf("%w: key %q: %d callers wait already", ErrTooManyWaiting, slots[0].key, l.maxWaiting)
		got, _, err := l.attempt(ctx, inv)
		return got, err
	}
	defer leave()
	tooLong := waitsNoLonger(slots[0].key, noSlot, wait.ForSlot, l.maxWait)
	within, cancel := context.WithTimeoutCause(ctx, l.maxWait, tooLong)
	defer cancel()
	for {
		turn, err := place.Await(within)
		inv = l.newAttempt(rows)
		inv.waited, inv.behind, inv.Failure = turn.Waited, turn.Behind, turn.Failure
		if err != nil {
			inv.rejected = err
		}
		got, unanswered, err := l.attempt(ctx, inv)
		if unanswered != nil && turn.Failure == nil { // those who joined since do not get the same answer
			place.Failed(unanswered)
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

// acquireNow asks once, for a caller that does not wait.
func (l *Limiter) acquireNow(ctx context.Context, inv *invocation) (*Acquisition, error) {
	got, _, err := l.attempt(ctx, inv)
	if err == nil && got.Limited() {
		_, err = got.due(0)
		err = cmp.Or(err, waitsNoLonger(got.firstSlots().Key, noSlot, wait.ForSlot, 0))
	}
	return got, err
}

// endTurn ends the turn of a caller in its line, or returns why a caller that is limited does not
// wait on.
func (a *Acquisition) endTurn(within context.Context, place *line.Place[string, []Request]) error {
	full, shared, age := a.slotState()
	if !a.Limited() {
		place.Served(full, shared)
		return nil
	}
	deadline, _ := within.Deadline()
	due, err := a.due(max(time.Until(deadline), 0))
	switch {
	case err != nil:
	case due == 0:
		place.Limited(age)
	default:
		place.Away(due, full, a.lacks)
	}
	return err
}

// slotState summarises the rows of slots: whether the slots of some key are all held; whether other
// processes may wait for them, too; and the age of the newest slot of that key.
func (a *Acquisition) slotState() (full, shared bool, age time.Duration) {
	for _, r := range a.Results {
		isCounted := r.Source != FromOpen && r.Source != FromClosed
		if r.Slots.Max == 0 || !isCounted {
			continue
		}
		shared = shared || r.Source != FromLocal
		if r.Remaining == 0 {
			full, age = true, max(age, r.Slots.TTL-r.ResetAfter)
		}
	}
	return full, shared, age
}

// due returns how long until the missing tokens are available, or 0 if only a slot was missing. It
// returns an error if that is longer than maxWait, or never.
func (a *Acquisition) due(maxWait time.Duration) (time.Duration, error) {
	lacking := a.lacking()
	slowest := lacking.slowest()
	due := slowest.RetryAfter
	switch {
	case due == NoRetry:
		return 0, slowest.neverFits()
	case due > maxWait:
		return 0, waitsNoLonger(slowest.Key, tokensLate(due), due, maxWait)
	}
	return max(due, untilRetry(lacking, maxWait)), nil
}

// lacking returns the rows whose wait counts: tokens, and slots that FailClosed has refused. The
// wait for other slots says little.
func (a *Acquisition) lacking() (rows Results) {
	for _, r := range a.Results {
		if r.Slots.Max == 0 || r.Source == FromClosed {
			rows = append(rows, r)
		}
	}
	return rows
}

// lacks reports whether other requests are held up by the same limit as this call: the one with the
// longest wait.
func (a *Acquisition) lacks(requests []Request) bool {
	tokens := a.lacking()
	longest := tokens.RetryAfter()
	return slices.ContainsFunc(requests, func(other Request) bool {
		return slices.ContainsFunc(tokens, func(r Result) bool {
			return r.RetryAfter == longest && r.Key == other.Key && r.Limit == other.Limit && r.Quantity <= other.Quantity
		})
	})
}

// firstSlots returns the first row of slots.
func (a *Acquisition) firstSlots() Result {
	at := slices.IndexFunc(a.Results, func(r Result) bool { return r.Slots.Max > 0 })
	return a.Results[at]
}

// errNoSlotsRow is the error of an attempt without slots.
var errNoSlotsRow = errors.New("limiter: a call that acquires needs at least one row of slots: " +
	"for tokens alone, use AllowAll or WaitAll")

// newAttempt returns a call for slots, and for tokens with them. Its holder is new: a reply that
// says that the holder has a slot tells that an earlier copy of the same command was executed.
func (l *Limiter) newAttempt(rows []Row) *invocation {
	inv := newInvocation(call.Reserve, len(rows))
	inv.addRows(l, rows, rand.Text())
	if len(inv.slots()) == 0 {
		inv.rejectInvalid(errNoSlotsRow)
	}
	return inv
}

// slots returns the rows of slots.
func (inv *invocation) slots() (slots []slotsRow) {
	for _, result := range inv.results {
		if result.Slots != (Slots{}) {
			slots = append(slots, slotsRow{result.Key, result.Slots})
		}
	}
	return slots
}

// requests returns the rows of tokens.
func (inv *invocation) requests() (requests []Request) {
	for _, result := range inv.results {
		if result.Slots == (Slots{}) {
			requests = append(requests, Request{result.Key, result.Limit, result.Quantity})
		}
	}
	return requests
}

// isHopeless reports whether no waiting helps: the call is wrong, or can never be allowed.
func (l *Limiter) isHopeless(inv *invocation) bool {
	return inv.rejected != nil || slices.ContainsFunc(inv.Rows, func(row backend.AskedRow) bool {
		return row.NeverFits() || row.HasEnded(l.wall())
	})
}

// attempt asks once. Unanswered is why Redis has not answered about any of the slots: that concerns
// callers who wait behind this one, too, unlike an error reply, and unlike a failure of the node
// that has some of the tokens.
func (l *Limiter) attempt(ctx context.Context, inv *invocation) (got *Acquisition, unanswered, err error) {
	taken := time.Now()
	reply, err := l.decide(ctx, inv)
	for i := range inv.Rows {
		if inv.Rows[i].Kind != call.Slots || !reply.Has(i) {
			continue
		}
		// The cause of ctx, an error reply, and a call that failed in this process concern nobody
		// else.
		cause := reply.Row(i).Cause
		isOwn := ctx.Err() != nil || redis.IsAnswered(cause) || errors.Is(cause, backend.ErrInProcess)
		if isOwn || !errors.Is(cause, ErrUnavailable) {
			unanswered = nil
			break
		}
		unanswered = cmp.Or(unanswered, cause)
	}
	return l.newAcquisition(ctx, inv, &reply, taken), unanswered, err
}
