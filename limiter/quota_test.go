// A quota is a limit like any other: each method takes it, by module, by script and in this process.

package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// noon is a zone in which it is noon: its day began 12 hours ago, and ends in 12 hours.
func noon() *time.Location {
	return time.FixedZone("noon", int(12*time.Hour-time.Since(time.Now().UTC().Truncate(24*time.Hour)))/1e9)
}

// endOf is when the period of a quota ends that runs at an instant.
func endOf(limit limiter.Limit, at time.Time) time.Time {
	_, end := limit.PeriodAt(at)
	return end
}

// inEachWay runs a test by module, by script, and in this process.
func inEachWay(t *testing.T, test func(t *testing.T, source limiter.Source, rdb limiter.Client)) {
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) { test(t, source, client) })
	t.Run("NewLocal", func(t *testing.T) { test(t, limiter.FromLocal, nil) })
}

// withWall returns a Limiter whose wall clock is ahead, of this process if rdb is nil.
func withWall(rdb limiter.Client, ahead time.Duration, options ...limiter.Option) *limiter.Limiter {
	began := time.Now()
	return limiter.NewOnClock(rdb, func() time.Duration { return time.Since(began) },
		func() time.Time { return time.Now().Add(ahead) }, options...)
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	inEachWay(t, testQuotas)
	t.Run("in a bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testQuotas(t, limiter.FromLocal, nil) })
	})
	t.Run("FailLocal", func(t *testing.T) { testQuotas(t, limiter.FromLocal, unreachable(t)) })
}

func testQuotas(t *testing.T, source limiter.Source, rdb limiter.Client) {
	const half, never = 12 * time.Hour, limiter.NoRetry
	l, limit := withWall(rdb, 0, limiter.OnFailure(limiter.FailLocal)), limiter.Daily(15, noon())
	end := endOf(limit, time.Now()).UnixNano()
	methods := methodsFor(limit)
	methods["refund"] = func(l *limiter.Limiter, key string, quantity int) (limiter.Result, error) {
		taken := limiter.Result{Key: key, Limit: limit, Allowed: quantity, Source: source, Receipt: end}
		return l.Settle(context.Background(), &taken, 0)
	}
	for _, c := range []struct {
		name, command string
		quantity      int
		want          string // allowed, remaining, and whether it is limited
		retry, reset  time.Duration
	}{
		{"peek at a quota of which nothing is used", "peek", 1, "0 15 false", 0, 0},
		{"allow", "reserve", 10, "10 5 false", 0, half},
		{"allow one too many", "reserve", 6, "0 5 true", half, half},
		{"allow more than the limit", "reserve", 16, "0 5 true", never, half},
		{"at most, in part", "take", 100, "5 0 false", 0, half},
		{"at most, of a quota that is used up", "take", 100, "0 0 true", half, half},
		{"at most none", "take", 0, "0 0 false", 0, half},
		{"allow none", "reserve", 0, "0 0 false", 0, half},
		{"peek when none fits", "peek", 1, "0 0 true", half, half},
		{"charge beyond the limit", "charge", 20, "20 0 false", half, half},
		{"refund until some fit", "refund", 22, "22 2 false", 0, half},
		{"refund more than is used", "refund", 100, "100 15 false", 0, 0},
		{"refund to a quota of which nothing is used", "refund", 3, "3 15 false", 0, 0},
		{"charge", "charge", 1, "1 14 false", 0, half},
	} {
		result, err := methods[c.command](l, "key", c.quantity)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, fmt.Sprint(result.Allowed, result.Remaining, result.Limited()), c.name)
		require.InDelta(t, c.retry, result.RetryAfter, float64(time.Minute), "retry after: %s", c.name)
		require.InDelta(t, c.reset, result.ResetAfter, float64(time.Minute), "reset after: %s", c.name)
		receipt := int64(0)
		if result.Allowed > 0 && c.command != "refund" {
			receipt = end
		}
		asked := c.quantity
		if c.command == "peek" {
			asked = 1
		}
		require.Equal(t, []any{"key", limit, asked, source, receipt},
			[]any{result.Key, result.Limit, result.Quantity, result.Source, result.Receipt}, c.name)
	}
	require.Equal(t, never, allow(t, l, "none", limiter.Daily(0, noon())).RetryAfter, "a quota of 0")
	err := l.Reset(context.Background(), "key")
	require.Equal(t, rdb != nil && source == limiter.FromLocal, err != nil, "Reset asks Redis, too: %v", err)
	peeked, err := l.Peek(context.Background(), "key", limit)
	require.NoError(t, err)
	require.Equal(t, 15, peeked.Remaining, "after Reset")
}

func TestWrongQuotas(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := limiter.New(clientFunc(func(context.Context, redis.Cmder) error { panic("something was sent") }))
	for want, limit := range map[string]limiter.Limit{
		"a limit of 3 per day in no zone: the zone must not be nil":   limiter.Daily(3, nil),
		"a limit of -1 per week in UTC: limit must be at least 0":     limiter.Weekly(-1, time.UTC),
		"a limit of -1 per month in UTC: limit must be at least 0":    limiter.Monthly(-1, time.UTC),
		"a limit of 3 per month from day 32 in UTC: a month must":     limiter.Monthly(3, time.UTC).From(32),
		"a limit of 3 per period that is not valid: From(2) is for":   limiter.Weekly(3, time.UTC).From(2),
		"a limit of 3 per period that is not valid: FromWeekday(Mond": limiter.PerSecond(3).FromWeekday(time.Monday),
		"a limit of 3 until 0001-01-01T00:00:00Z: the end must be":    limiter.Until(3, time.Time{}),
	} {
		_, err := l.Allow(ctx, "key", limit)
		require.ErrorIs(t, err, limiter.ErrInvalid)
		require.ErrorContains(t, err, `limiter: key "key": `+want)
		begin, end := limit.PeriodAt(time.Now())
		require.True(t, begin.IsZero() && end.IsZero(), want)
	}
	valid := limiter.Weekly(3, time.UTC).FromWeekday(time.Sunday)
	require.Equal(t, "3 per week from Sunday in UTC", valid.String())
	_, err := l.AllowN(ctx, "key", valid, -1)
	require.ErrorContains(t, err, "quantity -1 of a limit of 3 per week from Sunday in UTC: quantity must be at least 0")
	_, err = l.Reserve(ctx, "key", valid, 1, time.Second)
	require.ErrorIs(t, err, limiter.ErrInvalid)
	require.ErrorContains(t, err, `limiter: key "key": tokens of a quota cannot be reserved for later`)
	_, err = valid.Rate()
	require.Error(t, err)
}
