// AtMost lets never more than n tokens through in any stretch shorter than d, whatever callers do,
// and n if they take what they can.

package limiter_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// TestAtMostWhateverCallersDo: random callers of random limits never get n+1 tokens within less
// than d.
func TestAtMostWhateverCallersDo(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(servertest.Seed(t), 0))
	for range servertest.QuickOrLong(3000, 1_000_000) {
		n := 1 + random.IntN(12)
		burst, d := 1+random.IntN(n), time.Duration(1+random.Int64N(200))
		if random.IntN(4) == 0 {
			d *= time.Duration(1 + random.Int64N(1e6))
		}
		limit := limiter.AtMost(n, d, burst)
		taken := takeAtRandom(t, random, limit, d)
		for i := n; i < len(taken); i++ {
			if taken[i]-taken[i-n] < int64(d) {
				require.Failf(t, "too many", "%v lets %d tokens through from %d ns to %d ns: all of %v",
					limit, n+1, taken[i-n], taken[i], taken)
			}
		}
	}
}

// takeAtRandom asks for tokens about as often as they leak. It returns the instant of each token.
func takeAtRandom(t *testing.T, random *rand.Rand, limit limiter.Limit, d time.Duration) (taken []int64) {
	rate, err := limit.Rate()
	require.NoError(t, err)
	now, funnel := int64(1_000_000), gcra.Funnel{TAT: gcra.Empty}
	for range 40 {
		switch random.IntN(4) {
		case 0: // at the same instant
		case 1:
			now += random.Int64N(2 * rate.EmissionInterval())
		case 2:
			now += rate.EmissionInterval()
		default:
			now += random.Int64N(int64(d) + 1)
		}
		funnel.Request, err = rate.RequestUpTo(int64(1 + random.IntN(limit.Capacity+1)))
		require.NoError(t, err)
		require.NoError(t, funnel.Take(now))
		funnel.TAT = funnel.NewTAT
		for range funnel.Taken {
			taken = append(taken, now)
		}
	}
	return taken
}

// TestAtMostIsReached: a caller who takes what it can gets n tokens within less than d, unless
// rounding the emission interval up loses some.
func TestAtMostIsReached(t *testing.T) {
	t.Parallel()
	reached := 0
	for n := 1; n <= 12; n++ {
		for burst := 1; burst <= n; burst++ {
			for d := int64(1); d <= 150; d++ {
				limit := limiter.AtMost(n, time.Duration(d), burst)
				rate, err := limit.Rate()
				require.NoError(t, err)
				leaks := (d - 1) / rate.EmissionInterval() // until the last instant that is less than d away
				want := burst + min(n-burst, int(leaks))
				require.LessOrEqual(t, int64(burst)+leaks, int64(n), "%v", limit)
				if (n-burst)*(n-burst) < int(d) {
					require.Equal(t, n, want, "%v loses nothing", limit)
					reached++
				}
				require.Equal(t, want, greedily(t, rate, d), "%v", limit)
			}
		}
	}
	require.Greater(t, reached, 5000)
}

// greedily returns how many tokens a caller gets within less than d who asks each nanosecond.
func greedily(t *testing.T, rate gcra.Rate, d int64) (taken int) {
	request, err := rate.RequestUpTo(rate.Capacity())
	require.NoError(t, err)
	funnel := gcra.Funnel{Request: request, TAT: gcra.Empty}
	for now := range d {
		require.NoError(t, funnel.Take(1+now))
		funnel.TAT = funnel.NewTAT
		taken += int(funnel.Taken)
	}
	return taken
}

func TestAtMost(t *testing.T) {
	t.Parallel()
	logins := limiter.AtMost(5, 15*time.Minute, 3)
	require.Equal(t, "at most 5 in any 15m0s, 3 at once", logins.String())
	require.Equal(t, []any{3, 3, 15 * time.Minute, 5}, []any{logins.Capacity, logins.Count, logins.Period, logins.Max()})
	require.Equal(t, 7, limiter.PerMinute(9).WithCapacity(7).Max())
	require.Equal(t, 7, limiter.Daily(7, time.UTC).Max())
	require.True(t, logins == limiter.AtMost(5, 15*time.Minute, 3))
	odd := limiter.AtMost(9, 100, 3)
	require.Equal(t, []any{7, 7 * 15 * time.Nanosecond}, []any{odd.Count, odd.Period},
		"15 ns is 100 ns / 7, rounded up")
	inEachWay(t, func(t *testing.T, _ limiter.Source, rdb limiter.Client) {
		l := withWall(rdb, 0)
		for range 3 {
			require.False(t, allow(t, l, "ann", logins).Limited())
		}
		require.InDelta(t, 5*time.Minute, allow(t, l, "ann", logins).RetryAfter, float64(servertest.Patience))
		result, err := l.AllowN(t.Context(), "bob", logins, 4)
		require.NoError(t, err)
		require.Equal(t, limiter.NoRetry, result.RetryAfter, "more than the burst")
	})
	synctest.Test(t, func(t *testing.T) { // 3 at once, 2 more within 15 minutes, and the next on the quarter
		l, began := limiter.NewLocal(), time.Now()
		for i, after := range []int{0, 0, 0, 5, 10, 15} {
			require.NoError(t, l.Wait(t.Context(), "ann", logins))
			require.Equal(t, time.Duration(after)*time.Minute, time.Since(began), "login %d of %v", i, logins)
		}
	})
}

func TestWrongAtMost(t *testing.T) {
	t.Parallel()
	const minute, years100 = time.Minute, 876_000 * time.Hour
	logins := limiter.AtMost(5, minute, 3)
	changed := logins
	changed.Capacity = 4
	for want, limit := range map[string]limiter.Limit{
		"at most 0 in any 0s, 0 at once: n must be at least 1, not 0":                       limiter.AtMost(0, 0, 0),
		"at most 5 in any 1m0s, 7 at once: burst, the capacity, must be from 1 to 5, not 7": limiter.AtMost(5, minute, 7),
		"at most 5 in any 1m0s, 0 at once: burst, the capacity, must be from 1 to 5, not 0": limiter.AtMost(5, minute, 0),
		"at most 5 in any 0s, 3 at once: d must be from 1ns to 876000h0m0s, not 0s":         limiter.AtMost(5, 0, 3),
		"876000h0m0.000000001s, 3 at once: d must be from 1ns to 876000h0m0s, not 8":        limiter.AtMost(5, years100+1, 3),
		"at most 5 in any 1m0s, 3 at once: a limit of AtMost must stay as it is":            logins.WithCapacity(3),
		"3 at once: a limit of AtMost must stay as it is: use its third argument":           changed,
		"too large together for count":                                                      limiter.AtMost(1e9, years100, 1e9),
	} {
		require.Error(t, limit.Validate(), want)
		_, err := limiter.NewLocal().Allow(t.Context(), "key", limit)
		require.ErrorIs(t, err, limiter.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, limiter.AtMost(5, years100, 3).Validate())
}
