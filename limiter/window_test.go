// A window begins with the first call and ends by the server's clock, whatever the clocks of
// callers say.

package limiter_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// fiveTries allows five tries in 15 minutes from the first try.
var fiveTries = limiter.Window(5, 15*time.Minute)

func TestWindow(t *testing.T) {
	t.Parallel()
	inEachWay(t, func(t *testing.T, source limiter.Source, rdb limiter.Client) {
		ctx, l := t.Context(), withWall(rdb, 0)
		peeked, err := l.Peek(ctx, "key", fiveTries)
		require.NoError(t, err)
		require.Equal(t, []any{5, time.Duration(0), source}, []any{peeked.Remaining, peeked.ResetAfter, peeked.Source})
		first := allow(t, l, "key", fiveTries)
		require.Equal(t, 4, first.Remaining)
		end := time.Unix(0, first.Receipt)
		require.WithinDuration(t, time.Now().Add(15*time.Minute), end, servertest.Patience)
		require.Zero(t, first.Receipt%1e6, "a whole millisecond")

		rest, err := l.AllowAtMost(ctx, "key", fiveTries, 9)
		require.NoError(t, err)
		require.Equal(t, []any{4, first.Receipt}, []any{rest.Allowed, rest.Receipt}, "in the same period")
		limited := allow(t, l, "key", limiter.Window(5, time.Second))
		require.True(t, limited.Limited())
		require.InDelta(t, time.Until(end), limited.RetryAfter, float64(servertest.Patience),
			"another length does not cut the period")

		_, err = l.Settle(ctx, &rest, 1)
		require.NoError(t, err)
		_, err = l.Settle(ctx, &first, 2)
		require.NoError(t, err)
		peeked, err = l.Peek(ctx, "key", fiveTries)
		require.NoError(t, err)
		require.Equal(t, 2, peeked.Remaining, "one of four was used, and two instead of one")

		past := time.Now().Add(-time.Second).UnixNano()
		for _, used := range []int{0, 9} {
			old := limiter.Result{Key: "key", Limit: fiveTries, Allowed: 2, Receipt: past, Source: source}
			_, err = l.Settle(ctx, &old, used)
			require.NoError(t, err, "its period is over")
			require.Equal(t, used, old.Allowed)
		}
		charged, err := l.Charge(ctx, "key", fiveTries, 3)
		require.NoError(t, err)
		require.Equal(t, []any{0, end.UnixNano()}, []any{charged.Remaining, charged.Receipt})
	})
}

// In a bubble the clock is exact: the sixth try waits until the period ends, and the next try
// begins a period.
func TestWindowToTheMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.NewLocal()
		time.Sleep(123_456_789)
		began := time.Now()
		for range 5 {
			require.False(t, allow(t, l, "key", fiveTries).Limited())
			time.Sleep(time.Minute)
		}
		last := allow(t, l, "key", fiveTries)
		end := began.Add(15 * time.Minute).Add(1e6 - 456_789)
		require.Equal(t, []any{true, time.Until(end), 0}, []any{last.Limited(), last.RetryAfter, last.Remaining})
		time.Sleep(last.RetryAfter - 1)
		require.True(t, allow(t, l, "key", fiveTries).Limited())
		time.Sleep(time.Nanosecond)
		next := allow(t, l, "key", fiveTries)
		require.Equal(t, []any{4, end.Add(15 * time.Minute).UnixNano()}, []any{next.Remaining, next.Receipt})
	})
}

// Callers that wait for the next window ask again within a tenth of it.
func TestWaitForWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for d, spread := range map[time.Duration]time.Duration{time.Second: time.Second / 10, time.Hour: time.Second} {
			ctx, l, limit, began := t.Context(), limiter.NewLocal(), limiter.Window(1, d), time.Now()
			latest := time.Duration(0)
			for range 30 {
				require.NoError(t, l.Wait(ctx, "key", limit))
				after := time.Since(began) - d
				require.LessOrEqual(t, after, spread+time.Millisecond, "a window ends at a whole millisecond")
				latest, began = max(latest, after), time.Now()
			}
			require.Greater(t, latest, spread/2, "not all at the end: none of 30 was in the later half")
		}
	})
}

func TestWindowIsALimit(t *testing.T) {
	t.Parallel()
	require.Equal(t, "5 in 15m0s from the first call", fiveTries.String())
	require.NoError(t, fiveTries.Validate())
	require.True(t, fiveTries == limiter.Window(5, 15*time.Minute))
	at := time.Date(2026, 11, 24, 12, 0, 0, 1, time.UTC)
	begin, end := fiveTries.PeriodAt(at)
	require.Equal(t, []time.Time{at, at.Add(15 * time.Minute)}, []time.Time{begin, end})
	_, err := fiveTries.Rate()
	require.Error(t, err)
}

// TestWindowsOfCallersWhoseClocksDiffer: twelve processes, whose clocks are an hour apart each, are
// together allowed exactly five tries in each period. The expiry of the key ends a period before
// its time.
func TestWindowsOfCallersWhoseClocksDiffer(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		ctx, callers := context.Background(), apart(client, source)
		for period := range 20 {
			var tries tries
			tries.by(t, callers, fiveTries, func(made int) bool { return made < 3 })
			require.Len(t, tries.ends, 5, "period %d", period)
			require.Less(t, tries.ends[4]-tries.ends[0], inexact, "period %d: all in one", period)
			require.NoError(t, client.PExpire(ctx, "login", time.Millisecond).Err())
			servertest.Eventually(t, "it ends", func() bool { return client.Exists(ctx, "login").Val() == 0 })
		}
	})
}

// TestWindowsFollowOneAnother: the same processes try all the time, also at the borders of periods.
// No period has more than five tries.
func TestWindowsFollowOneAnother(t *testing.T) {
	t.Parallel()
	const periods, d = 10, 60 * time.Millisecond
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		var tries tries
		deadline := time.Now().Add(servertest.Patience)
		tries.by(t, apart(client, source), limiter.Window(5, d), func(int) bool {
			return tries.allowed.Load() < 5*periods && time.Now().Before(deadline)
		})
		require.GreaterOrEqual(t, len(tries.ends), 5*periods)
		for i, end := range tries.ends[5:] {
			require.Greater(t, end-tries.ends[i], int64(d)-inexact,
				"six tries were allowed in periods of %v that ended at %d", d, tries.ends[i:i+6])
		}
	})
}

// inexact is how much the receipts of one period may differ, in nanoseconds: before Redis 7.0 the
// script knows the end of a period only to 2 ms.
const inexact = int64(3 * time.Millisecond)

// apart returns 12 Limiters whose clocks are an hour apart each.
func apart(client *redis.Client, source limiter.Source) (callers []*limiter.Limiter) {
	for i := range 12 {
		callers = append(callers, withWall(client, time.Duration(i-6)*time.Hour, limiter.WithSource(source)))
	}
	return callers
}

// Tries are what callers were allowed.
type tries struct {
	allowed atomic.Int64
	mutex   sync.Mutex
	ends    []int64 // for each try that was allowed, the end of its period; sorted
}

// by lets all callers try at the same time. Each of them goes on as long as the condition holds for
// its number of tries.
func (tries *tries) by(t *testing.T, callers []*limiter.Limiter, limit limiter.Limit, goesOn func(made int) bool) {
	var group sync.WaitGroup
	for _, caller := range callers {
		group.Go(func() {
			for made := 0; goesOn(made); made++ {
				result, err := caller.Allow(context.Background(), "login", limit)
				if err != nil {
					t.Error(err)
					return
				}
				if result.OK {
					tries.allowed.Add(1)
					tries.mutex.Lock()
					tries.ends = append(tries.ends, result.Receipt)
					tries.mutex.Unlock()
				}
			}
		})
	}
	group.Wait()
	slices.Sort(tries.ends)
}
