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

// Who waits alone sleeps once at most, for as long as the quantity needs to fit, and
// an eighth of that more at most.
func TestWaitSleepsOnce(t *testing.T) {
	client, clock := startStepped(t)
	ctx, cancel := context.WithTimeout(context.Background(), 1000*time.Hour)
	defer cancel()
	l := limiter.New(client, limiter.WithClock(clock))
	rapid.Check(t, func(t *rapid.T) {
		require.NoError(t, l.Reset(ctx, "key"))
		limit := limiter.Per(rapid.IntRange(1, 1000).Draw(t, "count"),
			time.Duration(rapid.Int64Range(1000, int64(time.Hour)).Draw(t, "period"))).
			Burst(rapid.IntRange(1, 50).Draw(t, "capacity"))
		for range 20 {
			quantity := rapid.IntRange(0, limit.Capacity()).Draw(t, "quantity")
			before, err := l.AllowN(ctx, "key", limit, quantity)
			require.NoError(t, err)
			clock.slept = nil
			if before.Limited() && quantity > 0 {
				require.NoError(t, l.WaitN(ctx, "key", limit, quantity))
				require.Len(t, clock.slept, 1)
				require.GreaterOrEqual(t, clock.slept[0], before.RetryAfter)
				require.LessOrEqual(t, clock.slept[0], max(before.RetryAfter, time.Millisecond)*9/8)
			}
		}
	})
	require.NoError(t, l.Reset(ctx, "key"))
	clock.slept = nil
	require.NoError(t, l.WaitN(ctx, "key", fifteenPerDay, 15))
	require.NoError(t, l.WaitN(ctx, "key", fifteenPerDay, 0), "nothing to wait for")
	require.Empty(t, clock.slept)
}

// All are allowed in the end, not sooner than the limit says, and none calls all the
// time.
func TestManyWait(t *testing.T) {
	const waiting, interval = 10, 20 * time.Millisecond
	l := limiter.New(bare(t).Client(t))
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
	require.GreaterOrEqual(t, l.Stats().Script, uint64(waiting))
	require.LessOrEqual(t, l.Stats().Script, uint64(waiting*waiting))
}

func TestWaitGivesUp(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		l := limiter.New(client)
		ctx := context.Background()
		require.ErrorIs(t, l.WaitN(ctx, "key", fifteenPerDay, 16), limiter.ErrNeverFits)
		require.NoError(t, l.WaitN(ctx, "key", fifteenPerDay, 15))

		// At an error, and rather than at the deadline, at once.
		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		require.ErrorContains(t, l.Wait(ctx, "list", fifteenPerDay), "WRONGTYPE")
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
	ctx, cancel := context.WithCancel(context.Background())
	failed, done := errors.New("failed"), 0
	do := func() error {
		return l.Do(ctx, "key", limiter.PerMinute(30).Burst(1), func(context.Context) error {
			done++
			return failed
		})
	}
	for range 3 {
		require.ErrorIs(t, do(), failed)
	}
	require.Len(t, clock.slept, 2)
	cancel()
	require.ErrorIs(t, do(), context.Canceled)
	require.Equal(t, 3, done)
}
