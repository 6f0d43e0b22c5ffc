// What a series of calls can rely on.

package gcra_test

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/internal/decision"
)

// More than rapid's 100 checks by default: few inputs are edge cases. -rapid.checks on the command
// line overrides it.
func init() {
	err := flag.Set("rapid.checks", "2000")
	if err != nil {
		panic(err)
	}
}

// drawRate draws a funnel so small that a few calls fill it.
func drawRate(t *rapid.T) gcra.Rate {
	return rate(rapid.Int64Range(1, 5).Draw(t, "capacity"), 1, rapid.Int64Range(1, 10).Draw(t, "T"))
}

// drawTAT draws a TAT that is past, ahead, or so far ahead that the funnel is overfull.
func drawTAT(t *rapid.T) int64 { return now + rapid.Int64Range(-10, 80).Draw(t, "level") }

func drawQuantity(t *rapid.T) int64 { return rapid.Int64Range(0, 6).Draw(t, "quantity") }

func drawMaxWait(t *rapid.T) int64 {
	return rapid.SampledFrom([]int64{0, 0, 1, 10, 45, 100, 1000}).Draw(t, "max wait")
}

// funnelOf returns the part of a call that asks for tokens, before any operation.
func funnelOf(t *rapid.T, r gcra.Rate, tat, quantity int64) gcra.Funnel {
	request, err := r.Request(quantity)
	require.NoError(t, err)
	return gcra.Funnel{Request: request, TAT: tat}
}

// If callers go ahead at their turn, they take no more than capacity + elapsed/T tokens in any
// stretch of time, first and last instant included. They go ahead in the order of asking.
func TestReservationsKeepTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		type turn struct{ at, tokens int64 }
		var turns []turn
		tat, at := gcra.Empty, now
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			at += rapid.Int64Range(0, 30).Draw(t, "later") // close enough together to fill the funnel
			f := funnelOf(t, r, tat, drawQuantity(t))
			require.NoError(t, f.Reserve(at, drawMaxWait(t)))
			tat = f.NewTAT
			if !f.Limited && f.Request.Quantity() > 0 {
				turns = append(turns, turn{at: at + f.Wait, tokens: f.Request.Quantity()})
			}
		}
		for first := range turns {
			tokens := int64(0)
			for _, last := range turns[first:] {
				tokens += last.tokens
				elapsed := last.at - turns[first].at
				require.GreaterOrEqual(t, elapsed, int64(0), "turns are in the order of asking")
				require.LessOrEqual(t, tokens, r.Capacity()+elapsed/r.EmissionInterval(), "taken in %d ns", elapsed)
			}
		}
	})
}

// A limited caller that asks again after its Wait is allowed, and a nanosecond earlier it is
// limited. If asking again never helps, the quantity is above the capacity.
func TestWaitIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		maxWait := drawMaxWait(t)
		f := funnelOf(t, r, drawTAT(t), drawQuantity(t))
		require.NoError(t, f.Reserve(now, maxWait))
		wait := f.Wait
		require.Equal(t, f.Request.Quantity() > r.Capacity(), wait == decision.Never)
		if !f.Limited || wait == decision.Never {
			return
		}
		require.NoError(t, f.Reserve(now+wait-1, maxWait))
		require.True(t, f.Limited, "a nanosecond before the wait of %d is over", wait)
		require.NoError(t, f.Reserve(now+wait, maxWait))
		require.False(t, f.Limited, "after the wait of %d", wait)
	})
}

// Remaining is what can be taken now: that many tokens fit, and one more does not.
func TestRemainingIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		tat := drawTAT(t)
		f := funnelOf(t, r, tat, 1)
		require.NoError(t, f.Peek(now))
		remaining := f.Remaining
		more := funnelOf(t, r, tat, remaining+1)
		require.NoError(t, more.Peek(now))
		require.True(t, more.Limited, "%d remain, and one more fits", remaining)
		all := funnelOf(t, r, tat, max(1, remaining))
		require.NoError(t, all.Peek(now))
		require.Equal(t, remaining == 0, all.Limited, "%d remain", remaining)
	})
}

// Take does what reservations of one token each would do, up to the first that is limited.
func TestTakeIsRepeatedReserve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		tat := drawTAT(t)
		quantity := drawQuantity(t)
		request, err := r.RequestUpTo(quantity)
		require.NoError(t, err)
		take := gcra.Funnel{Request: request, TAT: tat}
		require.NoError(t, take.Take(now))

		taken, wait := int64(0), int64(0)
		for taken < quantity && wait == 0 {
			one := funnelOf(t, r, tat, 1)
			require.NoError(t, one.Reserve(now, 0))
			wait = one.Wait
			if wait == 0 {
				tat = one.NewTAT
				taken++
			}
		}
		require.Equal(t, taken, take.Taken)
		require.Equal(t, tat, take.NewTAT)
		require.Equal(t, wait, take.Wait)
		require.Equal(t, wait > 0, take.Limited)
	})
}

// A refund by receipt leaves what the key would hold if the call had taken that much less. It does
// not matter how many calls came in between, as long as none of them gave back. Right after the
// call, the key is then as if the call had taken nothing.
func TestRefundByReceipt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		before := drawTAT(t)
		call := funnelOf(t, r, before, drawQuantity(t))
		require.NoError(t, call.Charge(now))
		receipt, tat, at := call.NewTAT, call.NewTAT, now
		var later []gcra.Funnel
		var instants []int64
		for range rapid.IntRange(0, 4).Draw(t, "callers since") {
			at += rapid.Int64Range(0, 20).Draw(t, "later")
			next := funnelOf(t, r, tat, drawQuantity(t))
			require.NoError(t, next.Charge(at))
			tat = next.NewTAT
			later, instants = append(later, next), append(instants, at)
		}
		refund := funnelOf(t, r, tat, call.Request.Quantity())
		refund.Refund(at, receipt)
		back := tat - refund.NewTAT
		require.GreaterOrEqual(t, back, int64(0))
		require.LessOrEqual(t, back, call.Request.Increment(), "more than was taken")
		require.LessOrEqual(t, back, max(0, receipt-at), "of what has leaked")

		// The same history, with a call that took as much less.
		tat = receipt - back
		for i, next := range later {
			next.TAT = tat
			require.NoError(t, next.Charge(instants[i]))
			tat = next.NewTAT
		}
		require.Equal(t, max(at, tat), max(at, refund.NewTAT))
		if len(later) == 0 {
			require.Equal(t, max(now, before), max(now, refund.NewTAT), "as before the call")
		}
	})
}
