// Callers who go ahead at their turn keep the bound. Numbers below their range are errors, or count as 0. Package
// module/command compares each operation with package contract.

package gcra_test

import (
	"flag"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
)

const (
	second = int64(1e9)

	// today is an instant in 2026, far from 0 and far from the year 2262.
	today = 1_800_000_000 * second
)

func TestErrors(t *testing.T) {
	const least = math.MinInt64
	for _, c := range []struct {
		capacity, count, period, quantity int64
		want                              error
	}{
		{0, 1, 1, 1, gcra.ErrCapacity}, {least, least, least, least, gcra.ErrCapacity}, {1, 0, 1, 1, gcra.ErrCount},
		{1, 1, least, 1, gcra.ErrPeriod}, {1, 1, 1, -1, gcra.ErrQuantity}, {1, 1, 1, 0, nil},
	} {
		rate, err := gcra.NewRate(c.capacity, c.count, c.period)
		var request gcra.Request
		if err == nil {
			request, err = rate.Request(c.quantity)
			_, upTo := rate.RequestUpTo(c.quantity)
			require.Equal(t, err, upTo, "%+v", c)
		} else {
			require.Zero(t, rate, "a rate beside an error: %+v", c)
		}
		require.Equal(t, c.want, err, "%+v", c)
		require.Equal(t, err != nil, request == gcra.Request{}, "a request beside an error: %+v", c)
	}
	_, err := gcra.Rate{}.Request(1)
	require.Equal(t, gcra.ErrCapacity, err, "the zero rate")
}

// A refund leaves no TAT before now. A TAT before 1970 and a max wait below 0 count as 0.
func TestNumbersBelowTheirRange(t *testing.T) {
	rate, err := gcra.NewRate(1, 1, second)
	require.NoError(t, err)
	request, err := rate.Request(1)
	require.NoError(t, err)
	for _, c := range []struct{ tat, now, after int64 }{{today + 1, today, today}, {-second, 0, 0}} {
		funnel := gcra.Funnel{Request: request, TAT: c.tat}
		funnel.Refund(c.now, gcra.NoReceipt)
		require.Equal(t, c.after, funnel.Decision.TAT)
	}
	full := gcra.Funnel{Request: request, TAT: second}
	require.NoError(t, full.Reserve(0, -1))
	require.Equal(t, second, full.Decision.Wait)
}

// More than rapid's 100 checks by default: few inputs are edge cases. -rapid.checks on the command line overrides it.
func init() {
	if err := flag.Set("rapid.checks", "5000"); err != nil {
		panic(err)
	}
}

// TestReservationsAreBounded: callers who go ahead at their turn never take more than capacity + elapsed/T, first and
// last instant included, and nobody goes ahead before a caller who asked earlier.
func TestReservationsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, err := gcra.NewRate(rapid.Int64Range(1, 5).Draw(t, "capacity"), 1, rapid.Int64Range(1, 10).Draw(t, "interval"))
		require.NoError(t, err)
		type reservation struct{ at, quantity int64 }
		var reservations []reservation
		tat, now := gcra.Empty, today
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now += rapid.Int64Range(0, 3*10).Draw(t, "elapsed") // close enough together to fill the funnel
			quantity := rapid.Int64Range(0, 6).Draw(t, "quantity")
			wait := rapid.SampledFrom([]int64{0, 0, 1, 10, 45, 100, 1000}).Draw(t, "wait")
			request, err := rate.Request(quantity)
			require.NoError(t, err)
			funnel := gcra.Funnel{Request: request, TAT: tat}
			require.NoError(t, funnel.Reserve(now, wait))
			decision := funnel.Decision
			if tat = decision.TAT; !decision.Limited && quantity > 0 {
				reservations = append(reservations, reservation{now + decision.Wait, quantity})
			}
		}
		for first := range reservations {
			tokens := int64(0)
			for _, last := range reservations[first:] {
				tokens += last.quantity
				elapsed := last.at - reservations[first].at
				require.GreaterOrEqual(t, elapsed, int64(0), "in the order of asking")
				require.LessOrEqual(t, tokens, rate.Capacity()+elapsed/rate.EmissionInterval())
			}
		}
	})
}
