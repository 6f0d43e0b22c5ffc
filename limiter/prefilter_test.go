package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/limiter"
)

// The prefilter never limits a call that Redis would have allowed at that instant,
// whatever others take, whenever they call and whatever their limits; and it does
// spare Redis calls.
func TestPrefilterNeverLimitsWhatRedisWouldAllow(t *testing.T) {
	client, clock := startStepped(t)
	ctx := context.Background()
	limits := rapid.Custom(func(t *rapid.T) limiter.Limit {
		return limiter.Per(rapid.IntRange(1, 100).Draw(t, "count"),
			time.Duration(rapid.Int64Range(100, int64(time.Minute)).Draw(t, "period"))).
			Burst(rapid.IntRange(1, 10).Draw(t, "capacity"))
	})
	spared, asked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		filtered := clock.limiter(client, limiter.WithPrefilter())
		others := clock.limiter(client)
		require.NoError(t, filtered.Reset(ctx, "key"))
		limit := limits.Draw(t, "limit")
		for range 50 {
			clock.advance(time.Duration(rapid.OneOf(
				rapid.Just[int64](0), rapid.Int64Range(0, 100), rapid.Int64Range(0, int64(limit.Period)),
			).Draw(t, "wait")))
			if rapid.IntRange(0, 9).Draw(t, "other limit") == 0 {
				limit = limits.Draw(t, "limit")
			}
			quantity := rapid.IntRange(1, limit.Capacity).Draw(t, "quantity")
			if rapid.Bool().Draw(t, "another client") {
				_, err := others.AllowN(ctx, "key", limit, quantity)
				require.NoError(t, err)
				continue
			}
			result, err := filtered.AllowN(ctx, "key", limit, quantity)
			require.NoError(t, err)
			if result.Path != limiter.PathPrefilter {
				asked++
				continue
			}
			spared++
			truth, err := others.AllowN(ctx, "key", limit, quantity)
			require.NoError(t, err)
			require.True(t, result.Limited())
			require.True(t, truth.Limited(), "%v of %v", quantity, limit)
			require.LessOrEqual(t, result.RetryAfter, truth.RetryAfter)
			require.LessOrEqual(t, result.ResetAfter, truth.ResetAfter)
			require.GreaterOrEqual(t, result.Remaining, truth.Remaining)
		}
	})
	t.Logf("%d calls asked Redis, %d were spared", asked, spared)
	require.Greater(t, spared, asked/10)
}

// Calls that are surely limited do not reach Redis.
func TestPrefilterSparesRedis(t *testing.T) {
	client, clock := startStepped(t)
	counted := &counting{Client: client}
	l := clock.limiter(counted, limiter.WithPrefilter(), limiter.WithModuleOnly())
	limit := limiter.PerMinute(30).Burst(15)
	for call := range 100 {
		result := allow(t, l, "key", limit)
		require.Equal(t, call >= 15, result.Limited())
		require.Equal(t, call >= 15, result.Path == limiter.PathPrefilter)
	}
	require.EqualValues(t, 1+15, counted.trips.Load(), "one learns how the capacity is read")
	clock.advance(2 * time.Second)
	require.False(t, allow(t, l, "key", limit).Limited())

	// All others are always decided by Redis, also at a funnel that is overfull by a
	// smaller limit.
	ctx := context.Background()
	peek, err := l.Peek(ctx, "key", limit.Burst(5))
	require.NoError(t, err)
	require.Equal(t, limiter.PathModule, peek.Path)
	require.True(t, peek.Limited())
	clock.advance(2*time.Second - 1)
	reserved, err := l.Reserve(ctx, "key", limit, 1, 1)
	require.NoError(t, err)
	require.Equal(t, time.Duration(1), reserved.Wait)
}
