package gcra_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/decision"
)

const (
	least = math.MinInt64
	most  = math.MaxInt64
)

// T is period / count, rounded down, and tau is T * capacity. Each must fit 63 bits, and T is at
// least 1 ns.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		name                    string
		capacity, count, period int64
		T, tau                  int64
		err                     error
	}{
		{name: "one token a second", capacity: 10, count: 1, period: second, T: second, tau: 10 * second},
		{name: "the period is divided", capacity: 15, count: 30, period: 60 * second, T: 2 * second, tau: 30 * second},
		{name: "the capacity may exceed the count", capacity: 100, count: 1, period: 7, T: 7, tau: 700},
		{name: "T is rounded down, then multiplied", capacity: 3, count: 3, period: 11, T: 3, tau: 9},

		{name: "the smallest of all", capacity: 1, count: 1, period: 1, T: 1, tau: 1},
		{name: "T of exactly 1 ns", capacity: 1, count: second, period: second, T: 1, tau: 1},
		{name: "T below 1 ns", capacity: 1, count: second + 1, period: second, err: gcra.ErrEmissionInterval},
		{name: "the largest count and period", capacity: 1, count: most, period: most, T: 1, tau: 1},

		{name: "the largest T", capacity: 1, count: 1, period: most, T: most, tau: most},
		{name: "the largest capacity", capacity: most, count: 1, period: 1, T: 1, tau: most},
		{name: "tau just below 2^63", capacity: 7, count: 1, period: most / 7, T: most / 7, tau: most},
		{name: "tau of 2^63", capacity: 2, count: 1, period: 1 << 62, err: gcra.ErrTolerance},
		{name: "tau of 2^64, whose low 63 bits are 0", capacity: 1 << 32, count: 1, period: 1 << 32, err: gcra.ErrTolerance},
		{name: "the largest tau", capacity: most, count: 1, period: most, err: gcra.ErrTolerance},

		{name: "no capacity", capacity: 0, count: 1, period: 1, err: gcra.ErrCapacity},
		{name: "no count", capacity: 1, count: 0, period: 1, err: gcra.ErrCount},
		{name: "no period", capacity: 1, count: 1, period: 0, err: gcra.ErrPeriod},
		{name: "the capacity is checked first", capacity: least, count: least, period: least, err: gcra.ErrCapacity},
		{name: "then the count", capacity: 1, count: least, period: least, err: gcra.ErrCount},
		{name: "then the period", capacity: 1, count: 1, period: least, err: gcra.ErrPeriod},
	} {
		t.Run(c.name, func(t *testing.T) {
			rate, err := gcra.NewRate(c.capacity, c.count, c.period)
			require.Equal(t, c.err, err)
			if err != nil {
				require.Zero(t, rate, "the rate beside an error")
				return
			}
			require.Equal(t, c.capacity, rate.Capacity())
			require.Equal(t, c.T, rate.EmissionInterval())
			require.Equal(t, c.tau, rate.Tolerance())
		})
	}
}

// A request for n tokens needs T * n to fit 63 bits. Take asks for no more than the capacity, so it
// accepts any n.
func TestRequest(t *testing.T) {
	for _, c := range []struct {
		name            string
		rate            gcra.Rate
		quantity        int64
		increment, upTo int64
		err, errUpTo    error
	}{
		{name: "no tokens", rate: rate(10, 1, second), quantity: 0, increment: 0, upTo: 0},
		{name: "some tokens", rate: rate(10, 1, second), quantity: 3, increment: 3 * second, upTo: 3 * second},
		{name: "more than the capacity", rate: rate(10, 1, second), quantity: 11, increment: 11 * second, upTo: 10 * second},
		{name: "T * n of 2^63-1", rate: rate(1, 1, most/7), quantity: 7, increment: most, upTo: most / 7},
		{name: "T * n of 2^63", rate: rate(1, 1, 1<<62), quantity: 2, err: gcra.ErrIncrement, upTo: 1 << 62},
		{name: "T * n of 2^64", rate: rate(1, 1, 1<<32), quantity: 1 << 32, err: gcra.ErrIncrement, upTo: 1 << 32},
		{name: "the largest number", rate: rate(1, 1, 1), quantity: most, increment: most, upTo: 1},
		{name: "below 0", rate: rate(1, 1, 1), quantity: -1, err: gcra.ErrQuantity, errUpTo: gcra.ErrQuantity},
		{name: "far below 0", rate: rate(1, 1, 1), quantity: least, err: gcra.ErrQuantity, errUpTo: gcra.ErrQuantity},
		{name: "the zero Rate", quantity: 1, err: gcra.ErrCapacity, errUpTo: gcra.ErrCapacity},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.rate != (gcra.Rate{}) {
				increment, err := c.rate.Increment(c.quantity)
				require.Equal(t, c.err, err)
				require.Equal(t, c.increment, increment)
			}
			request, err := c.rate.Request(c.quantity)
			requireRequest(t, c.quantity, c.increment, c.err, request, err)
			request, err = c.rate.RequestUpTo(c.quantity)
			requireRequest(t, c.quantity, c.upTo, c.errUpTo, request, err)
		})
	}
}

func requireRequest(t *testing.T, quantity, increment int64, wantErr error, request gcra.Request, err error) {
	t.Helper()
	require.Equal(t, wantErr, err)
	if err != nil {
		require.Zero(t, request, "the request beside an error")
		return
	}
	require.Equal(t, quantity, request.Quantity())
	require.Equal(t, increment, request.Increment())
}

// Times are rounded up: a caller that waits the rounded time has waited long enough, and a key that
// expires at the rounded instant does not expire too early.
func TestTimesAreRoundedUp(t *testing.T) {
	for _, c := range []struct{ nanoseconds, seconds, milliseconds int64 }{
		{nanoseconds: 0, seconds: 0, milliseconds: 0},
		{nanoseconds: 1, seconds: 1, milliseconds: 1},
		{nanoseconds: 999_999, seconds: 1, milliseconds: 1},
		{nanoseconds: 1_000_000, seconds: 1, milliseconds: 1},
		{nanoseconds: 1_000_001, seconds: 1, milliseconds: 2},
		{nanoseconds: 999_999_999, seconds: 1, milliseconds: 1000},
		{nanoseconds: 1_000_000_000, seconds: 1, milliseconds: 1000},
		{nanoseconds: 1_000_000_001, seconds: 2, milliseconds: 1001},
		{nanoseconds: most, seconds: 9_223_372_037, milliseconds: 9_223_372_036_855},
	} {
		require.Equal(t, c.seconds, gcra.Seconds(c.nanoseconds), "seconds of %d ns", c.nanoseconds)
		require.Equal(t, c.milliseconds, gcra.Milliseconds(c.nanoseconds), "milliseconds of %d ns", c.nanoseconds)
	}
	require.Equal(t, int64(-1), gcra.Seconds(decision.Never), "no time to wait")
	require.Equal(t, int64(-1), gcra.Seconds(least), "no time to wait")
}

// rate returns a rate that is known to be valid.
func rate(capacity, count, period int64) gcra.Rate {
	r, err := gcra.NewRate(capacity, count, period)
	if err != nil {
		panic(err)
	}
	return r
}
