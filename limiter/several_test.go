// Several requests are decided as one: tokens are taken from all funnels or from none. A caller can
// wait for several funnels.

package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestAllowAll(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		const token, never = 96 * time.Minute, limiter.NoRetry
		var told recorder
		ctx, l := context.Background(), limiter.New(client, limiter.WithHook(told.hook))
		for _, c := range []struct {
			name    string
			a, b    int // quantities
			limited bool
			retry   time.Duration
			want    string // allowed, remaining and limited of a, then of b
		}{
			{"both fit", 10, 1, false, never, "10 5 false, 1 29 false"},
			{"one does not fit", 7, 1, true, 2 * token, "0 5 true, 0 29 false"},
			{"the other never fits", 7, 31, true, never, "0 5 true, 0 29 true"},
			{"one never fits", 16, 1, true, never, "0 5 true, 0 29 false"},
			{"both fit exactly", 5, 29, false, never, "5 0 false, 29 0 false"},
			{"neither fits", 1, 2, true, 2 * token / 2, "0 0 true, 0 0 true"},
		} {
			results, err := l.AllowAll(ctx, limiter.Request{"a", fifteenPerDay, c.a}, limiter.Request{"b", perDay(30), c.b})
			require.NoError(t, err, c.name)
			require.Equal(t, c.limited, results.Limited(), c.name)
			require.InDelta(t, c.retry, results.RetryAfter(), float64(time.Minute), c.name)
			got := func(r limiter.Result) string { return fmt.Sprint(r.Allowed, r.Remaining, r.Limited()) }
			require.Equal(t, c.want, got(results[0])+", "+got(results[1]), c.name)
			require.Equal(t, []any{"a", "b", path}, []any{results[0].Key, results[1].Key, results[1].Path}, c.name)
			events := told.all()
			require.Equal(t, []limiter.Result(results), []limiter.Result{events[0].Result, events[1].Result}, c.name)
			told = recorder{}
			require.Equal(t, !c.limited, results[0].Receipt > 0 && results[1].Receipt > 0, c.name)
		}

		forgotten := limiter.Request{Key: "a", Limit: fifteenPerDay}
		_, err := l.AllowAll(ctx, forgotten)
		require.ErrorContains(t, err, "use Peek")
		_, err = l.WaitAll(ctx, forgotten)
		require.ErrorContains(t, err, "use Peek")
		a, b := limiter.Request{"a", perDay(1), 1}, limiter.Request{"b", perDay(1), 1}
		_, err = l.AllowAll(ctx, a, b, a)
		require.EqualError(t, err, `limiter: key "a" is named twice in this call: ask once, for all of its tokens`)
		for _, count := range []int{0, 65} {
			results, err := l.AllowAll(ctx, make([]limiter.Request, count)...)
			require.ErrorContains(t, err, fmt.Sprintf("limiter: there must be 1 to 64 requests, not %d", count))
			require.True(t, results.Limited())
		}
	})
}

// A caller that waits for several funnels asks again when the one that limits has leaked.
func TestWaitAll(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		ctx, l := context.Background(), limiter.New(client)
		wait := func(quick, slow int) (limiter.Results, error) {
			tenth := limiter.Every(100 * time.Millisecond)
			return l.WaitAll(ctx, limiter.Request{"quick", tenth, quick}, limiter.Request{"slow", perDay(30), slow})
		}
		start := time.Now()
		for i := range 4 {
			results, err := wait(1, 1)
			require.NoError(t, err)
			require.Equal(t, []any{29 - i, 1, path}, []any{results[1].Remaining, results[0].Allowed, results[0].Path})
		}
		require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
		_, err := wait(2, 1)
		require.ErrorIs(t, err, limiter.ErrNeverFits)

		// It gives up at once where the deadline would be too early.
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		results, err := wait(1, 30)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, ctx.Err(), "at once")
		require.True(t, results.Limited())
	})
}
