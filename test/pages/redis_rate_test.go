// docs/moving-from-redis_rate.md: both snippets allow the same calls, and all differences are as
// the page says.

package pages_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/test/pages/page"
)

func TestMovingFromRedisRate(t *testing.T) {
	t.Parallel()
	snippets := map[string]string{}
	for _, name := range []string{"before", "after"} {
		snippets[name] = strings.TrimSuffix(page.Marked(t, "../../docs/moving-from-redis_rate.md", name), "\n")
	}
	program := built(t, "testdata/redis_rate.go", snippets)
	for _, server := range []*servertest.Server{servertest.StartModule(t), servertest.Start(t, servertest.Options{})} {
		began := time.Now()
		output, err := exec.Command(program, server.Addr()).CombinedOutput()
		took := time.Since(began)
		require.NoError(t, err, "%s", output)
		// A token leaks two seconds after the first call, and 30 calls take their time on a busy machine.
		lines := regexp.MustCompile(`^30 try again in (\S+)\n30 try again in (\S+)\n$`).FindStringSubmatch(string(output))
		require.NotNil(t, lines, "%s", output)
		for _, again := range lines[1:] {
			wait, err := time.ParseDuration(again)
			require.NoError(t, err, "%s", output)
			require.LessOrEqual(t, wait, 2*time.Second, "%s", output)
			require.GreaterOrEqual(t, wait, 2*time.Second-took, "%s", output)
		}
	}
}

// The limits leak so slowly that nothing leaks during a test.
func TestDifferencesFromRedisRate(t *testing.T) {
	t.Parallel()
	rdb := servertest.StartClient(t)
	ctx := t.Context()
	old := redis_rate.NewLimiter(rdb)
	l := limiter.New(rdb)
	oldLimit := redis_rate.Limit{Rate: 10, Burst: 10, Period: 10_000 * time.Hour}
	limit := limiter.Per(10, 10_000*time.Hour)
	type call func(key string, quantity int) (retryAfter time.Duration, remaining, allowed int)
	before := func(key string, quantity int) (time.Duration, int, int) {
		r, err := old.AllowN(ctx, key, oldLimit, quantity)
		require.NoError(t, err)
		return r.RetryAfter, r.Remaining, r.Allowed
	}
	after := func(key string, quantity int) (time.Duration, int, int) {
		r, err := l.AllowN(ctx, key, limit, quantity)
		require.NoError(t, err)
		return r.RetryAfter, r.Remaining, r.Allowed
	}

	for _, c := range []struct {
		name             string
		call             call
		retryAfter       time.Duration // of a call that was allowed
		neverFits        time.Duration // the RetryAfter of a call that never fits
		limitedRemaining int           // of a call that was limited
	}{
		{name: "redis_rate", call: before, retryAfter: -1, neverFits: 1000 * time.Hour, limitedRemaining: 0},
		{name: "limiter", call: after, retryAfter: 0, neverFits: limiter.NoRetry, limitedRemaining: 2},
	} {
		retryAfter, remaining, allowed := c.call("key", 8)
		require.Equal(t, c.retryAfter, retryAfter, "%s: of a call that was allowed", c.name)
		require.Equal(t, []int{2, 8}, []int{remaining, allowed}, c.name)
		retryAfter, remaining, allowed = c.call("key", 3)
		require.InDelta(t, 1000*time.Hour, retryAfter, float64(time.Hour), c.name)
		require.Equal(t, []int{c.limitedRemaining, 0}, []int{remaining, allowed}, c.name)
		retryAfter, _, _ = c.call("another key", 11)
		require.InDelta(t, c.neverFits, retryAfter, float64(time.Hour), "%s: of more tokens than the burst", c.name)
	}

	_, remaining, _ := before("key", -3)
	require.Equal(t, 5, remaining, "a negative quantity gives back")
	_, err := l.AllowN(ctx, "key", limit, -3)
	require.ErrorIs(t, err, limiter.ErrInvalid)

	// Two tokens and a half fit, and both keys say when the funnel will be empty.
	empty := time.Now().Add(7500 * time.Hour)
	const epoch = 1483228800 // of redis_rate, in seconds
	require.NoError(t, rdb.Set(ctx, "rate:half", float64(empty.UnixMicro())/1e6-epoch, 0).Err())
	require.NoError(t, rdb.Set(ctx, "half", empty.UnixNano(), 0).Err())
	atMost, err := old.AllowAtMost(ctx, "half", oldLimit, 3)
	require.NoError(t, err)
	require.Equal(t, 2, atMost.Allowed)
	require.InDelta(t, 10_000*time.Hour, atMost.ResetAfter, float64(time.Hour), "it has taken two and a half")
	result, err := l.AllowAtMost(ctx, "half", limit, 3)
	require.NoError(t, err)
	require.Equal(t, 2, result.Allowed)
	require.InDelta(t, 9500*time.Hour, result.ResetAfter, float64(time.Hour), "it has taken two")
}

// Neither reads the other's keys.
func TestKeysOfRedisRate(t *testing.T) {
	t.Parallel()
	rdb := servertest.StartClient(t)
	ctx := t.Context()
	old := redis_rate.NewLimiter(rdb)
	_, err := old.Allow(ctx, "old", redis_rate.PerMinute(30))
	require.NoError(t, err)
	_, err = limiter.New(rdb, limiter.WithPrefix("rate:")).Allow(ctx, "old", limiter.PerMinute(30))
	require.ErrorIs(t, err, limiter.ErrInvalid)

	_, err = limiter.New(rdb, limiter.WithPrefix("rate:")).Allow(ctx, "new", limiter.PerMinute(30))
	require.NoError(t, err)
	result, err := old.Allow(ctx, "new", redis_rate.PerMinute(30))
	require.NoError(t, err)
	require.Zero(t, result.Allowed)
}
