package gcra_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
)

const (
	second = int64(1e9)

	// today is an instant in 2026, far from 0 and far from the year 2262.
	today = 1_800_000_000 * second

	latest = math.MaxInt64
)

// What is worked out by hand here keeps the contract's model honest, with which all else
// is compared in contract_test.go.

func TestNewRate(t *testing.T) {
	for _, c := range []struct {
		capacity, count, period     int64
		emissionInterval, tolerance int64
		err                         error
	}{
		{15, 30, 60 * second, 2 * second, 30 * second, nil},
		{1, 1, 1, 1, 1, nil},
		{4, 1, second / 2, second / 2, 2 * second, nil},
		{10, 3, 10 * second, 3_333_333_333, 33_333_333_330, nil}, // rounds down
		{1, 6, 11, 1, 1, nil},
		{1, latest, latest, 1, 1, nil},
		{1, 1, latest, latest, latest, nil},
		{latest, 1, 1, 1, latest, nil},
		{1 << 31, 1, 1<<32 - 1, 1<<32 - 1, 1<<63 - 1<<31, nil},

		{0, 0, 0, 0, 0, gcra.ErrCapacity},
		{1, 0, 0, 0, 0, gcra.ErrCount},
		{1, 1, 0, 0, 0, gcra.ErrPeriod},
		{1, second + 1, second, 0, 0, gcra.ErrEmissionInterval},
		{1 << 31, 1, 1 << 32, 0, 0, gcra.ErrTolerance},     // exactly 2^63
		{1 << 32, 1, 1<<32 + 1, 0, 0, gcra.ErrTolerance},   // would wrap to a small number
		{latest, 1, latest, 0, 0, gcra.ErrTolerance},       // the largest
		{1, math.MinInt64, second, 0, 0, gcra.ErrCount},    // the least
		{math.MinInt64, 1, second, 0, 0, gcra.ErrCapacity}, // of each
		{1, 1, math.MinInt64, 0, 0, gcra.ErrPeriod},
	} {
		rate, err := gcra.NewRate(c.capacity, c.count, c.period)
		require.Equal(t, c.err, err, "%+v", c)
		if err != nil {
			require.Zero(t, rate)
			continue
		}
		require.Equal(t, []int64{c.capacity, c.emissionInterval, c.tolerance},
			[]int64{rate.Capacity(), rate.EmissionInterval(), rate.Tolerance()}, "%+v", c)
	}
}

func TestDecide(t *testing.T) {
	const never = gcra.NoRetry
	type decision = gcra.Decision
	rate := func(capacity, count, period int64) gcra.Rate {
		rate, err := gcra.NewRate(capacity, count, period)
		require.NoError(t, err)
		return rate
	}
	var (
		transcript = rate(15, 30, 60*second) // 2 s per token, 30 s in all
		nanosecond = rate(10, 1, 1)          // 1 ns per token
		endless    = rate(1, 1, latest)
		halfOf64   = rate(1, 1, 1<<32)
	)
	for _, c := range []struct {
		name               string
		rate               gcra.Rate
		tat, now, quantity int64
		want               decision
		err                error
	}{
		{"new key", transcript, gcra.Empty, today, 1, decision{false, 15, 14, never, 2 * second, today + 2*second}, nil},
		{"the whole capacity", transcript, gcra.Empty, today, 15, decision{false, 15, 0, never, 30 * second, today + 30*second}, nil},
		{"more than the capacity", transcript, gcra.Empty, today, 16, decision{true, 15, 15, never, 0, gcra.Empty}, nil},
		{"peek at a new key", transcript, gcra.Empty, today, 0, decision{false, 15, 15, never, 0, gcra.Empty}, nil},
		{"drained long ago", transcript, today - 3600*second, today, 1, decision{false, 15, 14, never, 2 * second, today + 2*second}, nil},

		{"last token", transcript, today + 28*second, today, 1, decision{false, 15, 0, never, 30 * second, today + 30*second}, nil},
		{"a nanosecond early", transcript, today + 28*second + 1, today, 1, decision{true, 15, 0, 1, 28*second + 1, today + 28*second + 1}, nil},
		{"full", transcript, today + 30*second, today, 1, decision{true, 15, 0, 2 * second, 30 * second, today + 30*second}, nil},
		{"full, peek", transcript, today + 30*second, today, 0, decision{false, 15, 0, never, 30 * second, today + 30*second}, nil},
		{"too many by one", transcript, today + 14*second, today, 9, decision{true, 15, 8, 2 * second, 14 * second, today + 14*second}, nil},
		{"not empty, more than the capacity", transcript, today + 14*second, today, 16, decision{true, 15, 8, never, 14 * second, today + 14*second}, nil},

		{"overfull", transcript, today + 100*second, today, 1, decision{true, 15, 0, 72 * second, 100 * second, today + 100*second}, nil},
		{"overfull, peek", transcript, today + 100*second, today, 0, decision{true, 15, 0, 70 * second, 100 * second, today + 100*second}, nil},
		{"an hour back", transcript, today + 30*second, today - 3600*second, 1, decision{true, 15, 0, 3602 * second, 3630 * second, today + 30*second}, nil},

		{"the last instant", nanosecond, gcra.Empty, latest - 1, 1, decision{false, 10, 9, never, 1, latest}, nil},
		{"beyond the last instant", nanosecond, latest, latest - 5, 1, decision{}, gcra.ErrTAT},
		{"limited at the last instant", nanosecond, latest, latest - 10, 1, decision{true, 10, 0, 1, 10, latest}, nil},
		{"both sums fill 64 bits", endless, latest, latest - 1, 1, decision{true, 1, 0, 1, 1, latest}, nil},
		{"292 years per token", endless, gcra.Empty, 0, 1, decision{false, 1, 0, never, latest, latest}, nil},

		{"instants below 0", nanosecond, math.MinInt64, -5, 3, decision{false, 10, 7, never, 3, 3}, nil},
		{"negative quantity", transcript, gcra.Empty, today, -1, decision{}, gcra.ErrQuantity},
		{"increment of exactly 2^63", halfOf64, gcra.Empty, today, 1 << 31, decision{}, gcra.ErrIncrement},
		{"zero Rate", gcra.Rate{}, gcra.Empty, today, 0, decision{}, gcra.ErrCapacity},
	} {
		got, err := c.rate.Decide(c.tat, c.now, c.quantity)
		require.Equal(t, c.err, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
}

func TestIncrement(t *testing.T) {
	rate, err := gcra.NewRate(15, 30, 60*second)
	require.NoError(t, err)
	for _, c := range []struct {
		quantity, want int64
		err            error
	}{
		{0, 0, nil},
		{1, 2 * second, nil},
		{latest / (2 * second), latest / (2 * second) * 2 * second, nil},
		{latest/(2*second) + 1, 0, gcra.ErrIncrement},
		{-1, 0, gcra.ErrQuantity},
	} {
		got, err := rate.Increment(c.quantity)
		require.Equal(t, c.err, err, c.quantity)
		require.Equal(t, c.want, got, c.quantity)
	}
}

func TestRoundedUp(t *testing.T) {
	for _, c := range []struct{ nanoseconds, seconds, milliseconds int64 }{
		{0, 0, 0},
		{1, 1, 1},
		{1e6, 1, 1},
		{1e6 + 1, 1, 2},
		{second, 1, 1000},
		{second + 1, 2, 1001},
		{today + 1, 1_800_000_001, 1_800_000_000_001},
		{latest, 9_223_372_037, 9_223_372_036_855},
	} {
		require.Equal(t, c.seconds, gcra.Seconds(c.nanoseconds), c.nanoseconds)
		require.Equal(t, c.milliseconds, gcra.Milliseconds(c.nanoseconds), c.nanoseconds)
	}
	for _, none := range []int64{gcra.NoRetry, -2 * second, math.MinInt64} {
		require.EqualValues(t, -1, gcra.Seconds(none))
	}
}
