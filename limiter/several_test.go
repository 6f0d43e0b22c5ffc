package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
)

// Each request has its own answer, and all together take one round trip, but for the
// first, which find out what the server has. An error concerns its request alone.
func TestAllowMany(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		ctx, counted := context.Background(), &counting{Client: client}
		l := limiter.New(counted)
		require.NoError(t, client.LPush(ctx, "list", "element").Err())
		for round, key := range []string{"first", "second", "third"} {
			before := counted.trips.Load()
			results, err := l.AllowMany(ctx,
				limiter.Request{"list", perDay(1), 1},
				limiter.Request{key, fifteenPerDay, 10},
				limiter.Request{key, fifteenPerDay, 10},
				limiter.Request{key, limiter.Limit{}, 1},
				limiter.Request{key, fifteenPerDay, 0},
				limiter.Request{key, perDay(1), 1},
				limiter.Request{key + " one", perDay(1), 1},
			)
			var got []string
			for _, result := range results[1:] {
				got = append(got, fmt.Sprint(result.Allowed, result.Remaining, result.Limited(), result.Path))
			}
			by := string(path)
			require.Equal(t, []string{"10 5 false" + by, "0 5 true" + by, "0 0 true", "0 0 true", "0 0 true" + by, "1 0 false" + by}, got)
			require.Regexp(t, `^limiter: key "list": WRONGTYPE .*
limiter: key "`+key+`": a limit of .*count must be at least 1
limiter: key "`+key+`": the quantity of a request must be at least 1, not 0: use Peek to take nothing$`, err)
			require.ErrorIs(t, err, gcra.ErrCount)
			require.True(t, results[0].Limited())
			if round > 0 {
				trips := map[limiter.Path]int64{limiter.PathModule: 1, limiter.PathScript: 2}[path] // the complete script says what is wrong
				require.EqualValues(t, before+trips, counted.trips.Load())
			}
		}
		none, err := l.AllowMany(ctx)
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

// Tokens are taken from all funnels or from none.
func TestAllowAll(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		const token = 96 * time.Minute
		ctx, l := context.Background(), limiter.New(client)
		for i, c := range []struct {
			a, b    int // quantities
			want    string
			retry   time.Duration
			results [2]string
		}{
			{10, 1, "11 5 false", limiter.NoRetry, [2]string{"10 5 false", "1 29 false"}},
			{7, 1, "0 5 true", 2 * token, [2]string{"0 5 true", "0 29 false"}},
			{7, 31, "0 5 true", limiter.NoRetry, [2]string{"0 5 true", "0 29 true"}},
			{16, 1, "0 5 true", limiter.NoRetry, [2]string{"0 5 true", "0 29 false"}},
			{5, 29, "34 0 false", limiter.NoRetry, [2]string{"5 0 false", "29 0 false"}},
		} {
			whole, results, err := l.AllowAll(ctx, limiter.Request{"a", fifteenPerDay, c.a}, limiter.Request{"b", perDay(30), c.b})
			require.NoError(t, err)
			require.Equal(t, c.want, fmt.Sprint(whole.Allowed, whole.Remaining, whole.Limited()), i)
			require.InDelta(t, c.retry, whole.RetryAfter, float64(time.Minute), i)
			require.Equal(t, path, whole.Path)
			for j, result := range results {
				require.Equal(t, c.results[j], fmt.Sprint(result.Allowed, result.Remaining, result.Limited()), i)
			}
		}
		_, _, err := l.AllowAll(ctx, limiter.Request{"a", fifteenPerDay, 1}, limiter.Request{"a", fifteenPerDay, 1})
		require.ErrorContains(t, err, `limiter: keys "a", "a": ERR funnel 2: the key is named twice`)
		forgotten := limiter.Request{Key: "a", Limit: fifteenPerDay}
		_, _, err = l.AllowAll(ctx, forgotten)
		require.ErrorContains(t, err, "use Peek")
		require.ErrorContains(t, l.WaitAll(ctx, forgotten), "use Peek")
		for _, count := range []int{0, 65} {
			_, _, err = l.AllowAll(ctx, make([]limiter.Request, count)...)
			require.ErrorContains(t, err, fmt.Sprintf("limiter: there must be 1 to 64 requests, not %d", count))
		}
	})
}

// A caller that waits for several funnels asks again when the one that limits has leaked.
func TestWaitAll(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, _ limiter.Path) {
		ctx, l := context.Background(), limiter.New(client)
		wait := func(quantity int) error {
			return l.WaitAll(ctx, limiter.Request{"quick", limiter.Per(1, 100*time.Millisecond), quantity}, limiter.Request{"slow", perDay(30), 1})
		}
		start := time.Now()
		for range 4 {
			require.NoError(t, wait(1))
		}
		require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
		require.ErrorIs(t, wait(2), limiter.ErrNeverFits)
		allowed, err := l.AllowAtMost(ctx, "slow", perDay(30), 30)
		require.NoError(t, err)
		require.Equal(t, 26, allowed.Allowed)

		limited, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		err = l.WaitAll(limited, limiter.Request{"slow", perDay(30), 2})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, limited.Err(), "at once")
		l = limiter.New(client, limiter.WithLongestWait(time.Minute))
		require.ErrorIs(t, wait(1), context.DeadlineExceeded)
	})
}
