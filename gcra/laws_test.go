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

// smallRates hold 1 to 5 tokens, of which one leaks in 1 to 10 nanoseconds.
var smallRates = rapid.Custom(func(t *rapid.T) gcra.Rate {
	rate, err := gcra.NewRate(rapid.Int64Range(1, 5).Draw(t, "capacity"), 1, rapid.Int64Range(1, 10).Draw(t, "interval"))
	require.NoError(t, err)
	return rate
})

// TestReservationsAreBounded: callers who go ahead when they are told never take more than
// capacity + elapsed/T, first and last instant included, and nobody goes ahead before
// somebody who asked earlier.
func TestReservationsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := smallRates.Draw(t, "rate")
		type reservation struct{ at, quantity int64 }
		var reservations []reservation
		tat, now := gcra.Empty, today
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now += rapid.Int64Range(0, 3*10).Draw(t, "elapsed") // close enough together to fill the funnel
			quantity := rapid.Int64Range(0, 6).Draw(t, "quantity")
			wait := rapid.SampledFrom([]int64{0, 0, 1, 10, 45, 100, 1000}).Draw(t, "wait")
			decision, _, err := operations[0].ask(rate, tat, now, quantity, wait)
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

// TestWaitingIsExact: after Wait the same reservation is allowed, and a nanosecond earlier
// it is not.
func TestWaitingIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := calls.Draw(t, "call")
		wait := lastWordsOf(t, n)
		rate, _ := gcra.NewRate(n.capacity, n.count, n.period)
		reserve := func(now int64) (gcra.Decision, error) {
			decision, _, err := operations[0].ask(rate, n.tat, now, n.quantity, wait)
			return decision, err
		}
		decision, err := reserve(n.now)
		if err != nil || !decision.Limited {
			return
		}
		if decision.Wait == gcra.Never {
			require.Greater(t, n.quantity, n.capacity)
			return
		}
		later := plus(n.now, decision.Wait)
		early, err := reserve(later - 1)
		require.NoError(t, err)
		require.True(t, early.Limited)
		require.EqualValues(t, 1, early.Wait)
		if again, err := reserve(later); err != gcra.ErrTAT {
			require.NoError(t, err)
			require.False(t, again.Limited)
		}
	})
}

// TestTakeIsSeveralReservations: Take takes as many tokens as reservations of one token that
// follow each other at one instant, and leaves the same funnel.
func TestTakeIsSeveralReservations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, quantity := smallRates.Draw(t, "rate"), rapid.Int64Range(0, 7).Draw(t, "quantity")
		tat := today + rapid.Int64Range(-5, 60).Draw(t, "ahead")
		whole, taken, err := operations[1].ask(rate, tat, today, quantity, 0)
		require.NoError(t, err)
		one := gcra.Decision{TAT: tat}
		for count := int64(0); count <= quantity; count++ {
			next, err := rate.Decide(one.TAT, today, 1)
			require.NoError(t, err)
			if count == quantity {
				require.Equal(t, quantity, taken)
				require.Zero(t, whole.Wait)
			} else if next.Limited {
				require.Equal(t, count, taken)
				require.Equal(t, next.Wait, whole.Wait)
				break
			} else {
				one = next
			}
		}
		require.Equal(t, one.TAT, whole.TAT)
	})
}

// TestRefundWithAReceiptUndoes: it leaves the TAT of a history in which the call took as much
// less as the refund gave back, if no earlier call's tokens were given back in between.
func TestRefundWithAReceiptUndoes(t *testing.T) {
	rate, err := gcra.NewRate(20, 1, 1) // a token in a nanosecond
	require.NoError(t, err)
	type step struct {
		elapsed, quantity int64
		refundOf          int // the step whose tokens are given back, or -1
	}
	charge, refund := operations[3], operations[4]
	rapid.Check(t, func(t *rapid.T) {
		steps := make([]step, rapid.IntRange(1, 12).Draw(t, "steps"))
		undone, refunded := rapid.IntRange(0, len(steps)-1).Draw(t, "undone"), map[int]bool{}
		for i := range steps {
			steps[i] = step{rapid.Int64Range(0, 8).Draw(t, "elapsed"), rapid.Int64Range(1, 12).Draw(t, "quantity"), -1}
			earliest := 0
			if i > undone {
				earliest = undone + 1
			}
			if i != undone && i > earliest && rapid.Bool().Draw(t, "refund") {
				of := rapid.IntRange(earliest, i-1).Draw(t, "of")
				if steps[of].refundOf < 0 && !refunded[of] {
					refunded[of], steps[i].refundOf = true, of
					steps[i].quantity = min(steps[i].quantity, steps[of].quantity)
				}
			}
		}
		run := func(less int64) (tat, now, receipt int64) {
			receipts := make([]int64, len(steps))
			now = today
			for i, step := range steps {
				operation, quantity := charge, step.quantity
				if i == undone {
					quantity -= less
				}
				if step.refundOf >= 0 {
					operation, receipt = refund, receipts[step.refundOf]
				}
				now += step.elapsed
				decision, _, err := operation.ask(rate, tat, now, quantity, receipt)
				require.NoError(t, err)
				tat = decision.TAT
				if step.refundOf < 0 {
					receipts[i] = tat
				}
			}
			return tat, now, receipts[undone]
		}
		tat, now, receipt := run(0)
		unused := rapid.Int64Range(0, steps[undone].quantity).Draw(t, "unused")
		back := min(unused, max(0, receipt-now))
		decision, _, err := refund.ask(rate, tat, now, unused, receipt)
		require.NoError(t, err)
		want, _, _ := run(back)
		require.Equal(t, max(want, now), max(decision.TAT, now))
	})
}
