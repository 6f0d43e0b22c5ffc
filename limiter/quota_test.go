// A quota is a limit like any other: each method takes it, by module, by script and in this
// process. The clock of the caller tells which period runs, and the clock of the server corrects
// it.

package limiter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// noon is a zone in which it is noon: its day began 12 hours ago, and ends in 12 hours.
func noon() *time.Location {
	return time.FixedZone("noon", int(12*time.Hour-time.Since(time.Now().UTC().Truncate(24*time.Hour)))/1e9)
}

// endOf returns the end of the period of a quota that runs at an instant.
func endOf(limit limiter.Limit, at time.Time) time.Time {
	_, end := limit.PeriodAt(at)
	return end
}

// inEachWay runs a test by module, by script, and in this process.
func inEachWay(t *testing.T, test func(t *testing.T, source limiter.Source, rdb limiter.Client)) {
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) { test(t, source, client) })
	t.Run("NewLocal", func(t *testing.T) { test(t, limiter.FromLocal, nil) })
}

// withWall returns a Limiter whose wall clock is ahead. If rdb is nil, it decides in this process.
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
		"a limit of 3 in 999µs from the first call: a window must":    limiter.Window(3, 999*time.Microsecond),
		"a limit of -1 in 1h0m0s from the first call: limit must be":  limiter.Window(-1, time.Hour),
		"a limit of -1 per year in UTC: limit must be at least 0":     limiter.Yearly(-1, time.UTC),
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

// A caller whose clock is behind learns the server's clock, and asks once more, for all rows. A
// caller whose clock is ahead is counted in the period that runs. If it has opened a longer period,
// the next caller cuts that period.
func TestClocksOfCallers(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		const days = 5 * 24 * time.Hour
		ctx, zone, counted := t.Context(), noon(), &counting{Client: client}
		limit, month := limiter.Daily(15, zone), limiter.Monthly(15, zone)
		end := endOf(limit, time.Now()).UnixNano()
		at := func(ahead time.Duration) *limiter.Limiter {
			return withWall(counted, ahead, limiter.WithSource(source))
		}
		exact, behind, ahead := at(0), at(-40*24*time.Hour), at(days)
		allow(t, exact, "warm up", limit) // the script is loaded

		before := counted.trips.Load()
		results, err := behind.AllowAll(ctx, limiter.Request{"rate", fifteenPerDay, 1}, limiter.Request{"day", limit, 1},
			limiter.Request{"month", month, 2})
		require.NoError(t, err)
		require.EqualValues(t, 2, counted.trips.Load()-before, "it asks once more")
		require.Equal(t, []int{14, 14, 13}, []int{results[0].Remaining, results[1].Remaining, results[2].Remaining})
		require.Equal(t, []int64{end, endOf(month, time.Now()).UnixNano()}, []int64{results[1].Receipt, results[2].Receipt})
		taken, err := behind.AllowAtMost(ctx, "day", limit, 20)
		require.NoError(t, err)
		require.Equal(t, []any{14, end, source}, []any{taken.Allowed, taken.Receipt, taken.Source})

		limited := allow(t, ahead, "day", limit)
		require.True(t, limited.Limited(), "the day that runs is used up")
		require.InDelta(t, 12*time.Hour, limited.RetryAfter, float64(time.Minute))

		opened := allow(t, ahead, "opened", limit)
		require.Equal(t, endOf(limit, time.Now().Add(days)).UnixNano(), opened.Receipt, "it opens a day to come")
		cut := allow(t, exact, "opened", limit)
		require.Equal(t, []any{13, end}, []any{cut.Remaining, cut.Receipt}, "another caller cuts it")
		_, err = ahead.Settle(ctx, &opened, 0)
		require.NoError(t, err)
		require.Equal(t, 13, allow(t, exact, "opened", limit).Remaining, "its receipt gives back what the cut period holds")
	})
}

// ENDED names the server's clock. A second ENDED is an error of the call, and so is an ENDED
// without a clock.
func TestSecondEnded(t *testing.T) {
	t.Parallel()
	const ended = "until must be later than the server's clock: got 1, and it is "
	for name, c := range map[string]struct {
		reply string
		sent  []string
	}{
		"one row":      {"ENDED " + ended + "1796083199.999", []string{"yesterday", "1796083200"}},
		"on a border":  {"ENDED " + ended + "1796083200", []string{"yesterday", "1796169600"}},
		"several rows": {"ENDED row 2: " + ended + "1796083200.031", []string{"yesterday", "1796169600"}},
		"no clock":     {"ENDED until is over", []string{"yesterday"}},
	} {
		var sent []string
		yesterday := fmt.Sprint(endOf(limiter.Daily(1, time.UTC), time.Now().Add(-24*time.Hour)).Unix())
		l := withWall(clientFunc(func(_ context.Context, command redis.Cmder) error {
			until := fmt.Sprint(command.Args()[4])
			sent = append(sent, strings.Replace(until, yesterday, "yesterday", 1))
			return servertest.ErrorReply(c.reply)
		}), -24*time.Hour, limiter.OnFailure(limiter.FailOpen))
		_, err := l.Allow(t.Context(), "key", limiter.Daily(1, time.UTC))
		require.ErrorIs(t, err, limiter.ErrInvalid, name)
		require.EqualError(t, err, `limiter: key "key": `+c.reply, name)
		require.Equal(t, c.sent, sent, name)
	}
}

// A quota that ends for good limits each call after its end, whatever the call asks for. It takes
// nothing from other rows.
func TestUntilHasNoNextPeriod(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		ctx, l := t.Context(), limiter.New(client)
		running := limiter.Until(15, time.Now().Add(time.Hour))
		require.Equal(t, endOf(running, time.Time{}).UnixNano(), allow(t, l, "key", running).Receipt)
		over := limiter.Until(15, time.Now().Add(-time.Hour))
		for command, ask := range methodsFor(over) {
			if command == "refund" {
				continue
			}
			for _, quantity := range []int{0, 1, 16} {
				result, err := ask(l, "key", quantity)
				require.NoError(t, err, command)
				require.Equal(t, []any{true, 0, limiter.NoRetry, source, int64(0)},
					[]any{result.Limited(), result.Allowed, result.RetryAfter, result.Source, result.Receipt}, command)
			}
		}
		require.ErrorIs(t, l.Wait(ctx, "key", over), limiter.ErrNeverFits)
		closed := limiter.New(unreachable(t), limiter.OnFailure(limiter.FailClosed))
		require.ErrorIs(t, closed.Wait(ctx, "key", over), limiter.ErrNeverFits)
		got, err := l.TryAcquire(ctx, twoFor3s.At("slots"), limiter.Request{"key", over, 0},
			limiter.Request{"rate", fifteenPerDay, 1})
		require.NoError(t, err)
		require.True(t, got.Limited())
		require.Equal(t, limiter.NoRetry, got.RetryAfter())
		require.Equal(t, []string{"key"}, client.Keys(ctx, "*").Val(), "of other rows nothing was taken")
		require.Equal(t, 13, allow(t, l, "key", running).Remaining, "nothing was charged")
	})
	t.Run("NewLocal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, l, limit := t.Context(), limiter.NewLocal(), limiter.Until(15, time.Now().Add(time.Hour))
			taken := allow(t, l, "key", limit)
			asked, err := l.AllowN(ctx, "key", limit, 0)
			require.NoError(t, err)
			settled, err := l.Settle(ctx, &asked, 2)
			require.NoError(t, err)
			require.Equal(t, 12, settled.Remaining, "without a receipt, the period that runs is charged")
			time.Sleep(time.Hour - 1)
			last := allow(t, l, "key", limit)
			require.Equal(t, 11, last.Remaining)
			time.Sleep(time.Nanosecond)
			require.Equal(t, limiter.NoRetry, allow(t, l, "key", limit).RetryAfter)
			_, err = l.Settle(ctx, &taken, 0)
			require.NoError(t, err)
			settled, err = l.Settle(ctx, &last, 20)
			require.NoError(t, err)
			require.Equal(t, []any{last, 20}, []any{settled, last.Allowed}, "a copy: the period is over")
		})
	})
}

// A caller that waits for a quota asks again within a second after the end of the period, and
// within its max wait.
func TestWaitForQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day, waiting = 24 * time.Hour, 3
		ctx, l, limit, midnight := t.Context(), limiter.NewLocal(), limiter.Daily(1, time.UTC), time.Now()
		require.NoError(t, l.Wait(ctx, "key", limit))
		served := make(chan time.Duration, waiting)
		for range waiting {
			go func() {
				err := l.Wait(ctx, "key", limit)
				if err != nil {
					t.Error(err)
				}
				served <- time.Since(midnight)
			}()
		}
		spread := map[time.Duration]bool{}
		for i := range waiting {
			after := <-served - time.Duration(1+i)*day
			require.True(t, 0 <= after && after <= time.Second, "after midnight of day %d: %v", 1+i, after)
			spread[after] = true
		}
		require.Len(t, spread, waiting, "not all at one instant")

		require.ErrorIs(t, l.Wait(ctx, "none", limiter.Daily(0, time.UTC)), limiter.ErrNeverFits)
		time.Sleep(day - time.Since(midnight)%day)
		midnight = time.Now()
		for maxWait, want := range map[time.Duration]error{day - 1: limiter.ErrWaitTooLong, day: nil} {
			l := limiter.NewLocal(limiter.WithMaxWait(maxWait))
			require.NoError(t, l.Wait(ctx, "key", limit))
			_, err := l.WaitAll(ctx, limiter.Request{"key", limit, 1})
			require.ErrorIs(t, err, want)
		}
		require.Equal(t, day, time.Since(midnight))
	})
}
