package limiter_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
)

// The transcript of the usual tutorial on redis-cell: cl.throttle laoqian:reply 15 30 60.
func TestFifteenOfTwentyCallsAreAllowed(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		l := limiter.New(client)
		limit := limiter.PerMinute(30).Burst(15)
		first := allow(t, l, "laoqian:reply", limit)
		require.Equal(t, limiter.Result{
			Limit: limit, Quantity: 1, Allowed: 1, Remaining: 14,
			RetryAfter: limiter.NoRetry, ResetAfter: 2 * time.Second, Path: path,
		}, first)
		require.False(t, first.Limited())
		for call := 2; call <= 20; call++ {
			result := allow(t, l, "laoqian:reply", limit)
			require.Equal(t, call > 15, result.Limited(), "call %d", call)
			require.Equal(t, max(0, 15-call), result.Remaining, "call %d", call)
		}
		last := allow(t, l, "laoqian:reply", limit)
		require.InDelta(t, 2*time.Second, last.RetryAfter, float64(time.Second))
		require.InDelta(t, 30*time.Second, last.ResetAfter, float64(time.Second))
		require.Equal(t, 0, last.Allowed)
	})
}

// The script replies nanoseconds, the module whole seconds.
func TestScriptRepliesNanoseconds(t *testing.T) {
	result := allow(t, limiter.New(bare(t).Client(t)), "key", limiter.Per(1, 1234567890*time.Nanosecond))
	require.Equal(t, 1234567890*time.Nanosecond, result.ResetAfter)
	result = allow(t, limiter.New(withModule(t).Client(t)), "key", limiter.Per(1, 1234567890*time.Nanosecond))
	require.Equal(t, 2*time.Second, result.ResetAfter)
}

func TestAllowNTakesAllOrNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		ctx, l := context.Background(), limiter.New(client)
		for _, c := range []struct{ quantity, allowed, remaining int }{
			{10, 10, 5}, {6, 0, 5}, {0, 0, 5}, {5, 5, 0}, {1, 0, 0}, {0, 0, 0},
		} {
			result, err := l.AllowN(ctx, "key", fifteenPerDay, c.quantity)
			require.NoError(t, err)
			require.Equal(t, c.quantity, result.Quantity, "%+v", c)
			require.Equal(t, c.allowed, result.Allowed, "%+v", c)
			require.Equal(t, c.remaining, result.Remaining, "%+v", c)
		}
		result, err := l.AllowN(ctx, "key", fifteenPerDay, 16)
		require.NoError(t, err)
		require.True(t, result.Limited())
		require.Equal(t, limiter.NoRetry, result.RetryAfter, "no waiting helps")
	})
}

func TestAllowAtMostTakesWhatFits(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		ctx, l := context.Background(), limiter.New(client)
		for _, c := range []struct{ quantity, allowed, remaining int }{
			{10, 10, 5}, {10, 5, 0}, {10, 0, 0}, {0, 0, 0}, {100, 0, 0},
		} {
			result, err := l.AllowAtMost(ctx, "key", fifteenPerDay, c.quantity)
			require.NoError(t, err)
			require.Equal(t, c.quantity, result.Quantity, "%+v", c)
			require.Equal(t, c.allowed, result.Allowed, "%+v", c)
			require.Equal(t, c.remaining, result.Remaining, "%+v", c)
		}
		result, err := l.AllowAtMost(ctx, "key", fifteenPerDay, 100)
		require.NoError(t, err)
		require.InDelta(t, 24*time.Hour/15, result.RetryAfter, float64(time.Minute), "until one fits")
		result, err = l.AllowAtMost(ctx, "another", fifteenPerDay, 100)
		require.NoError(t, err)
		require.Equal(t, 15, result.Allowed, "more than the capacity")
	})
}

// Of many concurrent calls, exactly the capacity is allowed.
func TestConcurrentAllowAtMost(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		l := limiter.New(client)
		var total atomic.Int64
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				result, err := l.AllowAtMost(context.Background(), "key", limiter.PerDay(100), i)
				if err != nil {
					t.Error(err)
				}
				total.Add(int64(result.Allowed))
			})
		}
		group.Wait()
		require.EqualValues(t, 100, total.Load())
	})
}

func TestPeekPoursNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		ctx, l := context.Background(), limiter.New(client)
		for used := range 16 {
			for range 2 {
				result, err := l.Peek(ctx, "key", fifteenPerDay)
				require.NoError(t, err)
				require.Equal(t, 15-used, result.Remaining)
				require.Equal(t, used == 15, result.Limited())
			}
			allow(t, l, "key", fifteenPerDay)
		}
	})
}

func TestResetEmptiesTheFunnel(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		l := limiter.New(client, limiter.WithPrefix("limits:"), limiter.WithPrefilter())
		for range 16 {
			allow(t, l, "key", fifteenPerDay)
		}
		require.Equal(t, []string{"limits:key"}, client.Keys(context.Background(), "*").Val())
		require.NoError(t, l.Reset(context.Background(), "key"))
		require.Empty(t, client.Keys(context.Background(), "*").Val())
		require.Equal(t, 14, allow(t, l, "key", fifteenPerDay).Remaining)
	})
}

// From a year's quota to a token per nanosecond, and numbers at the ends of the range.
func TestLimitsOfEverySize(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		l := limiter.New(client)
		for _, limit := range []limiter.Limit{
			limiter.Per(1000, 365*24*time.Hour),
			limiter.Per(1, time.Nanosecond).Burst(math.MaxInt64),
			limiter.Per(math.MaxInt64, math.MaxInt64),
			limiter.Per(1, math.MaxInt64),
			limiter.Per(7, 500*time.Millisecond).Burst(3),
			limiter.PerHour(1),
		} {
			result, err := l.Allow(context.Background(), limit.String(), limit)
			if limit.Period() == math.MaxInt64 && limit.Count() == 1 {
				require.ErrorContains(t, err, "before the year 2262", limit)
				continue
			}
			require.NoError(t, err, limit)
			require.False(t, result.Limited(), limit)
			require.InDelta(t, limit.Capacity(), result.Remaining, float64(limit.Capacity())/2+1, limit)
		}
	})
}

func TestCallsThatAreWrongAreErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		ctx := context.Background()
		// No failure policy applies to calls that are wrong.
		l := limiter.New(client, limiter.OnFailure(limiter.FailOpen))
		for _, c := range []struct {
			limit    limiter.Limit
			quantity int
			want     error
		}{
			{limiter.Limit{}, 1, gcra.ErrCapacity},
			{limiter.PerMinute(0).Burst(1), 1, gcra.ErrCount},
			{limiter.PerMinute(30).Burst(0), 1, gcra.ErrCapacity},
			{limiter.Per(1, 0), 1, gcra.ErrPeriod},
			{limiter.Per(1, -time.Second), 1, gcra.ErrPeriod},
			{limiter.PerSecond(1e9 + 1), 1, gcra.ErrEmissionInterval},
			{limiter.PerDay(1).Burst(math.MaxInt64), 1, gcra.ErrTolerance},
			{limiter.PerMinute(30), -1, gcra.ErrQuantity},
			{limiter.PerMinute(30), math.MaxInt64, gcra.ErrIncrement},
		} {
			result, err := l.AllowN(ctx, "key", c.limit, c.quantity)
			require.ErrorIs(t, err, c.want, "%+v", c)
			require.True(t, result.Limited())
		}
		_, err := l.Allow(ctx, "key", limiter.PerMinute(-3).Burst(2))
		require.EqualError(t, err, "limiter: a limit of -3 per minute, burst 2: count must be at least 1")

		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		_, err = l.Allow(ctx, "list", fifteenPerDay)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.NoError(t, client.Set(ctx, "string", "abc", 0).Err())
		_, err = l.Allow(ctx, "string", fifteenPerDay)
		require.ErrorContains(t, err, "ERR the key does not hold a funnel")
		require.Equal(t, "abc", client.Get(ctx, "string").Val())
	})
}

func TestLimitsReadLikeSentences(t *testing.T) {
	for limit, want := range map[limiter.Limit]string{
		limiter.PerSecond(10):                           "10 per second, burst 10",
		limiter.PerMinute(30).Burst(15):                 "30 per minute, burst 15",
		limiter.PerHour(1):                              "1 per hour, burst 1",
		limiter.PerDay(1000):                            "1000 per day, burst 1000",
		limiter.Per(7, 90*time.Second).Burst(1):         "7 per 1m30s, burst 1",
		limiter.Limit{}:                                 "0 per 0s, burst 0",
		limiter.PerSecond(1).Burst(5).Burst(6):          "1 per second, burst 6",
		limiter.Per(1, 1500*time.Millisecond).Burst(20): "1 per 1.5s, burst 20",
	} {
		require.Equal(t, want, limit.String())
		require.Equal(t, limit == limiter.Limit{}, limit.IsZero())
	}
}

func TestTheZeroResultIsLimited(t *testing.T) {
	require.True(t, limiter.Result{}.Limited())
}

// Many concurrent calls get exactly the capacity.
func TestConcurrentAllow(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		l := limiter.New(client)
		var allowed atomic.Int64
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				for range 10 {
					result, err := l.Allow(context.Background(), "key", limiter.PerDay(100))
					if err != nil {
						t.Error(err)
					}
					allowed.Add(int64(result.Allowed))
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 100, allowed.Load())
	})
}

func TestAllowManyAnswersEachRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		ctx := context.Background()
		l := limiter.New(client)
		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		results, err := l.AllowMany(ctx, []limiter.Request{
			{Key: "a", Limit: fifteenPerDay, Quantity: 10},
			{Key: "a", Limit: fifteenPerDay, Quantity: 10},
			{Key: "list", Limit: fifteenPerDay, Quantity: 1},
			{Key: "b", Limit: limiter.Limit{}, Quantity: 1},
			{Key: "a", Limit: fifteenPerDay, Quantity: 0},
			{Key: "b", Limit: fifteenPerDay, Quantity: 15},
		})
		require.Len(t, results, 6)
		for i, want := range []struct{ allowed, remaining int }{{10, 5}, {0, 5}, {0, 0}, {0, 0}, {0, 5}, {15, 0}} {
			require.Equal(t, want.allowed, results[i].Allowed, i)
			require.Equal(t, want.remaining, results[i].Remaining, i)
		}
		require.Equal(t, path, results[5].Path)
		require.ErrorContains(t, err, `request 2, key "list": WRONGTYPE`)
		require.ErrorContains(t, err, `request 3, key "b": limiter: a limit of 0 per 0s, burst 0: capacity must be at least 1`)
		require.ErrorIs(t, err, gcra.ErrCapacity)
		var requestError *limiter.RequestError
		require.ErrorAs(t, err, &requestError)
		require.Equal(t, 2, requestError.Index)

		results, err = l.AllowMany(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

// All requests together take one round trip.
func TestAllowManyIsOneRoundTrip(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		ctx, l := context.Background(), limiter.New(client)
		var requests []limiter.Request
		for i := range 100 {
			requests = append(requests, limiter.Request{Key: fmt.Sprint(i), Limit: fifteenPerDay, Quantity: 1})
		}
		_, err := l.AllowMany(ctx, requests) // finds the mode
		require.NoError(t, err)
		var trips countTrips
		client.AddHook(&trips)
		_, err = l.AllowMany(ctx, requests)
		require.NoError(t, err)
		require.EqualValues(t, 1, trips.Load())
		allow(t, l, "key", fifteenPerDay)
		require.EqualValues(t, 2, trips.Load())
	})
}

// countTrips counts round trips.
type countTrips struct{ atomic.Int64 }

func (c *countTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *countTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		c.Add(1)
		return next(ctx, command)
	}
}

func (c *countTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.Add(1)
		return next(ctx, commands)
	}
}
