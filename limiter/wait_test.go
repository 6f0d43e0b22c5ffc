package limiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// Callers that wait call once each, and are served in the order of asking, a token apart.
func TestWaitIsOneCallAndOneSleep(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		const waiting, token = 8, 50 * time.Millisecond
		var told recorder
		counted := &counting{Client: client}
		l := limiter.New(counted, limiter.WithHook(told.hook))
		limit := limiter.Per(1, token)
		require.NoError(t, l.WaitN(context.Background(), "key", limit, 0), "nothing to wait for")
		require.NoError(t, l.Wait(context.Background(), "key", limit))
		before := counted.trips.Load()
		var group sync.WaitGroup
		for i := range waiting {
			group.Go(func() {
				start := time.Now()
				if err := l.Wait(context.Background(), "key", limit); err != nil {
					t.Error(err)
				}
				told.mutex.Lock()
				defer told.mutex.Unlock()
				if wait := told.told[2+i].Result.Wait; time.Since(start) < wait {
					t.Error("it did not wait for", wait)
				}
			})
			require.Eventually(t, func() bool { return told.count() == 3+i }, time.Minute, time.Millisecond)
		}
		group.Wait()
		require.Equal(t, 2+waiting, told.count())
		require.EqualValues(t, before+waiting, counted.trips.Load())
		for i := 3; i < len(told.told); i++ {
			earlier, later := told.told[i-1].Result, told.told[i].Result
			require.Equal(t, "reserve", told.told[i].Command)
			require.LessOrEqual(t, later.Wait, earlier.Wait+token)
			require.Equal(t, later.Wait+token, later.ResetAfter)
		}
	})
}

func TestWaitGivesUp(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		l := limiter.New(client)
		ctx := context.Background()
		require.ErrorIs(t, l.WaitN(ctx, "key", fifteenPerDay, 16), limiter.ErrNeverFits)
		require.NoError(t, l.WaitN(ctx, "key", fifteenPerDay, 15))

		// At an error, and rather than at the deadline, at once, and without a
		// reservation.
		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		require.ErrorContains(t, l.Wait(ctx, "list", fifteenPerDay), "WRONGTYPE")
		stored := client.Get(ctx, "key").Val()
		limited, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		err := l.Wait(limited, "key", fifteenPerDay)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "limiter: the tokens would be due after 1h3")
		short := limiter.New(client, limiter.WithLongestWait(time.Minute))
		err = short.Wait(limited, "key", fifteenPerDay)
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
		options := *client.Options()
		options.ContextTimeoutEnabled = true // no goroutine sends later
		counted := &counting{Client: redis.NewClient(&options)}
		t.Cleanup(func() { counted.Close() })
		l = limiter.New(counted)
		require.ErrorIs(t, l.Wait(canceled, "another", fifteenPerDay), reason)
		_, err = l.Allow(canceled, "another", fifteenPerDay)
		require.ErrorIs(t, err, reason)
		_, err = l.AllowMany(canceled, limiter.Request{"another", fifteenPerDay, 1})
		require.ErrorIs(t, err, reason)
		require.Zero(t, counted.trips.Load())
	})
}
