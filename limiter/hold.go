package limiter

import (
	"context"
	"errors"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
)

// A hold is a slot under the name of its holder, or an attempt to take one.
type hold struct {
	limiter *Limiter
	key     string
	slots   Slots
	holder  string
	taken   time.Time // the instant just before the call that took the slot was sent
}

// renewal returns a call that renews the slot. Its limit is 0, so it does not take a slot if this one is lost.
func (h *hold) renewal() *query {
	q := newQuery(call.Reserve, 1)
	q.Renews = true
	q.addSlots(h.limiter, h.key, Slots{TTL: h.slots.TTL}, h.holder)
	return q
}

// refund returns a call that ends the slot.
func (h *hold) refund() *query {
	q := newQuery(call.Refund, 1)
	q.addSlots(h.limiter, h.key, h.slots, h.holder)
	return q
}

// end ends the slot that a source has given. If Redis does not decide, end goes on asking in the background.
func (h *hold) end(ctx context.Context, source Source) (Result, error) {
	by, q := h.limiter.shared, h.refund()
	if source == FromLocal {
		by = h.limiter.local
	}
	_, err := h.limiter.decide(ctx, by, q)
	if !isDecided(err) {
		go h.giveBack(ctx, isDecided)
	}
	return q.results[0], err
}

// isDecided reports whether Redis has decided a call, or the call was wrong. Err is not the cause of a context.
func isDecided(err error) bool { return !errors.Is(err, ErrUnavailable) }

// giveBackLost ends a slot that may have been taken by a call whose answer was lost. A server that stands still has
// that call in its socket and executes it later, so giveBackLost asks until the server answers. An error reply is an
// answer: while a server is loading, the goroutines of all callers would pile up.
func (h *hold) giveBackLost(ctx context.Context) { h.giveBack(ctx, redis.IsAnswered) }

// giveBack ends a slot. It asks until isOver is true of the error of a call, or until the TTL is over.
func (h *hold) giveBack(ctx context.Context, isOver func(error) bool) {
	began, pause := time.Now(), h.slots.TTL/10
	for {
		reply, err := h.limiter.decide(ctx, h.limiter.shared, h.refund())
		if isOver(err) || time.Since(began) >= h.slots.TTL {
			h.wakeLine(reply)
			return
		}
		time.Sleep(pause)
	}
}

// wakeLine makes the first caller that waits for such a slot ask again, if the refund has ended a slot.
func (h *hold) wakeLine(refund backend.Reply) {
	if refund.First.Held {
		h.limiter.lines.Released(lineKey{h.key, h.slots}, time.Since(h.taken)/time.Duration(h.slots.Max))
	}
}
