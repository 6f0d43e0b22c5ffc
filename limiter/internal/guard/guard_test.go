// A caller that gives up leaves nothing behind, and tells nothing about Redis.

package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/internal/servertest"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/undo"
)

// A fakeRedis answers calls by a function. It keeps deadlines if it is prompt.
type fakeRedis struct {
	answer   func(ctx context.Context, c *backend.Call) (backend.Reply, error)
	isPrompt bool
	isFull   bool // all connections are in use
}

func (r fakeRedis) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	reply, err := r.answer(ctx, c)
	reply.Sent = true
	return reply, err
}

func (fakeRedis) Reset(context.Context, string) error { return nil }
func (fakeRedis) Node(key string) string              { return key }
func (r fakeRedis) AllInUse(string) bool              { return r.isFull }
func (r fakeRedis) KeepsDeadlines() bool              { return r.isPrompt }

// A guarded Redis is a guard with a time-out of a second, by the clock of a bubble, and the refunds
// that the guard has asked for.
type guarded struct {
	*Guard
	undo    *undo.Undo
	refunds atomic.Int64
}

func newGuarded(redis fakeRedis) *guarded {
	g, began := &guarded{}, time.Now()
	g.undo = undo.New(func(context.Context, *backend.Call) (backend.Reply, error) {
		g.refunds.Add(1)
		return backend.Reply{First: backend.RowReply{Source: backend.Module, Held: true}}, nil
	}, redis.Node, slog.Default())
	g.Guard = New(redis, g.undo, time.Second, func() time.Duration { return time.Since(began) })
	return g
}

// slotCall returns a call for a slot.
func slotCall() *backend.Call {
	return &backend.Call{Operation: call.Reserve,
		Rows: []backend.AskedRow{{Key: "key", Kind: call.Slots, TTL: time.Minute, Holder: "holder"}}}
}

// allowed is the reply to slotCall that gives a slot.
var allowed = backend.Reply{First: backend.RowReply{Source: backend.Module}}

// A caller that waits in its own goroutine gets a decision that arrives, even if it has given up.
// It waits so if nothing but the time-out can end the call.
func TestWhoWaitsInItsOwnGoroutine(t *testing.T) {
	for name, c := range map[string]struct {
		isPrompt bool
		deadline time.Duration // of the caller; 0 for none
		inline   bool
	}{
		"no deadline":             {true, 0, true},
		"a later deadline":        {true, 2 * time.Second, true},
		"the deadline is as late": {true, time.Second, true},
		"an earlier deadline":     {true, time.Second - 1, false},
		"a client that waits on":  {false, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			g := newGuarded(fakeRedis{answer: func(within context.Context, _ *backend.Call) (backend.Reply, error) {
				cancel()
				time.Sleep(time.Millisecond)
				require.NoError(t, within.Err(), "%s: the command belongs to the guard", name)
				return allowed, nil
			}, isPrompt: c.isPrompt})
			_, err := g.Ask(ctx, slotCall())
			if c.inline {
				require.NoError(t, err, "%s: a decision that arrives counts", name)
			} else {
				require.Equal(t, context.Canceled, err, "%s: the caller leaves at once", name)
			}
			synctest.Wait()
			left, err := g.undo.Drain(t.Context())
			require.NoError(t, err, name)
			require.Zero(t, left, name)
			require.Equal(t, c.inline, g.refunds.Load() == 0, "%s: a slot that nobody has got is given back", name)
		})
	}
}

// The cause may be the error of another call, as in an errgroup.
func TestCallersWhoGiveUpGetTheirCause(t *testing.T) {
	for _, reason := range []error{
		errors.New("x"), backend.Invalid(errors.New("x")), backend.Unavailable(errors.New("x")),
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Millisecond, func() { cancel(reason) })
			g := newGuarded(fakeRedis{answer: func(ctx context.Context, _ *backend.Call) (backend.Reply, error) {
				time.Sleep(time.Second / 2)
				return allowed, nil
			}, isPrompt: false})
			_, err := g.Ask(ctx, slotCall())
			require.Equal(t, reason, err, "no failure of Redis")
			require.False(t, g.breaker.isOpen())
			time.Sleep(time.Second)
			require.EqualValues(t, 1, g.refunds.Load(), "%v: the slot is given back", reason)
		})
	}
}

// Nobody gets a late answer, so what the call took is given back. A call that took nothing is left
// alone.
func TestLateAnswers(t *testing.T) {
	oom := backend.Unavailable(servertest.ErrorReply("OOM"))
	for name, c := range map[string]struct {
		reply   backend.Reply
		err     error
		change  func(*backend.Call)
		refunds bool
	}{
		"allowed": {allowed, nil, nil, true},
		"limited": {backend.Reply{Limited: true, First: backend.RowReply{Source: backend.Module, Limited: true}},
			nil, nil, false},
		"wrong":             {backend.Reply{}, backend.Invalid(servertest.ErrorReply("x")), nil, false},
		"no answer":         {backend.Reply{}, errors.New("EOF"), nil, true},
		"refused by Redis":  {backend.Reply{}, oom, nil, true},
		"by FailOpen":       {backend.Reply{First: backend.RowReply{Source: backend.Open}}, nil, nil, false},
		"a charge":          {allowed, nil, func(c *backend.Call) { c.Operation = call.Charge }, false},
		"a renewal":         {allowed, nil, func(c *backend.Call) { c.Renews = true }, false},
		"a reservation":     {allowed, nil, func(c *backend.Call) { c.MaxWait = 1 }, false},
		"a look":            {allowed, nil, func(c *backend.Call) { c.Operation = call.Peek }, false},
		"a refund":          {allowed, nil, func(c *backend.Call) { c.Operation = call.Refund }, false},
		"no answer, a look": {backend.Reply{}, errors.New("EOF"), func(c *backend.Call) { c.Operation = call.Peek }, false},
	} {
		for _, by := range []string{"the time-out", "the caller"} {
			synctest.Test(t, func(t *testing.T) {
				const took = time.Minute
				g := newGuarded(fakeRedis{answer: func(context.Context, *backend.Call) (backend.Reply, error) {
					time.Sleep(took)
					return c.reply, c.err
				}, isPrompt: false})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if by == "the caller" {
					time.AfterFunc(time.Millisecond, cancel)
				}
				asked := slotCall()
				if c.change != nil {
					c.change(asked)
				}
				_, err := g.Ask(ctx, asked)
				require.Error(t, err, name)
				require.Equal(t, by == "the time-out", errors.Is(err, backend.ErrUnavailable), name)
				time.Sleep(took - 2*time.Second)
				require.Zero(t, g.refunds.Load(), "%s, by %s: the call is under way", name, by)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Equal(t, c.refunds, g.refunds.Load() > 0, "%s, by %s: refunds", name, by)
				require.Zero(t, g.left.Load(), name)
			})
		}
	}
}

// While a server hangs, no more than maxLeft calls are under way without a caller. What is not sent
// is no failure of Redis. What goes back to Redis is sent all the same: settlements, slots, and
// refunds of what nobody got.
func TestCallsWithoutACallerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var underWay atomic.Int64
		answers := make(chan struct{})
		g := newGuarded(fakeRedis{answer: func(_ context.Context, c *backend.Call) (backend.Reply, error) {
			if c.Undoes || c.Settles || c.EndsSlot() {
				return allowed, nil
			}
			underWay.Add(1)
			defer underWay.Add(-1)
			<-answers
			return allowed, nil
		}, isPrompt: false})
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := g.Ask(ctx, slotCall())
			return err
		}
		for i := range maxLeft {
			require.Equal(t, context.DeadlineExceeded, ask(), "call %d", i)
		}
		for range 10 {
			err := ask()
			require.ErrorIs(t, err, backend.ErrUnavailable)
			require.ErrorContains(t, err, "1000 calls are under way whose callers have given up")
		}
		require.EqualValues(t, maxLeft, underWay.Load())
		require.False(t, g.breaker.isOpen(), "a failure of this process")
		release := slotCall()
		release.Operation = call.Refund
		for _, c := range []*backend.Call{refundOfTokens(), settlement(), release} {
			_, err := g.Ask(t.Context(), c)
			require.NoError(t, err, "%+v", c)
		}
		close(answers)
		synctest.Wait()
		require.EqualValues(t, maxLeft, g.refunds.Load(), "all slots are given back")
		_, err := g.Ask(t.Context(), slotCall())
		require.NoError(t, err)
	})
}

// A breaker is a state machine: calls, and what it says after each.
func TestBreaker(t *testing.T) {
	down := errors.New("EOF")
	var b breaker
	for _, step := range []struct {
		name   string
		at     time.Duration
		do     func(now time.Duration)
		isOpen bool
		admits bool // a call at that instant
	}{
		{"two failures", 0, func(now time.Duration) { b.failed(now, down); b.failed(now, down) }, false, true},
		{"an answer", 0, b.answered, false, true},
		{"two failures more", time.Second, func(now time.Duration) { b.failed(now, down); b.failed(now, down) }, false, true},
		{"a third in a row", 2 * time.Second, func(now time.Duration) { b.failed(now, down) }, true, false},
		{"a nanosecond too early", 3*time.Second - 1, func(time.Duration) {}, true, false},
		{"the probe", 3 * time.Second, func(time.Duration) {}, true, true},
		{"after the probe", 3 * time.Second, func(time.Duration) {}, true, false},
		{"the probe fails; the next is a second after it was sent", 3500 * time.Millisecond,
			func(now time.Duration) { b.failed(now, down) }, true, false},
		{"the second probe", 4 * time.Second, func(time.Duration) {}, true, true},
		{"an answer ends it", 4 * time.Second, b.answered, false, true},
	} {
		step.do(step.at)
		require.Equal(t, step.isOpen, b.isOpen(), "%s, at %v", step.name, step.at)
		if step.isOpen {
			err := b.admit(step.at)
			require.Equal(t, step.admits, err == nil, "%s, at %v: %v", step.name, step.at, err)
			if err != nil {
				since := step.at - time.Second
				require.EqualError(t, err, fmt.Sprintf("Redis is not asked, because it has not answered for %v: EOF",
					since.Round(time.Millisecond)), step.name)
			}
		}
	}
}

// With a client that does not end commands at the time-out, a call whose command waits for a
// connection until then ends with it: that is no failure of Redis. A command that has a connection
// goes on, and is one.
func TestTimeOutsWithoutAFreeConnection(t *testing.T) {
	for name, c := range map[string]struct {
		isFull, isSent bool
		took           time.Duration
		opens          bool
	}{
		"it waits for a connection":                   {true, false, time.Second, false},
		"it waits for an answer":                      {true, true, time.Second + letGo, true},
		"it waits for an answer, and others have one": {false, true, time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuarded(fakeRedis{answer: func(within context.Context, _ *backend.Call) (backend.Reply, error) {
				<-within.Done()
				if !c.isSent {
					return backend.Reply{}, backend.NotSentHere(errors.New("no connection was free"))
				}
				time.Sleep(time.Minute)
				return allowed, nil
			}, isPrompt: false, isFull: c.isFull})
			for range failuresToOpen {
				began := time.Now()
				_, err := g.Ask(t.Context(), slotCall())
				require.ErrorIs(t, err, backend.ErrUnavailable, name)
				require.Equal(t, c.isSent, !errors.Is(err, backend.ErrNotSent), "%s: %v", name, err)
				require.Equal(t, c.took, time.Since(began), name)
			}
			require.Equal(t, c.opens, g.breaker.isOpen(), "%s: the breaker", name)
			time.Sleep(time.Hour)
			require.Equal(t, c.isSent, g.refunds.Load() > 0, "%s: slots are given back", name)
			require.Zero(t, g.left.Load(), name)
		})
	}
}

// Calls that wait for a connection until their time-out show that Redis hangs, unless Redis has
// answered another call meanwhile. Calls that were sent show it in any case: three of them at the
// same instant, after an answer that came half a second before, open the breaker.
func TestCallsThatWereNotSentWhileOthersAreAnswered(t *testing.T) {
	for name, c := range map[string]struct{ isSent, answersOthers, opens bool }{
		"not sent, and Redis answers others": {false, true, false},
		"not sent, and Redis answers nobody": {false, false, true},
		"sent, and Redis answers others":     {true, true, true},
		"sent, and Redis answers nobody":     {true, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuarded(fakeRedis{answer: func(within context.Context, asked *backend.Call) (backend.Reply, error) {
				if asked.Operation == call.Peek {
					return allowed, nil
				}
				<-within.Done()
				if c.isSent {
					return backend.Reply{}, within.Err()
				}
				return backend.Reply{}, backend.Classify(backend.ErrNotSent, within.Err())
			}, isPrompt: true})
			var group sync.WaitGroup
			for range failuresToOpen {
				group.Go(func() {
					_, err := g.Ask(t.Context(), slotCall())
					assert.ErrorIs(t, err, backend.ErrUnavailable, name)
					assert.ErrorContains(t, err, "no answer from Redis within 1s", name)
					assert.Equal(t, !c.isSent, errors.Is(err, backend.ErrNotSent), name)
				})
			}
			time.Sleep(500 * time.Millisecond)
			if c.answersOthers {
				_, err := g.Ask(t.Context(), &backend.Call{Operation: call.Peek, Rows: []backend.AskedRow{{Key: "key"}}})
				require.NoError(t, err, name)
			}
			group.Wait()
			require.Equal(t, c.opens, g.breaker.isOpen(), "%s: the breaker", name)
			synctest.Wait()
			require.Equal(t, c.isSent, g.refunds.Load() > 0, "%s: slots are asked back", name)
		})
	}
}

// While the breaker is open, calls are not sent, but for a probe each second. Slots are renewed and
// given back all the same.
func TestOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		g := newGuarded(fakeRedis{func(context.Context, *backend.Call) (backend.Reply, error) {
			sent++
			return backend.Reply{}, errors.New("EOF")
		}, true, false})
		look := slotCall()
		look.Operation = call.Peek
		renewal, release := slotCall(), slotCall()
		renewal.Renews, release.Operation = true, call.Refund
		ask := func(c *backend.Call) bool {
			before := sent
			_, err := g.Ask(t.Context(), c)
			require.ErrorIs(t, err, backend.ErrUnavailable)
			return sent > before
		}
		for i := range failuresToOpen {
			require.True(t, ask(look), "call %d", i)
		}
		require.False(t, ask(look), "the breaker is open")
		require.True(t, ask(renewal), "a renewal")
		require.True(t, ask(release), "a release")
		time.Sleep(openFor)
		require.True(t, ask(look), "the probe")
		require.False(t, ask(look), "after the probe")
	})
}
