package limiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/limiter"
)

// A caller that sleeps for RetryAfter, and a little more, is allowed the next time.
func TestWaitSleepsForRetryAfter(t *testing.T) {
	client, clock := startStepped(t)
	l := limiter.New(client, limiter.WithClock(clock))
	ctx := context.Background()
	limit := limiter.PerMinute(30).Burst(15)
	for range 15 {
		require.NoError(t, l.Wait(ctx, "key", limit))
	}
	require.Empty(t, clock.slept)
	require.NoError(t, l.Wait(ctx, "key", limit))
	require.Len(t, clock.slept, 1)
	require.GreaterOrEqual(t, clock.slept[0], 2*time.Second)
	require.Less(t, clock.slept[0], 2250*time.Millisecond)
}

func TestWaitingRetryAfterAlwaysSucceeds(t *testing.T) {
	client, clock := startStepped(t)
	ctx := context.Background()
	l := limiter.New(client, limiter.WithClock(clock))
	rapid.Check(t, func(t *rapid.T) {
		require.NoError(t, l.Reset(ctx, "key"))
		limit := limiter.Per(rapid.IntRange(1, 1000).Draw(t, "count"),
			time.Duration(rapid.Int64Range(1000, int64(time.Hour)).Draw(t, "period"))).
			Burst(rapid.IntRange(1, 50).Draw(t, "capacity"))
		for range 20 {
			clock.slept = nil
			quantity := rapid.IntRange(1, limit.Capacity()).Draw(t, "quantity")
			require.NoError(t, l.WaitN(ctx, "key", limit, quantity))
			require.LessOrEqual(t, len(clock.slept), 1)
		}
	})
}

// All are allowed in the end, and none calls all the time.
func TestManyWait(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		const waiting, interval = 10, 20 * time.Millisecond
		l := limiter.New(client)
		start := time.Now()
		var group sync.WaitGroup
		for range waiting {
			group.Go(func() {
				if err := l.Wait(context.Background(), "key", limiter.Per(1, interval)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		require.GreaterOrEqual(t, time.Since(start), (waiting-1)*interval)
		stats := l.Stats()
		require.LessOrEqual(t, stats.Module+stats.Script, uint64(waiting*waiting))
	})
}

func TestWaitGivesUp(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		l := limiter.New(client)
		ctx := context.Background()
		require.ErrorIs(t, l.WaitN(ctx, "key", fifteenPerDay, 16), limiter.ErrNeverFits)
		require.NoError(t, l.WaitN(ctx, "key", fifteenPerDay, 15))
		require.NoError(t, l.WaitN(ctx, "key", fifteenPerDay, 0), "nothing to wait for")

		// At once, rather than at the deadline.
		before, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		err := l.Wait(before, "key", fifteenPerDay)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `limiter: key "key" is limited for 1h3`)

		// In the middle of a sleep.
		canceled, stop := context.WithCancelCause(ctx)
		reason := errors.New("the reason")
		time.AfterFunc(50*time.Millisecond, func() { stop(reason) })
		require.ErrorIs(t, l.Wait(canceled, "key", fifteenPerDay), reason)

		// Before it began.
		require.ErrorIs(t, l.Wait(canceled, "another", fifteenPerDay), reason)
		_, err = l.Allow(canceled, "another", fifteenPerDay)
		require.ErrorIs(t, err, reason)
	})
}

func TestDoWaitsForItsTurn(t *testing.T) {
	client, clock := startStepped(t)
	l := limiter.New(client, limiter.WithClock(clock))
	ctx := context.Background()
	failed := errors.New("failed")
	done := 0
	for range 3 {
		require.ErrorIs(t, l.Do(ctx, "key", limiter.PerMinute(30).Burst(1), func(context.Context) error {
			done++
			return failed
		}), failed)
	}
	require.Equal(t, 3, done)
	require.Len(t, clock.slept, 2)

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, l.Do(canceled, "key", limiter.PerMinute(30), func(context.Context) error {
		t.Error("the function was called")
		return nil
	}), context.Canceled)
}
