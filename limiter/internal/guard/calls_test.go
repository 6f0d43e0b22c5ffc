// Calls that an open breaker lets pass, callers without a time-out, and slots that are asked back.

package guard

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/internal/servertest"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/undo"
)

// An open breaker refuses calls, but lets slots be renewed and given back. What nobody got is given
// back at once or never.
func TestWhatAnOpenBreakerLetsPass(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*backend.Call)
		passes bool
	}{
		"a new slot":       {func(*backend.Call) {}, false},
		"a renewal":        {func(c *backend.Call) { c.Renews = true }, true},
		"a slot goes back": {func(c *backend.Call) { c.Operation = call.Refund }, true},
		"tokens go back":   {func(c *backend.Call) { c.Operation, c.Rows[0].Kind = call.Refund, call.Funnel }, false},
		"nobody got them":  {func(c *backend.Call) { *c = *refundOfTokens() }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			isDown, passed := true, 0
			g := newGuarded(fakeRedis{answer: func(context.Context, *backend.Call) (backend.Reply, error) {
				if isDown {
					return backend.Reply{}, errors.New("EOF")
				}
				passed++
				return allowed, nil
			}, isPrompt: true})
			for range failuresToOpen {
				_, err := g.Ask(t.Context(), &backend.Call{Operation: call.Peek, Rows: []backend.AskedRow{{Key: "key"}}})
				require.Error(t, err, name)
			}
			require.True(t, g.breaker.isOpen(), name)
			isDown = false
			asked := slotCall()
			c.change(asked)
			_, err := g.Ask(t.Context(), asked)
			require.Equal(t, c.passes, err == nil, "%s: %v", name, err)
			require.Equal(t, c.passes, passed == 1, "%s: %d calls have passed", name, passed)
		})
	}
}

// refundOfTokens returns the call by which an Undo gives back tokens that nobody got.
func refundOfTokens() *backend.Call {
	return &backend.Call{Operation: call.Refund, Undoes: true, Rows: []backend.AskedRow{{Key: "key", Kind: call.Funnel}}}
}

// settlement returns the call by which a caller gives back tokens that it has not used.
func settlement() *backend.Call {
	c := refundOfTokens()
	c.Undoes, c.Settles = false, true
	return c
}

// Without a time-out, a caller that may give up leaves at once when it does, even if the client
// keeps deadlines.
func TestCallersWithoutATimeOutLeave(t *testing.T) {
	for _, isPrompt := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			redis := fakeRedis{answer: func(within context.Context, _ *backend.Call) (backend.Reply, error) {
				_, has := within.Deadline()
				require.False(t, has, "nothing bounds the command")
				time.Sleep(time.Hour)
				return allowed, nil
			}, isPrompt: isPrompt}
			var refunds atomic.Int64
			u := undo.New(func(context.Context, *backend.Call) (backend.Reply, error) {
				refunds.Add(1)
				return backend.Reply{First: backend.RowReply{Source: backend.Module, Held: true}}, nil
			}, redis.Node, slog.Default())
			g := New(redis, u, 0, func() time.Duration { return 0 })
			ctx, giveUp := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, giveUp)
			began := time.Now()
			_, err := g.Ask(ctx, slotCall())
			require.Equal(t, context.Canceled, err)
			require.Equal(t, time.Second, time.Since(began), "the caller leaves when it gives up")
			time.Sleep(2 * time.Hour)
			require.EqualValues(t, 1, refunds.Load(), "the slot is given back when the answer has come")
		})
	}
}

// The slots of a call without an answer are asked back, while its caller waits. A call that was not
// sent, or that was wrong, has taken none.
func TestWhichSlotsAreAskedBack(t *testing.T) {
	notSent := backend.Classify(backend.ErrNotSent, errors.New("the pool is full"))
	perhapsSent := backend.Classify(backend.ErrInProcess, errors.New("no connection to repeat it"))
	for name, c := range map[string]struct {
		err  error
		back bool
	}{
		"no answer":         {errors.New("EOF"), true},
		"an error reply":    {backend.Unavailable(servertest.ErrorReply("OOM")), true},
		"not sent":          {notSent, false},
		"perhaps sent":      {perhapsSent, true},
		"the call is wrong": {backend.Invalid(servertest.ErrorReply("INVALID")), false},
	} {
		for _, isPrompt := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				g := newGuarded(fakeRedis{answer: func(context.Context, *backend.Call) (backend.Reply, error) {
					return backend.Reply{}, c.err
				}, isPrompt: isPrompt})
				_, err := g.Ask(t.Context(), slotCall())
				require.Error(t, err, name)
				time.Sleep(time.Hour)
				require.Equal(t, c.back, g.refunds.Load() > 0, "%s: %v: asked back %d times", name, err, g.refunds.Load())
				left, err := g.undo.Drain(t.Context())
				require.NoError(t, err, name)
				require.Zero(t, left, name)
			})
		}
	}
}

// A refund of tokens and a settlement whose caller has waited in vain are sent again if it turns
// out that they were not sent. If they may have been sent, they are not.
func TestLateCallsThatWereNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		call  *backend.Call
		err   error
		again bool
	}{
		"a refund, not sent":         {refundOfTokens(), backend.ErrNotSent, true},
		"a refund, perhaps sent":     {refundOfTokens(), backend.ErrInProcess, false},
		"a settlement, not sent":     {settlement(), backend.ErrNotSent, true},
		"a settlement, perhaps sent": {settlement(), errors.New("EOF"), false},
		"tokens, not sent":           {slotCall(), backend.ErrNotSent, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuarded(fakeRedis{answer: func(context.Context, *backend.Call) (backend.Reply, error) {
				time.Sleep(4 * time.Second)
				return backend.Reply{}, backend.Classify(c.err, errors.New("the pool is full"))
			}, isPrompt: false})
			began := time.Now()
			_, err := g.Ask(t.Context(), c.call)
			require.ErrorContains(t, err, "no answer from Redis within 1s", name)
			require.NotErrorIs(t, err, backend.ErrNotSent, "%s: that is not known yet", name)
			left, err := g.undo.Drain(t.Context())
			require.NoError(t, err, name)
			require.Zero(t, left, name)
			require.Equal(t, c.again, g.refunds.Load() == 1, "%s: sent %d times more", name, g.refunds.Load())
			if c.again {
				require.Equal(t, 4100*time.Millisecond, time.Since(began), "%s: Drain waits for it", name)
			}
		})
	}
}

// A caller that gives up in the very moment of the answer gets one of both, and the slot is held or
// given back accordingly.
func TestGivingUpInTheMomentOfTheAnswer(t *testing.T) {
	got := map[bool]int{}
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			g := newGuarded(fakeRedis{answer: func(context.Context, *backend.Call) (backend.Reply, error) {
				giveUp()
				return allowed, nil
			}, isPrompt: false})
			_, err := g.Ask(ctx, slotCall())
			synctest.Wait()
			left, drained := g.undo.Drain(t.Context())
			require.NoError(t, drained)
			require.Zero(t, left, "calls under way after %v", err)
			require.Zero(t, g.left.Load(), "calls without a caller after %v", err)
			require.Equal(t, err != nil, g.refunds.Load() == 1, "refunds: %d, after %v", g.refunds.Load(), err)
			got[err == nil]++
		})
	}
	t.Logf("%d of 200 callers got the answer", got[true])
}

// What the breaker learns from calls whose callers have left: each failure counts once, and a late
// answer ends all failures. A caller that has waited for the whole time-out has told the breaker
// already.
func TestTheBreakerLearnsFromLateEnds(t *testing.T) {
	for name, c := range map[string]struct {
		callers int
		leave   time.Duration // when callers give up, if that is before the time-out
		late    error         // the answer that comes after 5 s
		opens   bool          // after the callers have left
		isOpen  bool          // after the late answers
	}{
		"two gave up, no answer":        {callers: 2, leave: time.Millisecond, late: errors.New("EOF"), isOpen: false},
		"three gave up, no answer":      {callers: 3, leave: time.Millisecond, late: errors.New("EOF"), isOpen: true},
		"three gave up, late answers":   {callers: 3, leave: time.Millisecond, isOpen: false},
		"two time-outs, no answer":      {callers: 2, late: errors.New("EOF"), isOpen: false},
		"three time-outs, no answer":    {callers: 3, late: errors.New("EOF"), opens: true, isOpen: true},
		"three time-outs, late answers": {callers: 3, opens: true, isOpen: false},
		"three time-outs, late error replies": {
			callers: 3, late: backend.Unavailable(servertest.ErrorReply("OOM")), opens: true, isOpen: false},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuarded(fakeRedis{answer: func(context.Context, *backend.Call) (backend.Reply, error) {
				time.Sleep(5 * time.Second)
				return allowed, c.late
			}})
			for range c.callers {
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				if c.leave > 0 {
					time.AfterFunc(c.leave, giveUp)
				}
				go func() { _, _ = g.Ask(ctx, slotCall()) }()
			}
			time.Sleep(2 * time.Second)
			require.Equal(t, c.opens, g.breaker.isOpen(), "%s: after the callers have left", name)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			require.Equal(t, c.isOpen, g.breaker.isOpen(), "%s: after the late answers", name)
			require.Zero(t, g.left.Load(), name)
			time.Sleep(2 * time.Hour)
		})
	}
}

// Reset deletes a key within the time-out, even while the breaker is open. Its caller may give up.
func TestResetOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(fakeRedis{isPrompt: true})
		for range failuresToOpen {
			g.breaker.failed(0, errors.New("EOF"))
		}
		require.NoError(t, g.Reset(t.Context(), "key"), "the breaker is open, and Reset asks all the same")
		require.False(t, g.breaker.isOpen(), "it was answered")
		gone, giveUp := context.WithCancel(t.Context())
		giveUp()
		require.Equal(t, context.Canceled, g.Reset(gone, "key"))
	})
}
