package guard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter/internal/backend"
)

// A fakeRedis answers calls by a function.
type fakeRedis func(ctx context.Context, c *backend.Call) (backend.Reply, error)

func (r fakeRedis) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	reply, err := r(ctx, c)
	reply.Sent = true
	return reply, err
}

func (fakeRedis) Reset(context.Context, string) error { return nil }
func (fakeRedis) Node(key string) string              { return key }

// newGuard returns a guard with a time-out of a second, by the clock of a bubble.
func newGuard(redis fakeRedis) *Guard {
	began := time.Now()
	return New(redis, time.Second, func() time.Duration { return time.Since(began) })
}

// The cause may be the error of another call, as in an errgroup. Redis may have executed the call.
func TestCallersWhoGiveUpGetTheirCause(t *testing.T) {
	for _, reason := range []error{errors.New("x"), backend.Invalid(errors.New("x")), backend.Unavailable(errors.New("x"))} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Millisecond, func() { cancel(reason) })
			lost := false
			_, err := newGuard(func(ctx context.Context, _ *backend.Call) (backend.Reply, error) {
				<-ctx.Done()
				return backend.Reply{}, ctx.Err()
			}).Ask(ctx, &backend.Call{Lost: func(context.Context) { lost = true }})
			require.Equal(t, reason, err, "no failure of Redis")
			synctest.Wait()
			require.True(t, lost, reason)
		})
	}
}

// If nobody gets the answer to a call, the call is lost once it is no longer under way. But a late answer that limits
// the call has taken nothing.
func TestLostCalls(t *testing.T) {
	oom := backend.Unavailable(errors.New("OOM"))
	for name, c := range map[string]struct {
		took  time.Duration
		reply backend.Reply
		err   error
		lost  bool
	}{
		"allowed late":     {time.Minute, backend.Reply{Source: backend.Module}, nil, true},
		"limited late":     {time.Minute, backend.Reply{Source: backend.Module, Limited: true}, nil, false},
		"wrong, told late": {time.Minute, backend.Reply{}, backend.Invalid(errors.New("x")), false},
		"failed late":      {time.Minute, backend.Reply{}, errors.New("EOF"), true},
		"a copy refused":   {0, backend.Reply{}, oom, true},
		"refused late":     {time.Minute, backend.Reply{}, oom, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(func(context.Context, *backend.Call) (backend.Reply, error) {
				time.Sleep(c.took)
				return c.reply, c.err
			})
			lost, began := false, time.Now()
			_, err := g.Ask(t.Context(), &backend.Call{Lost: func(ctx context.Context) {
				lost = true
				require.NoError(t, ctx.Err(), name)
				require.Equal(t, c.took, time.Since(began), "%s: a copy is under way", name)
			}})
			require.ErrorIs(t, err, backend.ErrUnavailable, name)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			require.Equal(t, c.lost, lost, name)
		})
	}
}
