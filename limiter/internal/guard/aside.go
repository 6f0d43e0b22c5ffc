package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
	"funnel/limiter/internal/undo"
)

// errTooManyLeft is the error of a call that is not sent because its caller might leave it behind.
var errTooManyLeft = backend.NotSentHere(
	fmt.Errorf("%d calls are under way whose callers have given up: Redis does not answer them", maxLeft))

// An aside is a command that another goroutine sends while the caller waits.
type aside struct {
	state atomic.Int32
	reply backend.Reply
	err   error
	done  chan struct{} // is closed when the answer is there, unless the caller has left
	late  *undo.Late    // ends the call; set before the caller leaves
}

// The states of an aside. Whichever comes first, the answer or the caller's leaving, sets the
// state.
const (
	underWay int32 = iota
	answered
	callerCancelled // the context of the caller is done
	callerTimedOut  // the caller has waited for the whole time-out, and has told the breaker
)

// sendAside sends a command in another goroutine, because the caller may have to leave before the
// answer. It waits for the answer, for ctx and for the time-out, whichever comes first.
func (g *Guard) sendAside(ctx context.Context, c *backend.Call,
	send func(context.Context) (backend.Reply, error)) (backend.Reply, error) {
	if g.left.Load() >= maxLeft && !c.Undoes && !c.EndsSlot() && !c.Settles {
		return backend.Reply{}, backend.Unavailable(c.Wrap(errTooManyLeft))
	}
	a := &aside{done: make(chan struct{})}
	within, cancel := g.within(ctx)
	go func() {
		defer cancel()
		a.reply, a.err = send(within)
		if a.state.CompareAndSwap(underWay, answered) {
			close(a.done)
			return
		}
		g.left.Add(-1)
		g.finish(within, c, a)
	}()
	select {
	case <-a.done:
	case <-ctx.Done():
		if g.leave(ctx, c, a, callerCancelled) {
			return backend.Reply{Sent: true}, context.Cause(ctx)
		}
	case <-within.Done():
		if !g.waitedInVain(c, a) && g.leave(ctx, c, a, callerTimedOut) {
			g.breaker.failed(g.now(), g.timedOut)
			return backend.Reply{Sent: true}, g.causeOf(ctx, backend.Unavailable(c.Wrap(g.timedOut)))
		}
	}
	<-a.done // a decision that has arrived counts
	return a.reply, g.conclude(ctx, c, g.note(within, c, a.err))
}

// letGo is how long a caller waits after the time-out for a command that may only have waited for a
// connection: such a command ends as soon as its goroutine runs. The time is short, because a
// command that has a connection goes on for as long as the client lets it.
const letGo = 50 * time.Millisecond

// waitedInVain reports whether a command ends with its time-out, because it has waited for a
// connection. Without ContextTimeoutEnabled, go-redis ends no other command at its time-out.
func (g *Guard) waitedInVain(c *backend.Call, a *aside) bool {
	if !g.redis.AllInUse(c.Rows[0].Key) {
		return false
	}
	select {
	case <-a.done:
		return true
	case <-time.After(letGo):
		return false
	}
}

// leave reports whether the caller leaves before the answer has come.
func (g *Guard) leave(ctx context.Context, c *backend.Call, a *aside, how int32) bool {
	a.late = g.undo.Leave(ctx, c)
	g.left.Add(1)
	if a.state.CompareAndSwap(underWay, how) {
		return true
	}
	g.left.Add(-1)
	a.late.TookNothing()
	return false
}

// finish ends a command without a caller.
func (g *Guard) finish(within context.Context, c *backend.Call, a *aside) {
	err := a.err
	if redis.IsAnswered(err) || a.state.Load() == callerCancelled { // otherwise the caller has told the breaker
		err = g.note(within, c, err)
	}
	switch {
	case err == nil:
		a.late.Decided(&a.reply)
	case errors.Is(err, backend.ErrNotSent) && (c.Undoes || c.Settles):
		a.late.SendAgain(err)
	case errors.Is(err, backend.ErrInvalid), errors.Is(err, backend.ErrNotSent):
		a.late.TookNothing()
	default:
		a.late.Lost(redis.IsAnswered(err))
	}
}
