package clients_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A move is a server with both, on keys of their own.
type move struct {
	client *redis.Client
	before *redis_rate.Limiter
	after  *limiter.Limiter
}

func startMove(t *testing.T) move {
	t.Helper()
	client := servertest.StartClient(t)
	return move{client, redis_rate.NewLimiter(client), limiter.New(client)}
}

// slowly is a rate that leaks too little to matter while a test runs.
var (
	slowlyBefore = redis_rate.Limit{Rate: 1, Burst: 10, Period: 24 * time.Hour}
	slowlyAfter  = limiter.Per(1, 24*time.Hour).Burst(10)
)

func TestMovingFromRedisRateKeepsTheAnswers(t *testing.T) {
	ctx := context.Background()
	move := startMove(t)
	for _, step := range []struct {
		name     string
		atMost   bool
		quantity int
	}{
		{"one", false, 1},
		{"three", false, 3},
		{"none", false, 0},
		{"too many", false, 7},
		{"all that fit", true, 4},
		{"the rest", false, 2},
		{"full", false, 1},
		{"full, at most", true, 2},
		{"none of what is full", false, 0},
		{"reset", false, 1},
	} {
		ask, askNow := move.before.AllowN, move.after.AllowN
		if step.atMost {
			ask, askNow = move.before.AllowAtMost, move.after.AllowAtMost
		}
		if step.name == "reset" {
			require.NoError(t, move.before.Reset(ctx, "user"))
			require.NoError(t, move.after.Reset(ctx, "user"))
		}
		before, err := ask(ctx, "user", slowlyBefore, step.quantity)
		require.NoError(t, err, step.name)
		after, err := askNow(ctx, "user", slowlyAfter, step.quantity)
		require.NoError(t, err, step.name)

		require.Equal(t, before.Allowed, after.Allowed, step.name)
		require.Equal(t, slowlyAfter, after.Limit, step.name)
		require.InDelta(t, before.ResetAfter, after.ResetAfter, float64(time.Minute), step.name)
		if before.RetryAfter == -1 {
			require.Equal(t, limiter.NoRetry, after.RetryAfter, step.name)
			require.Equal(t, before.Remaining, after.Remaining, step.name) // else redis_rate says 0, whatever still fits
		} else {
			require.InDelta(t, before.RetryAfter, after.RetryAfter, float64(time.Minute), step.name)
		}
	}
}

func TestMovingFromRedisRateKeepsTheLimits(t *testing.T) {
	for before, after := range map[redis_rate.Limit]limiter.Limit{
		redis_rate.PerSecond(10): limiter.PerSecond(10),
		redis_rate.PerMinute(10): limiter.PerMinute(10),
		redis_rate.PerHour(10):   limiter.PerHour(10),
		slowlyBefore:             slowlyAfter,
	} {
		require.Equal(t, before, redis_rate.Limit{Rate: after.Count, Period: after.Period, Burst: after.Capacity})
	}
	require.Equal(t, "10 req/m (burst 10)", redis_rate.PerMinute(10).String())
	require.Equal(t, "10 per minute, burst 10", limiter.PerMinute(10).String())
}

// What differs, as the page lists it.
func TestMovingFromRedisRateChanges(t *testing.T) {
	ctx := context.Background()
	move := startMove(t)
	before := func(key string, quantity int) *redis_rate.Result {
		result, err := move.before.AllowN(ctx, key, slowlyBefore, quantity)
		require.NoError(t, err)
		return result
	}
	after := func(key string, quantity int) limiter.Result {
		result, err := move.after.AllowN(ctx, key, slowlyAfter, quantity)
		require.NoError(t, err)
		return result
	}

	// More than ever fits.
	require.InDelta(t, 24*time.Hour, before("never", 11).RetryAfter, float64(time.Minute))
	require.Equal(t, limiter.NoRetry, after("never", 11).RetryAfter)

	// A negative number gives tokens back in redis_rate.
	before("give back", 5)
	require.Equal(t, 7, before("give back", -2).Remaining)
	_, err := move.after.AllowN(ctx, "give back", slowlyAfter, -2)
	require.ErrorContains(t, err, "quantity")

	// What still fits, when a call is limited.
	require.Zero(t, before("give back", 8).Remaining)
	after("some fit", 3)
	require.Equal(t, 7, after("some fit", 8).Remaining)

	// AllowAtMost of redis_rate pours the fraction of a token that fits, as well.
	quick := redis_rate.Limit{Rate: 1, Burst: 3, Period: time.Hour}
	_, err = move.before.AllowN(ctx, "fraction", quick, 1)
	require.NoError(t, err)
	require.NoError(t, move.client.Do(ctx, "incrbyfloat", "rate:fraction", "-1800").Err(), "half an hour passes")
	most, err := move.before.AllowAtMost(ctx, "fraction", quick, 5)
	require.NoError(t, err)
	require.Equal(t, 2, most.Allowed)
	require.InDelta(t, 3*time.Hour, most.ResetAfter, float64(time.Minute), "2 and a half have been poured")
}

// Both keep a string, of different meaning.
func TestMovingFromRedisRateKeysAreNotShared(t *testing.T) {
	ctx := context.Background()
	move := startMove(t)
	_, err := move.before.Allow(ctx, "user", slowlyBefore)
	require.NoError(t, err)
	value := move.client.Get(ctx, "rate:user").Val()

	// On purpose: limiter's keys where redis_rate's are.
	shared := limiter.New(move.client, limiter.WithPrefix("rate:"))
	_, err = shared.Allow(ctx, "user", slowlyAfter)
	require.ErrorContains(t, err, "the key does not hold a funnel")
	require.Equal(t, value, move.client.Get(ctx, "rate:user").Val(), "the value is left alone")

	// The other way round, every call is limited until the funnel has drained.
	_, err = shared.Allow(ctx, "other", slowlyAfter)
	require.NoError(t, err)
	before, err := move.before.Allow(ctx, "other", slowlyBefore)
	require.NoError(t, err)
	require.Zero(t, before.Allowed)
	require.Less(t, before.RetryAfter, time.Duration(-1), "no time to sleep for")

	// Without the prefix, both work side by side.
	_, err = move.after.Allow(ctx, "user", slowlyAfter)
	require.NoError(t, err)
	require.EqualValues(t, 3, move.client.DBSize(ctx).Val())
}
