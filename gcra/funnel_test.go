// Callers who go ahead when they are told keep the bound, and numbers below their range are errors, or count as 0.
// Package module/command compares each operation with package contract.

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

// Instants before 1970, and waits below 0, count as 0.
func TestInstantsBefore1970(t *testing.T) {
	rate, err := gcra.NewRate(1, 1, second)
	require.NoError(t, err)
	request, err := rate.Request(1)
	require.NoError(t, err)
	for name, operate := range map[string]func(f *gcra.Funnel, below int64) error{
		"reserve": func(f *gcra.Funnel, below int64) error { return f.Reserve(below, below) },
		"take":    (*gcra.Funnel).Take,
		"peek":    (*gcra.Funnel).Peek,
		"charge":  (*gcra.Funnel).Charge,
		"refund":  func(f *gcra.Funnel, below int64) error { f.Refund(below, below); return nil },
	} {
		for _, tat := range []int64{-second, second} {
			want, got := gcra.Funnel{Request: request, TAT: max(0, tat)}, gcra.Funnel{Request: request, TAT: tat}
			require.NoError(t, operate(&want, 0), name)
			require.NoError(t, operate(&got, math.MinInt64), name)
			require.Equal(t, want.Decision, got.Decision, "%s, TAT %d", name, tat)
		}
	}
}

// A TAT at or before now is an empty funnel, but a refund leaves no earlier one than now.
func TestRefundOfMoreThanThereIs(t *testing.T) {
	rate, err := gcra.NewRate(1, 1, second)
	require.NoError(t, err)
	request, err := rate.Request(5)
	require.NoError(t, err)
	funnel := gcra.Funnel{Request: request, TAT: today + 1}
	funnel.Refund(today, gcra.NoReceipt)
	require.Equal(t, today, funnel.Decision.TAT)
}

// More than rapid's 100 checks by default: few inputs are edge cases. -rapid.checks on the command line overrides it.
func init() {
	if err := flag.Set("rapid.checks", "5000"); err != nil {
		panic(err)
	}
}

// TestReservationsAreBounded: callers who go ahead when they are told never take more than
// capacity + elapsed/T, first and last instant included, and nobody goes ahead before
// somebody who asked earlier.
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
