package clients_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// TestMovingFromRedisRate: what docs/moving-from-redis-rate.md says. Both limit side by side,
// at a rate that leaks too little to matter while a test runs.
func TestMovingFromRedisRate(t *testing.T) {
	ctx, client := t.Context(), servertest.StartClient(t)
	theirs, ours := redis_rate.NewLimiter(client), limiter.New(client)
	theirLimit := redis_rate.Limit{Rate: 1, Burst: 10, Period: 24 * time.Hour}
	ourLimit := limiter.Per(1, 24*time.Hour).Burst(10)
	near := func(want, got time.Duration) {
		t.Helper()
		require.InDelta(t, want, got, float64(time.Minute))
	}

	if ourLimit == (limiter.Limit{}) || theirLimit.IsZero() {
		t.Error("a limit counts as the zero Limit")
	}
	require.Equal(t, "10 req/m (burst 10)", redis_rate.PerMinute(10).String())
	require.Equal(t, "10 per minute, burst 10", limiter.PerMinute(10).String())
	for _, step := range []struct {
		name     string
		quantity int
		theirs   func(context.Context, string, redis_rate.Limit, int) (*redis_rate.Result, error)
		ours     func(context.Context, string, limiter.Limit, int) (limiter.Result, error)

		remaining, theirRemaining int
	}{
		{"some", 3, theirs.AllowN, ours.AllowN, 7, 7},
		{"more than are left", 8, theirs.AllowN, ours.AllowN, 7, 0},
		{"as many as fit", 4, theirs.AllowAtMost, ours.AllowAtMost, 3, 3},
		{"the rest", 5, theirs.AllowAtMost, ours.AllowAtMost, 0, 0},
		{"of a full one", 1, theirs.AllowAtMost, ours.AllowAtMost, 0, 0},
		{"after a reset", 1, theirs.AllowN, ours.AllowN, 9, 9},
	} {
		if step.name == "after a reset" {
			require.NoError(t, theirs.Reset(ctx, "user"))
			require.NoError(t, ours.Reset(ctx, "user"))
		}
		before, err := step.theirs(ctx, "user", theirLimit, step.quantity)
		require.NoError(t, err, step.name)
		after, err := step.ours(ctx, "user", ourLimit, step.quantity)
		require.NoError(t, err, step.name)
		require.Equal(t, before.Allowed, after.Allowed, step.name)
		require.Equal(t, []int{step.theirRemaining, step.remaining}, []int{before.Remaining, after.Remaining}, step.name)
		near(before.ResetAfter, after.ResetAfter)
		near(before.RetryAfter, after.RetryAfter) // -1, where it is allowed
	}

	never, err := theirs.AllowN(ctx, "never", theirLimit, 11)
	require.NoError(t, err)
	near(24*time.Hour, never.RetryAfter)
	no, err := ours.AllowN(ctx, "never", ourLimit, 11)
	require.NoError(t, err)
	require.Equal(t, limiter.NoRetry, no.RetryAfter)

	require.NoError(t, client.Do(ctx, "incrbyfloat", "rate:user", "-43200").Err(), "half a token leaks")
	most, err := theirs.AllowAtMost(ctx, "user", theirLimit, 10)
	require.NoError(t, err)
	require.Equal(t, 9, most.Allowed)
	near(10*24*time.Hour, most.ResetAfter)

	given, err := theirs.AllowN(ctx, "user", theirLimit, -4)
	require.NoError(t, err)
	require.Equal(t, 4, given.Remaining)
	_, err = ours.AllowN(ctx, "user", ourLimit, -1)
	require.ErrorContains(t, err, "quantity")

	// On purpose: limiter's keys where redis_rate's are.
	shared, value := limiter.New(client, limiter.WithPrefix("rate:")), client.Get(ctx, "rate:user").Val()
	_, err = shared.Allow(ctx, "user", ourLimit)
	require.ErrorContains(t, err, "the key does not hold a funnel")
	require.Equal(t, value, client.Get(ctx, "rate:user").Val(), "the value is left alone")
	_, err = shared.Allow(ctx, "other", ourLimit)
	require.NoError(t, err)
	limited, err := theirs.Allow(ctx, "other", theirLimit)
	require.NoError(t, err)
	require.Zero(t, limited.Allowed)
	require.Less(t, limited.RetryAfter, -292*365*24*time.Hour)
}
