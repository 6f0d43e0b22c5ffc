package gcra_test

import (
	"math"
	"math/big"
	"testing"

	"funnel/gcra"
)

// FuzzDecide compares any six numbers with the model.
func FuzzDecide(f *testing.F) {
	const latest = math.MaxInt64
	for _, seed := range [][6]int64{
		{15, 30, 60 * second, gcra.Empty, today, 1},
		{15, 30, 60 * second, today + 30*second, today, 1},
		{15, 30, 60 * second, today + 100*second, today, 0},
		{15, 30, 60 * second, gcra.Empty, today, 16},
		{10, 3, 10 * second, today + 1, today, 10},
		{1, 1, latest, latest, latest, 1},
		{1, 1, latest, latest, latest - 1, 1},
		{latest, 1, 1, gcra.Empty, 1, latest},
		{1 << 31, 1, 1 << 32, 0, 0, 1},
		{1, 1, 1<<32 + 1, 0, 0, 1 << 32},
		{1, 2, 1, 0, 0, 1},
		{0, -1, -1, -1, -1, -1},
		{1, 1, 1, math.MinInt64, math.MinInt64, math.MinInt64},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], seed[5])
	}
	f.Fuzz(func(t *testing.T, capacity, count, period, tat, now, quantity int64) {
		agree(t, capacity, count, period, tat, now, quantity)
	})
}

// FuzzNewRate checks the properties of a rate, without computing it a second time:
// the emission interval is the quotient rounded down if count of them fit into
// the period and one nanosecond more each does not.
func FuzzNewRate(f *testing.F) {
	for _, seed := range [][3]int64{
		{15, 30, 60 * second},
		{10, 3, 10 * second},
		{1, 1, 1},
		{1, 2, 1},
		{1, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, 1, 1},
		{1 << 31, 1, 1 << 32},
		{1 << 31, 1, 1<<32 - 1},
		{0, 1, 1},
		{1, 0, 1},
		{1, 1, 0},
		{math.MinInt64, math.MinInt64, math.MinInt64},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, capacity, count, period int64) {
		rate, err := gcra.NewRate(capacity, count, period)

		want := error(nil)
		switch {
		case capacity < 1:
			want = gcra.ErrCapacity
		case count < 1:
			want = gcra.ErrCount
		case period < 1:
			want = gcra.ErrPeriod
		case count > period:
			want = gcra.ErrEmissionInterval
		}
		if err == gcra.ErrTolerance {
			// A tolerance of 2^63 needs at least this long a period.
			least := new(big.Int).Mul(big.NewInt(period), big.NewInt(capacity))
			least.Quo(least, big.NewInt(max(count, 1)))
			if want != nil || least.IsInt64() {
				t.Fatalf("NewRate(%d, %d, %d): %v, want %v", capacity, count, period, err, want)
			}
			return
		}
		if err != want {
			t.Fatalf("NewRate(%d, %d, %d): %v, want %v", capacity, count, period, err, want)
		}
		if err != nil {
			return
		}

		tokens := func(interval, tokens int64) *big.Int {
			return new(big.Int).Mul(big.NewInt(interval), big.NewInt(tokens))
		}
		interval := rate.EmissionInterval()
		if interval < 1 ||
			tokens(interval, count).Cmp(big.NewInt(period)) > 0 ||
			new(big.Int).Add(tokens(interval, count), big.NewInt(count)).Cmp(big.NewInt(period)) <= 0 {
			t.Fatalf("%d tokens per %d ns: emission interval %d", count, period, interval)
		}
		if rate.Capacity() != capacity || tokens(interval, capacity).Cmp(big.NewInt(rate.Tolerance())) != 0 {
			t.Fatalf("%d tokens of %d ns: capacity %d, tolerance %d",
				capacity, interval, rate.Capacity(), rate.Tolerance())
		}
	})
}
