// A caller that waits asks once and sleeps once, and callers are served in the order of asking. A
// caller that cannot be served in time gets an error at once, and takes nothing.

package limiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestWaitIsOneCallAndOneSleep(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		const waiting, token = 8, 50 * time.Millisecond
		var recorded recorder
		counted, limit := &counting{Client: client}, limiter.Every(token)
		l := limiter.New(counted, limiter.WithHook(recorded.hook))
		require.NoError(t, l.WaitN(context.Background(), "key", limit, 0), "nothing to wait for")
		require.NoError(t, l.Wait(context.Background(), "key", limit))
		before := counted.trips.Load()
		var group sync.WaitGroup
		for i := range waiting {
			group.Go(func() {
				start := time.Now()
				err := l.Wait(context.Background(), "key", limit)
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
				took := time.Since(start)
				decided := recorded.all()[2+i].Result
				if took < decided.Wait {
					t.Errorf("caller %d went ahead after %v: it was told %+v", i, took, decided)
				}
			})
			servertest.Eventually(t, "it has asked", func() bool { return len(recorded.all()) == 3+i })
		}
		group.Wait()
		events := recorded.all()
		require.Len(t, events, 2+waiting)
		require.EqualValues(t, before+waiting, counted.trips.Load(), "one command for each of %d calls", waiting)
		for i := 3; i < len(events); i++ {
			earlier, later := events[i-1].Result, events[i].Result
			require.LessOrEqual(t, later.Wait, earlier.Wait+token, "two calls in a row were told %+v and %+v", earlier, later)
			require.Equal(t, later.Wait+token, later.ResetAfter, "a call was told %+v", later)
		}
	})
}

func TestWaitGivesUp(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, _ limiter.Source) {
		ctx, l := context.Background(), limiter.New(client)
		require.ErrorIs(t, l.WaitN(ctx, "key", fifteenPerDay, 16), limiter.ErrNeverFits)
		require.NoError(t, l.WaitN(ctx, "key", fifteenPerDay, 15))
		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		require.ErrorContains(t, l.Wait(ctx, "list", fifteenPerDay), "WRONGTYPE")

		// At once, not at the deadline, and without a reservation.
		stored := client.Get(ctx, "key").Val()
		limited, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		err := l.Wait(limited, "key", fifteenPerDay)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, limiter.ErrWaitTooLong)
		require.ErrorContains(t, err, `limiter: wait too long: key "key": the tokens would be due after 1h3`)
		err = limiter.New(client, limiter.WithMaxWait(time.Minute)).Wait(limited, "key", fifteenPerDay)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the caller waits for no more than 1m0s")
		require.Equal(t, stored, client.Get(ctx, "key").Val())

		// In the middle of a sleep, which leaves the reservation.
		canceled, stop := context.WithCancelCause(ctx)
		reason := errors.New("the reason")
		time.AfterFunc(50*time.Millisecond, func() { stop(reason) })
		require.ErrorIs(t, l.Wait(canceled, "key", fifteenPerDay), reason)
		require.NotEqual(t, stored, client.Get(ctx, "key").Val())

		// Before it began: nothing is sent.
		counted := &counting{Client: client}
		l = limiter.New(counted)
		require.ErrorIs(t, l.Wait(canceled, "another", fifteenPerDay), reason)
		require.Zero(t, counted.trips.Load())
	})
}

// The time that a caller has slept counts. At a max wait of 0 nobody waits for a nanosecond.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		closed := limiter.New(unreachable(t), limiter.OnFailure(limiter.FailClosed),
			limiter.WithMaxWait(2500*time.Millisecond))
		require.ErrorIs(t, closed.Wait(ctx, "key", fifteenPerDay), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(begin), "after the third call")

		local := limiter.NewLocal(limiter.WithMaxWait(0))
		require.NoError(t, local.Wait(ctx, "key", limiter.Every(time.Nanosecond)))
		require.ErrorIs(t, local.Wait(ctx, "key", limiter.Every(time.Nanosecond)), context.DeadlineExceeded)

		full, all := limiter.NewLocal(), limiter.Request{"key", fifteenPerDay, 15}
		_, err := full.WaitAll(ctx, all)
		require.NoError(t, err)
		results, err := full.WaitAll(ctx, all)
		require.ErrorIs(t, err, limiter.ErrWaitTooLong)
		require.True(t, results.Limited())

		// A caller waits for tokens that are due just in time.
		for _, interval := range []time.Duration{time.Nanosecond, time.Second} {
			begin, exact := time.Now(), limiter.NewLocal(limiter.WithMaxWait(interval))
			for range 2 {
				_, err := exact.WaitAll(ctx, limiter.Request{"key", limiter.Every(interval), 1})
				require.NoError(t, err)
			}
			require.Equal(t, interval, time.Since(begin))
		}
	})
}
