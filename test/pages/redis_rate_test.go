// What docs/moving-from-redis-rate.md says of both libraries is so.

package pages_test

import (
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// TestMovingFromRedisRate lets both limit side by side, at a rate that leaks too little to
// matter while a test runs.
func TestMovingFromRedisRate(t *testing.T) {
	const day = 24 * time.Hour
	ctx, client := t.Context(), servertest.StartClient(t)
	theirs, ours := redis_rate.NewLimiter(client), limiter.New(client)
	theirLimit, ourLimit := redis_rate.Limit{Rate: 1, Burst: 10, Period: day}, limiter.Per(1, day).WithCapacity(10)
	near := func(want, got time.Duration) {
		require.InDelta(t, want, got, float64(time.Minute))
	}

	if ourLimit == (limiter.Limit{}) || theirLimit.IsZero() {
		t.Error("a limit counts as the zero Limit")
	}
	require.Equal(t, "10 req/m (burst 10)", redis_rate.PerMinute(10).String())
	require.Equal(t, "10 per minute, capacity 10", limiter.PerMinute(10).String())
	for _, step := range []struct {
		name                           string
		atMost                         bool
		quantity                       int
		allowed, remaining, theyRemain int
		retryAfter, theyRetryAfter     time.Duration
	}{
		{"some", false, 3, 3, 7, 7, -1, -1},
		{"more than are left", false, 8, 0, 7, 0, day, day},
		{"more than the burst", false, 11, 0, 7, 0, limiter.NoRetry, 4 * day},
		{"as many as fit", true, 4, 4, 3, 3, -1, -1},
		{"the rest", true, 5, 3, 0, 0, -1, -1},
		{"of a full one", true, 1, 0, 0, 0, day, day},
		{"after a reset", false, 1, 1, 9, 9, -1, -1},
	} {
		if step.name == "after a reset" {
			require.NoError(t, theirs.Reset(ctx, "user"))
			require.NoError(t, ours.Reset(ctx, "user"))
		}
		they, we := theirs.AllowN, ours.AllowN
		if step.atMost {
			they, we = theirs.AllowAtMost, ours.AllowAtMost
		}
		before, err := they(ctx, "user", theirLimit, step.quantity)
		require.NoError(t, err, step.name)
		after, err := we(ctx, "user", ourLimit, step.quantity)
		require.NoError(t, err, step.name)
		want := []int{step.allowed, step.allowed, step.remaining, step.theyRemain}
		require.Equal(t, want, []int{after.Allowed, before.Allowed, after.Remaining, before.Remaining}, step.name)
		near(before.ResetAfter, after.ResetAfter)
		near(step.retryAfter, after.RetryAfter)
		near(step.theyRetryAfter, before.RetryAfter)
	}

	_, err := ours.AllowN(ctx, "user", ourLimit, -1)
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
	require.Less(t, limited.RetryAfter, -292*365*day)
}
