// Callers who go ahead when they are told keep the bound, by rates, times and quantities drawn where the
// answer changes.

package gcra_test

import (
	"flag"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
)

// More than rapid's 100 checks by default: the laws are cheap, and few inputs are
// edge cases. -rapid.checks on the command line overrides it.
func init() {
	if err := flag.Set("rapid.checks", "5000"); err != nil {
		panic(err)
	}
}

// between generates numbers from low to high, both included, with both ends as likely
// as the middle.
func between(low, high int64) *rapid.Generator[int64] {
	reach := uint64(high) - uint64(low)
	nearLow, nearHigh := high, low
	if reach > 100 {
		nearLow, nearHigh = low+100, high-100
	}
	return rapid.OneOf(
		rapid.Just(low),
		rapid.Just(high),
		rapid.Int64Range(low, nearLow),
		rapid.Int64Range(nearHigh, high),
		rapid.Int64Range(low, high),
	)
}

// around generates neighbours of the centre that are no less than 0.
func around(centre int64) *rapid.Generator[int64] {
	return rapid.Map(rapid.Int64Range(-2, 2), func(step int64) int64 { return max(plus(centre, step), 0) })
}

// plus adds and stops at the last instant, like a clock of 63 bits would.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// calls generates calls on valid rates, the largest and smallest among them: the emission
// interval first, then what still fits beside it. Times and quantities gather where the
// answer changes.
var calls = rapid.Custom(func(t *rapid.T) numbers {
	interval := rapid.OneOf(between(1, math.MaxInt64), between(1, 100*second)).Draw(t, "emission interval")
	most := math.MaxInt64 / interval
	n := numbers{
		capacity: rapid.OneOf(between(1, most), between(1, min(20, most))).Draw(t, "capacity"),
		count:    between(1, most).Draw(t, "count"),
		now:      rapid.OneOf(between(0, math.MaxInt64), between(today, today+3600*second)).Draw(t, "now"),
	}
	n.period = between(interval*n.count, plus(interval*n.count, n.count-1)).Draw(t, "period")
	n.quantity = rapid.OneOf(between(0, n.capacity), around(n.capacity), between(0, math.MaxInt64)).Draw(t, "quantity")

	full := plus(n.now, interval*n.capacity)
	tats := []*rapid.Generator[int64]{
		rapid.Just(gcra.Empty), around(n.now), around(full), between(n.now, full), between(0, math.MaxInt64),
	}
	if n.quantity <= n.capacity {
		increment := interval * n.quantity
		tats = append(tats, around(full-increment), around(math.MaxInt64-increment))
	}
	n.tat = rapid.OneOf(tats...).Draw(t, "tat")
	return n
})

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
			decision, _, err := operations[0].ask(rate, tat, now, quantity, wait, 0)
			require.NoError(t, err)
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
