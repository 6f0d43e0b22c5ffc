package limiter_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// What each method takes and says, by module, by script, and by a module that reads the
// capacity as redis-cell does; by one Limiter, and by those that do not know the server.
func TestQuantities(t *testing.T) {
	test := func(t *testing.T, client *redis.Client, path limiter.Path) {
		old := limiter.New(client)
		testQuantitiesOf(t, path, func(key string) *limiter.Limiter {
			if key == "new" {
				return limiter.New(client)
			}
			return old
		})
	}
	onBoth(t, test)
	t.Run("redis-cell", func(t *testing.T) {
		test(t, servertest.StartModule(t, "compat", "redis-cell").Client(t), limiter.PathModule)
	})
}

func testQuantitiesOf(t *testing.T, path limiter.Path, limiterFor func(key string) *limiter.Limiter) {
	const token, never = 96 * time.Minute, limiter.NoRetry
	allow, charge, refund, peek, most := commands["reserve"], commands["charge"], commands["refund"], commands["peek"], (*limiter.Limiter).AllowAtMost
	reserve := func(l *limiter.Limiter, ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error) {
		return l.Reserve(ctx, key, limit, quantity, 3*token)
	}
	for i, c := range []struct {
		ask              ask
		quantity         int
		want             string // allowed, remaining, and whether it is limited
		wait, retry, tat time.Duration
	}{
		{peek, 1, "0 15 false", 0, never, 0},
		{refund, 3, "3 15 false", 0, never, 0},
		{allow, 10, "10 5 false", 0, never, 10},
		{allow, 6, "0 5 true", 0, 1, 10},
		{allow, 16, "0 5 true", 0, never, 10},
		{allow, 0, "0 5 false", 0, never, 10},
		{peek, 1, "0 5 false", 0, never, 10},
		{most, 10, "5 0 false", 0, never, 15},
		{most, 10, "0 0 true", 0, 1, 15},
		{most, 100, "0 0 true", 0, 1, 15},
		{most, 0, "0 0 false", 0, never, 15},
		{peek, 1, "0 0 true", 0, 1, 15},
		{reserve, 2, "2 0 false", 2, never, 17},
		{reserve, 2, "0 0 true", 0, 1, 17},
		{reserve, 1, "1 0 false", 3, never, 18},
		{reserve, 16, "0 0 true", 0, never, 18},
		{reserve, 0, "0 0 false", 0, never, 18},
		{allow, 0, "0 0 false", 0, never, 18},
		{refund, 2, "2 0 false", 0, 1, 16},
		{refund, 4, "4 3 false", 0, never, 12},
		{reserve, 2, "2 1 false", 0, never, 14},
		{charge, 20, "20 0 false", 0, 19, 34},
		{refund, 100, "100 15 false", 0, never, 0},
		{charge, 1, "1 14 false", 0, never, 1},
	} {
		for _, key := range []string{"old", "new"} {
			result, err := c.ask(limiterFor(key), context.Background(), key, fifteenPerDay, c.quantity)
			require.NoError(t, err, i)
			require.Equal(t, c.want, fmt.Sprint(result.Allowed, result.Remaining, result.Limited()), "step %d, %s", i, key)
			require.InDelta(t, c.wait*token, result.Wait, float64(time.Minute), i)
			if require.Equal(t, c.retry == never, result.RetryAfter == never, i); c.retry != never {
				require.InDelta(t, c.retry*token, result.RetryAfter, float64(time.Minute), i)
			}
			require.InDelta(t, c.tat*token, result.ResetAfter, float64(time.Minute), i)
			require.Equal(t, limiter.Result{Limit: fifteenPerDay, Quantity: c.quantity, Path: path},
				limiter.Result{Limit: result.Limit, Quantity: result.Quantity, Path: result.Path})
		}
	}
}

func TestResetEmptiesTheFunnel(t *testing.T) {
	ctx, client := context.Background(), servertest.StartClient(t)
	l := limiter.New(client, limiter.WithPrefix("limits:"), limiter.WithPrefilter())
	for range 16 {
		allow(t, l, "key", fifteenPerDay)
	}
	require.Equal(t, []string{"limits:key"}, client.Keys(ctx, "*").Val())
	require.NoError(t, l.Reset(ctx, "key"))
	require.Empty(t, client.Keys(ctx, "*").Val())
	require.Equal(t, 14, allow(t, l, "key", fifteenPerDay).Remaining)

	// Without Redis, the funnels of this process.
	l = limiter.New(unreachable(t), limiter.OnFailure(limiter.FailLocal))
	allow(t, l, "key", fifteenPerDay)
	require.Error(t, l.Reset(ctx, "key"))
	require.Equal(t, 14, allow(t, l, "key", fifteenPerDay).Remaining)
}

// From a year's quota to a token per nanosecond, and numbers at the ends of the range.
func TestLimitsOfEverySize(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		l := limiter.New(client)
		for _, limit := range []limiter.Limit{
			limiter.Per(1000, 365*24*time.Hour),
			limiter.Per(1, time.Nanosecond).Burst(math.MaxInt64),
			limiter.Per(math.MaxInt64, math.MaxInt64),
			limiter.Per(7, 500*time.Millisecond).Burst(3),
			limiter.Per(1, 1234567890*time.Nanosecond),
			limiter.Per(1, 1000000001*time.Nanosecond),
			limiter.PerHour(1),
		} {
			result := allow(t, l, limit.String(), limit)
			require.False(t, result.Limited(), limit)
			require.InDelta(t, limit.Capacity-1, result.Remaining, 1, limit)
			require.Equal(t, limit.Period/time.Duration(limit.Count), result.ResetAfter, limit)
		}
		_, err := l.Allow(context.Background(), "key", limiter.Per(1, math.MaxInt64))
		require.ErrorContains(t, err, "before the year 2262")
	})
}

// Calls that are wrong are errors, to which no failure policy applies.
func TestWrongCalls(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		ctx := context.Background()
		l := limiter.New(client, limiter.OnFailure(limiter.FailOpen))
		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		require.NoError(t, client.Set(ctx, "string", "abc", 0).Err())
		for _, c := range []struct {
			key      string
			limit    limiter.Limit
			quantity int
			want     string
		}{
			{"key", limiter.Limit{}, 1, gcra.ErrCount.Error()},
			{"key", limiter.PerMinute(0), 1, gcra.ErrCount.Error()},
			{"key", limiter.PerMinute(1).Burst(-1), 1, gcra.ErrCapacity.Error()},
			{"key", limiter.PerMinute(-3).Burst(2), 1, `limiter: key "key": a limit of -3 per minute, burst 2: count must be at least 1`},
			{"key", limiter.Per(1, 0), 1, gcra.ErrPeriod.Error()},
			{"key", limiter.PerSecond(1e9 + 1), 1, gcra.ErrEmissionInterval.Error()},
			{"key", perDay(1).Burst(math.MaxInt64), 1, gcra.ErrTolerance.Error()},
			{"key", limiter.PerMinute(30), -1, `limiter: key "key": quantity -1 of a limit of 30 per minute, burst 30: ` + gcra.ErrQuantity.Error()},
			{"key", limiter.PerMinute(30), math.MaxInt64, gcra.ErrIncrement.Error()},
			{"list", fifteenPerDay, 1, "WRONGTYPE"},
			{"string", fifteenPerDay, 1, `limiter: key "string": ERR the key does not hold a funnel`},
		} {
			result, err := l.AllowN(ctx, c.key, c.limit, c.quantity)
			require.ErrorContains(t, err, c.want, "%+v", c)
			require.True(t, result.Limited(), "%+v", c)
		}
		require.Equal(t, "abc", client.Get(ctx, "string").Val())
		require.Zero(t, client.Exists(ctx, "key").Val())
	})
}

// A call of redis_rate allocates 19 times, and 21 where numbers are above 255. By module the
// receipt costs 2 more, and a context that can be cancelled 8; the reply of take.lua is one
// string.
func TestAllocations(t *testing.T) {
	client, small, large := servertest.StartClient(t), limiter.PerMinute(30).Burst(15), perDay(100_000)
	cancellable := func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }
	background := func() (context.Context, context.CancelFunc) { return context.Background(), func() {} }
	for _, c := range []struct {
		path    limiter.Path
		limit   limiter.Limit
		context func() (context.Context, context.CancelFunc)
		most    float64
	}{
		{limiter.PathModule, small, background, 21}, {limiter.PathModule, large, background, 23},
		{limiter.PathScript, small, background, 9}, {limiter.PathScript, large, background, 9},
		{limiter.PathModule, large, cancellable, 31},
	} {
		l := limiter.New(client, only[c.path])
		key := fmt.Sprint(c.limit.Count)
		got := testing.AllocsPerRun(1000, func() {
			ctx, cancel := c.context()
			defer cancel()
			if _, err := l.Allow(ctx, key, c.limit); err != nil {
				t.Error(err)
			}
		})
		require.LessOrEqual(t, got, c.most, "%s, %v", c.path, c.limit)
	}
}
