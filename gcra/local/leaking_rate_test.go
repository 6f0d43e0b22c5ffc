package local_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/gcra/local"
)

func TestNewRate(t *testing.T) {
	for _, test := range []struct {
		name             string
		capacity         int64
		leakingRate      float64
		emissionInterval int64
		err              error
	}{
		{"49 hundredths rounds down", 15, 0.49, 2_040_816_326, nil},
		{"two thirds of one per nanosecond", 15, 1e9 / 1.5, 1, nil},
		{"146 years per token, and the margin", 1, 1e9 / 0x1p62, 1<<62 + 1<<11, nil},

		{"2^63 nanoseconds per token", 1, 1e9 / 0x1p63, 0, gcra.ErrTolerance},
		{"2^63 nanoseconds per token with the margin only", 1, 1.0842021724855048e-10, 0, gcra.ErrTolerance},
		{"just below", 1, 1.0842021724855051e-10, 1<<63 - 1<<10, nil},
		{"2^63 nanoseconds to drain", 1 << 33, 1e9 / 0x1p30, 0, gcra.ErrTolerance},
		{"no capacity", 0, 0.5, 0, gcra.ErrCapacity},
	} {
		rate, err := local.NewRate(test.capacity, test.leakingRate)
		require.Equal(t, test.err, err, test.name)
		require.Equal(t, test.emissionInterval, rate.EmissionInterval(), test.name)
		if err == nil {
			require.Equal(t, test.capacity, rate.Capacity(), test.name)
		}
	}
}

// Written as a leaking rate, count tokens per some seconds are the rate of whole
// numbers.
func TestLeakingRatesOfWholeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(1, 1e6).Draw(t, "seconds")
		interval := rapid.Int64Range(1, seconds*1e9).Draw(t, "interval")
		// Rounding errors would show at whole emission intervals. Beyond 2^53 a count is no
		// longer the number that its float says.
		count := min(1<<53, rapid.OneOf(
			rapid.Int64Range(1, seconds*1e9), rapid.Int64Range(1, 1e6), rapid.Just(seconds*1e9/interval)).Draw(t, "count"))
		got, err := local.NewRate(15, float64(count)/float64(seconds))
		want, wantErr := gcra.NewRate(15, count, seconds*1e9)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
	})
}

// FuzzNewRate: the emission interval is the exact quotient, rounded down, but for the
// rounding error of floating point numbers.
func FuzzNewRate(f *testing.F) {
	for _, leakingRate := range []float64{
		0.1, 0.5, 1. / 3, math.Nextafter(1e9, 0), 1e9, math.Nextafter(1e9, 2e9), math.Inf(1), math.NaN(),
		5e-324, 0, math.Copysign(0, -1), -0.5, math.Inf(-1),
	} {
		f.Add(leakingRate)
	}
	f.Fuzz(func(t *testing.T, leakingRate float64) {
		rate, err := local.NewRate(1, leakingRate)
		require.Equal(t, !(leakingRate > 0 && leakingRate <= 1e9), err == local.ErrLeakingRate, leakingRate)
		if err != nil {
			return
		}
		interval := new(big.Rat).SetInt64(rate.EmissionInterval())
		exact := new(big.Rat).Quo(big.NewRat(1e9, 1), new(big.Rat).SetFloat64(leakingRate))
		margin := new(big.Rat).SetFloat64(1 + 0x1p-50)
		require.LessOrEqual(t, interval.Cmp(margin.Mul(margin, exact)), 0, "%v: %v is too long", leakingRate, interval)
		require.Positive(t, interval.Add(interval, big.NewRat(1, 1)).Cmp(exact), "%v: too short", leakingRate)
	})
}
