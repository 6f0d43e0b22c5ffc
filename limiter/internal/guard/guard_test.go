package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/slots"
)

// A fakeRedis answers calls by a function.
type fakeRedis struct {
	ask  func(ctx context.Context, c *backend.Call) (backend.Reply, error)
	sent atomic.Int64
}

func (r *fakeRedis) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	r.sent.Add(1)
	reply, err := r.ask(ctx, c)
	reply.Sent = true
	return reply, err
}

func (r *fakeRedis) Reset(ctx context.Context, _ string) error {
	_, err := r.Ask(ctx, nil)
	return err
}

// allows allows each call at once, and hangs answers none.
func allows(context.Context, *backend.Call) (backend.Reply, error) {
	return backend.Reply{Source: backend.Module}, nil
}

func hangs(ctx context.Context, _ *backend.Call) (backend.Reply, error) {
	<-ctx.Done()
	return backend.Reply{}, ctx.Err()
}

// newGuard returns a guard with a time-out of a second, by the clock of a bubble.
func newGuard(redis Redis) *Guard {
	began := time.Now()
	return New(redis, time.Second, func() time.Duration { return time.Since(began) })
}

// tokens returns a call for tokens of a funnel of 10.
func tokens(t *testing.T, quantity int) *backend.Call {
	rate, err := gcra.NewRate(10, 1, int64(time.Second))
	require.NoError(t, err)
	request, err := rate.Request(int64(quantity))
	require.NoError(t, err)
	return &backend.Call{Operation: call.Reserve, Receipt: gcra.NoReceipt,
		Rows: []backend.Row{{Key: "key", Tokens: request, Words: &backend.Words{Rate: rate}, Quantity: quantity}}}
}

func TestTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, began := newGuard(&fakeRedis{ask: hangs}), time.Now()
		reply, err := g.Ask(t.Context(), tokens(t, 1))
		require.EqualError(t, err, "limiter: no answer from Redis within 1s: context deadline exceeded")
		require.ErrorIs(t, err, backend.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, reply.Sent)
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, g.Reset(t.Context(), "key"), backend.ErrUnavailable)
	})
}

func TestCallersWhoGiveUpGetTheirCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("the reason")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(reason) })
		_, err := newGuard(&fakeRedis{ask: hangs}).Ask(ctx, tokens(t, 1))
		require.Equal(t, reason, err, "no failure of Redis")
	})
}

// Three calls in a row without an answer open the breaker. It lets one call a second through, and each call
// that ends a slot.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &fakeRedis{ask: hangs}
		g := newGuard(redis)
		for _, step := range []struct {
			name  string
			after time.Duration
			calls int
			sent  int64
		}{
			{"closed", 0, 3, 3},
			{"open", 0, 5, 0},
			{"almost a second later", time.Second - 1, 5, 0},
			{"a second later", 1, 1, 1},
			{"each probe takes a second, so the next call is a probe", 0, 2, 2},
		} {
			time.Sleep(step.after)
			before := redis.sent.Load()
			for range step.calls {
				_, err := g.Ask(t.Context(), tokens(t, 1))
				require.ErrorIs(t, err, backend.ErrUnavailable, step.name)
			}
			require.Equal(t, step.sent, redis.sent.Load()-before, step.name)
		}
		slot, err := slots.NewRequest(1, int64(time.Second))
		require.NoError(t, err)
		before := redis.sent.Load()
		row := backend.Row{Kind: call.Slots, Slot: slot, Holder: "h"}
		_, _ = g.Ask(t.Context(), &backend.Call{Operation: call.Refund, Rows: []backend.Row{row}})
		require.EqualValues(t, 1, redis.sent.Load()-before, "a slot is given back in any case")
		time.Sleep(time.Second)
		synctest.Wait()
		redis.ask = allows
		for range 3 {
			_, err := g.Ask(t.Context(), tokens(t, 1))
			require.NoError(t, err, "closed again")
		}
	})
}

// A call whose answer nobody gets is lost, once it is not under way any more. A late answer that limits it took
// nothing.
func TestLostCalls(t *testing.T) {
	for name, c := range map[string]struct {
		reply backend.Reply
		err   error
		lost  bool
	}{
		"allowed late":      {backend.Reply{Source: backend.Module}, nil, true},
		"limited late":      {backend.Reply{Source: backend.Module, Limited: true}, nil, false},
		"wrong, told late":  {backend.Reply{}, backend.Invalid(errors.New("x")), false},
		"failed late":       {backend.Reply{}, errors.New("EOF"), true},
		"refused by a copy": {backend.Reply{}, backend.Unavailable(errors.New("OOM")), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(&fakeRedis{ask: func(context.Context, *backend.Call) (backend.Reply, error) {
				time.Sleep(time.Minute)
				return c.reply, c.err
			}})
			asked, lost, began := tokens(t, 1), false, time.Now()
			asked.Lost = func(ctx context.Context) {
				lost = true
				require.NoError(t, ctx.Err(), name)
				require.Equal(t, time.Minute, time.Since(began), "%s: a copy is under way", name)
			}
			_, err := g.Ask(t.Context(), asked)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			require.Equal(t, c.lost, lost, name)
		})
	}
}

// The fallback decides if Redis fails, and does not decide calls that are wrong or whose callers have gone.
func TestPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, redis := time.Now(), &fakeRedis{}
		now := func() time.Duration { return time.Since(began) }
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		p := NewPolicy("closed", newGuard(redis), Closed{}, logger, now)
		for _, step := range []struct {
			name   string
			err    error
			source string
		}{
			{"allowed", nil, backend.Module},
			{"wrong", backend.Invalid(errors.New("WRONGTYPE")), ""},
			{"no answer", errors.New("EOF"), backend.Closed},
			{"refused", backend.Unavailable(errors.New("OOM")), backend.Closed},
		} {
			redis.ask = func(context.Context, *backend.Call) (backend.Reply, error) {
				if step.err != nil {
					return backend.Reply{}, step.err
				}
				return backend.Reply{Source: backend.Module}, nil
			}
			reply, err := p.Ask(t.Context(), tokens(t, 1))
			require.Equal(t, step.source, reply.Source, step.name)
			require.Equal(t, step.source == "", err != nil, step.name)
			require.Equal(t, step.source == backend.Closed, reply.Cause != nil, step.name)
		}
		require.Equal(t, 1, strings.Count(log.String(), "redis unavailable: rate limits fall back to policy closed"))
		time.Sleep(quiet)
		redis.ask = allows
		_, err := p.Ask(t.Context(), tokens(t, 1))
		require.NoError(t, err)
		require.Contains(t, log.String(), `level=INFO msg="redis available: it decides rate limits again" after=0s calls=2`)
	})
}

func TestOpenAndClosed(t *testing.T) {
	for _, c := range []struct {
		by       backend.Backend
		quantity int
		limited  bool
		wait     time.Duration
	}{
		{Open{}, 10, false, 0},
		{Open{}, 11, true, time.Duration(gcra.Never)},
		{Closed{}, 10, true, time.Second},
		{Closed{}, 11, true, time.Duration(gcra.Never)},
	} {
		for range 2 { // nothing is accounted for
			reply, err := c.by.Ask(t.Context(), tokens(t, c.quantity))
			require.NoError(t, err)
			require.Equal(t, []any{c.limited, c.wait, int64(0)}, []any{reply.Limited, reply.First.Wait, reply.First.Receipt},
				fmt.Sprintf("%T, quantity %d", c.by, c.quantity))
		}
	}
}
