package local_test

import (
	"math"
	"math/big"
	"testing"

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
		{"the textbook", 15, 0.5, 2e9, nil},
		{"one per second", 15, 1, 1e9, nil},
		{"a third per second", 15, 1. / 3, 3e9, nil},
		{"three per second rounds down", 15, 3, 333_333_333, nil},
		{"a tenth, which no float equals", 15, 0.1, 10e9, nil},
		{"49 hundredths rounds down", 15, 0.49, 2_040_816_326, nil},
		{"three tenths rounds down", 15, 0.3, 3_333_333_333, nil},
		{"one per day", 15, 1. / 86400, 86400e9, nil},
		{"one per nanosecond", 15, 1e9, 1, nil},
		{"slightly less", 15, math.Nextafter(1e9, 0), 1, nil},
		{"two thirds of that", 15, 1e9 / 1.5, 1, nil},
		{"half of that", 15, 0.5e9, 2, nil},
		{"146 years per token, and the margin", 1, 1e9 / 0x1p62, 1<<62 + 1<<11, nil},

		{"no leak", 15, 0, 0, local.ErrLeakingRate},
		{"negative zero", 15, math.Copysign(0, -1), 0, local.ErrLeakingRate},
		{"negative", 15, -0.5, 0, local.ErrLeakingRate},
		{"not a number", 15, math.NaN(), 0, local.ErrLeakingRate},
		{"infinity", 15, math.Inf(1), 0, local.ErrLeakingRate},
		{"negative infinity", 15, math.Inf(-1), 0, local.ErrLeakingRate},
		{"faster than a token per nanosecond", 15, math.Nextafter(1e9, 2e9), 0, local.ErrLeakingRate},
		{"fastest", 15, math.MaxFloat64, 0, local.ErrLeakingRate},
		{"slowest", 1, math.SmallestNonzeroFloat64, 0, gcra.ErrTolerance},
		{"2^63 nanoseconds per token", 1, 1e9 / 0x1p63, 0, gcra.ErrTolerance},
		{"2^63 nanoseconds per token with the margin only", 1, 1.0842021724855048e-10, 0, gcra.ErrTolerance},
		{"just below", 1, 1.0842021724855051e-10, 1<<63 - 1<<10, nil},
		{"2^63 nanoseconds to drain", 1 << 33, 1e9 / 0x1p30, 0, gcra.ErrTolerance},
		{"no capacity", 0, 0.5, 0, gcra.ErrCapacity},
		{"negative capacity", -1, 0.5, 0, gcra.ErrCapacity},
	} {
		rate, err := local.NewRate(test.capacity, test.leakingRate)
		if err != test.err || rate.EmissionInterval() != test.emissionInterval {
			t.Errorf("%s: emission interval %d, %v; want %d, %v",
				test.name, rate.EmissionInterval(), err, test.emissionInterval, test.err)
		}
		if err == nil && rate.Capacity() != test.capacity {
			t.Errorf("%s: capacity %d, want %d", test.name, rate.Capacity(), test.capacity)
		}
	}
}

// sameRate compares count tokens per some seconds, written as a leaking rate, with
// the rate of whole numbers.
func sameRate(t interface {
	Helper()
	Fatalf(string, ...any)
}, count, seconds int64) {
	t.Helper()
	got, err := local.NewRate(15, float64(count)/float64(seconds))
	want, wantErr := gcra.NewRate(15, count, seconds*1e9)
	if got != want || err != wantErr {
		t.Fatalf("%d per %d s: %+v, %v; want %+v, %v", count, seconds, got, err, want, wantErr)
	}
}

func TestLeakingRatesOfWholeNumbers(t *testing.T) {
	for seconds := int64(1); seconds <= 1000; seconds++ {
		for count := int64(1); count <= 300; count++ {
			sameRate(t, count, seconds)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(1, 1e6).Draw(t, "seconds")
		count := rapid.OneOf(
			rapid.Int64Range(1, seconds*1e9),
			rapid.Int64Range(1, 1e6),
			// Rounding errors would show at whole emission intervals.
			rapid.Map(rapid.Int64Range(1, seconds*1e9), func(interval int64) int64 {
				return seconds * 1e9 / interval
			}),
		).Draw(t, "count")
		// Beyond 2^53 a count is no longer the number that its float says.
		sameRate(t, min(count, 1<<53), seconds)
	})
}

// The emission interval is the exact quotient, rounded down, but for the rounding
// error of floating point numbers.
func TestLeakingRateIsExactEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leakingRate := rapid.OneOf(
			rapid.Float64Range(1e-9, 1e9),
			rapid.Float64Range(1e-3, 1e3),
		).Draw(t, "leaking rate")
		rate, err := local.NewRate(1, leakingRate)
		if err != nil {
			t.Fatal(err)
		}
		interval := new(big.Rat).SetInt64(rate.EmissionInterval())
		exact := new(big.Rat).Quo(big.NewRat(1e9, 1), new(big.Rat).SetFloat64(leakingRate))
		margin := new(big.Rat).SetFloat64(1 + 0x1p-50)
		if interval.Cmp(new(big.Rat).Mul(exact, margin)) > 0 {
			t.Fatalf("%v per second: emission interval %d is too long", leakingRate, rate.EmissionInterval())
		}
		if new(big.Rat).Add(interval, big.NewRat(1, 1)).Cmp(exact) <= 0 {
			t.Fatalf("%v per second: emission interval %d is too short", leakingRate, rate.EmissionInterval())
		}
	})
}

func FuzzNewRate(f *testing.F) {
	for _, leakingRate := range []float64{0.5, 0.1, 1. / 3, 1e9, 1e-9, 0, -1, math.NaN(), math.Inf(1), 5e-324} {
		f.Add(int64(15), leakingRate)
	}
	f.Fuzz(func(t *testing.T, capacity int64, leakingRate float64) {
		rate, err := local.NewRate(capacity, leakingRate)
		valid := leakingRate > 0 && leakingRate <= 1e9
		if valid == (err == local.ErrLeakingRate) {
			t.Fatalf("leaking rate %v: %v", leakingRate, err)
		}
		if err != nil {
			return
		}
		quotient := 1e9 / leakingRate
		if interval := float64(rate.EmissionInterval()); interval > quotient*(1+0x1p-50) || interval < quotient-1 {
			t.Fatalf("leaking rate %v: emission interval %d", leakingRate, rate.EmissionInterval())
		}
	})
}
