package gcra_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/internal/contract"
)

// An operation is one of the package, with its name in the contract.
type operation struct {
	gcra.Operation
	name string
}

var operations = []operation{{gcra.Reserve, "reserve"}, {gcra.Peek, "peek"}, {gcra.Charge, "charge"}, {gcra.Refund, "refund"}}

// ask makes the operation. Wait is how long the caller can wait.
func (o operation) ask(rate gcra.Rate, tat, now, quantity, wait int64) (gcra.Decision, error) {
	asks := []gcra.Ask{{Rate: rate, TAT: tat, Quantity: quantity, Decision: gcra.Decision{Wait: 77, TAT: 77}}}
	_, err := o.Decide(asks, now, wait)
	return asks[0].Decision, err
}

// contract is what the contract makes of a call. The contract has no numbers below 0; the
// package documents what they mean.
func (o operation) contract(n numbers, wait int64) (contract.Decision, contract.Error) {
	switch {
	case n.capacity < 1:
		return contract.Decision{}, contract.ErrCapacity
	case n.count < 1:
		return contract.Decision{}, contract.ErrCount
	case n.period < 1:
		return contract.Decision{}, contract.ErrPeriod
	}
	funnel, err := contract.NewFunnel("", big.NewInt(n.capacity), big.NewInt(n.count), big.NewInt(n.period),
		big.NewInt(max(n.quantity, 0)))
	switch {
	case err != "":
		return contract.Decision{}, err
	case n.quantity < 0:
		return contract.Decision{}, contract.ErrQuantity
	}
	tat, now := big.NewInt(max(n.tat, 0)), big.NewInt(max(n.now, 0))
	switch o.Operation {
	case gcra.Reserve:
		return funnel.Reserve(tat, now, big.NewInt(max(wait, 0)))
	case gcra.Peek:
		return funnel.Peek(tat, now)
	case gcra.Charge:
		return funnel.Charge(tat, now)
	}
	return funnel.Refund(tat, now)
}

// agree compares an operation with the contract and returns what both answered. It costs
// no more than that: it runs a million times.
func (o operation) agree(t require.TestingT, n numbers, wait int64) (got gcra.Decision, err error) {
	rate, err := gcra.NewRate(n.capacity, n.count, n.period)
	if err == nil {
		got, err = o.ask(rate, n.tat, n.now, n.quantity, wait)
	}
	want, failure := o.contract(n, wait)
	if got != gcra.Decision(want) || !named(err, failure) {
		require.FailNow(t, "package and contract differ", "%s of %+v, waiting %d:\ngot  %+v, %v\nwant %+v, %v",
			o.name, n, wait, got, err, want, failure)
	}
	return got, err
}

// waitsOf generates how long a caller can wait, gathered where the answer changes.
func waitsOf(t *rapid.T, n numbers) int64 {
	decision, _ := n.decide()
	return rapid.OneOf(rapid.Just(int64(0)), around(max(decision.Wait, 0)), between(0, math.MaxInt64)).Draw(t, "wait")
}

// TestOperationsAgreeWithTheContract in calls on rates that are valid, the extremes of which
// seldom meet by chance, and in any numbers, some of them below 0.
func TestOperationsAgreeWithTheContract(t *testing.T) {
	anything := between(-10, math.MaxInt64)
	for _, operation := range operations {
		t.Run(operation.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := calls.Draw(t, "call")
				_, _ = operation.agree(t, n, waitsOf(t, n))
				_, _ = operation.agree(t, numbers{anything.Draw(t, "capacity"), anything.Draw(t, "count"), anything.Draw(t, "period"),
					anything.Draw(t, "tat"), anything.Draw(t, "now"), anything.Draw(t, "quantity")}, anything.Draw(t, "wait"))
			})
		})
	}
}

// FuzzOperations takes any numbers, and all operations.
func FuzzOperations(f *testing.F) {
	const least, most = math.MinInt64, math.MaxInt64
	for _, n := range []numbers{
		{15, 30, 60 * second, gcra.Empty, today, 1},
		{10, 3, 10 * second, today + 1, today, 10},
		{1, 1, second, today + 5*second, today, 1},
		{1, 1, most, most, most - 1, 1},
		{most, 1, 1, gcra.Empty, 1, most},
		{1 << 31, 1, 1 << 32, 0, 0, 1},
		{1, 1, 1<<32 + 1, 0, 0, 1 << 32},
		{1, 2, 1, 0, 0, 1},
		{1, 1, 1, least, least, least},
		{least, least, least, 0, 0, 0},
	} {
		for _, wait := range []int64{least, 0, 5 * second, most} {
			f.Add(n.capacity, n.count, n.period, n.tat, n.now, n.quantity, wait)
		}
	}
	f.Fuzz(func(t *testing.T, capacity, count, period, tat, now, quantity, wait int64) {
		for _, operation := range operations {
			_, _ = operation.agree(t, numbers{capacity, count, period, tat, now, quantity}, wait)
		}
	})
}

func TestAskOfTheZeroRate(t *testing.T) {
	for _, operation := range operations {
		_, err := operation.ask(gcra.Rate{}, 0, today, 1, 0)
		require.ErrorIs(t, err, gcra.ErrCapacity, operation.name)
	}
}

// A step is what happens to one funnel: the clock goes on, and somebody asks.
type step struct {
	operation operation
	elapsed   int64
	quantity  int64
	wait      int64
}

// histories generates steps on a small funnel, close enough together to fill it.
func histories(operations ...operation) *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			operation: rapid.SampledFrom(operations).Draw(t, "operation"),
			elapsed:   rapid.Int64Range(0, 3*10).Draw(t, "elapsed"),
			quantity:  rapid.Int64Range(0, 6).Draw(t, "quantity"),
			wait:      rapid.SampledFrom([]int64{0, 0, 1, 10, 45, 100, 1000}).Draw(t, "wait"),
		}
	}), 1, 40)
}

// smallRates hold 1 to 5 tokens, of which one leaks in 1 to 10 nanoseconds.
var smallRates = rapid.Custom(func(t *rapid.T) gcra.Rate {
	rate, err := gcra.NewRate(rapid.Int64Range(1, 5).Draw(t, "capacity"), 1, rapid.Int64Range(1, 10).Draw(t, "interval"))
	require.NoError(t, err)
	return rate
})

// replay asks a funnel, and tells of each answer.
func replay(t *rapid.T, rate gcra.Rate, steps []step, told func(s step, now, before int64, decision gcra.Decision)) {
	tat, now := gcra.Empty, today
	for _, s := range steps {
		now += s.elapsed
		decision, err := s.operation.ask(rate, tat, now, s.quantity, s.wait)
		require.NoError(t, err)
		told(s, now, tat, decision)
		tat = decision.TAT
	}
}

// TestTurns: those who go ahead at their turns never exceed capacity + elapsed/T, first
// and last instant included, and nobody goes ahead before somebody who asked earlier.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := smallRates.Draw(t, "rate")
		type turn struct{ at, quantity int64 }
		var turns []turn
		replay(t, rate, histories(operations[:2]...).Draw(t, "history"), func(s step, now, _ int64, decision gcra.Decision) {
			if s.operation.Operation == gcra.Reserve && !decision.Limited && s.quantity > 0 {
				turns = append(turns, turn{now + decision.Wait, s.quantity})
			}
		})
		for first := range turns {
			tokens := int64(0)
			for last := first; last < len(turns); last++ {
				tokens += turns[last].quantity
				elapsed := turns[last].at - turns[first].at
				require.GreaterOrEqual(t, elapsed, int64(0), "in the order of asking")
				require.LessOrEqual(t, tokens, rate.Capacity()+elapsed/rate.EmissionInterval())
			}
		}
	})
}

// TestBooks: what is in the funnel is what was poured and charged, less what was given
// back and what has leaked, and never less than nothing.
func TestBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := smallRates.Draw(t, "rate")
		level, last := int64(0), today
		replay(t, rate, histories(operations...).Draw(t, "history"), func(s step, now, before int64, decision gcra.Decision) {
			level = max(0, level-(now-last))
			last = now
			increment := s.quantity * rate.EmissionInterval()
			switch operation := s.operation.Operation; {
			case operation == gcra.Refund:
				level = max(0, level-increment)
			case operation == gcra.Charge, operation == gcra.Reserve && !decision.Limited:
				level += increment
			}
			require.Equal(t, level, decision.ResetAfter)
			if s.quantity == 0 {
				require.Equal(t, before, decision.TAT, "nothing is written")
			}
		})
	})
}

// TestWaitingIsExact: after Wait the same reservation is allowed, and a nanosecond earlier
// it is not.
func TestWaitingIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := calls.Draw(t, "call")
		wait := waitsOf(t, n)
		ask := gcra.Ask{TAT: n.tat, Quantity: n.quantity}
		ask.Rate, _ = gcra.NewRate(n.capacity, n.count, n.period)
		if err := ask.Reserve(n.now, wait); err != nil || !ask.Decision.Limited {
			return
		}
		if ask.Decision.Wait == gcra.Never {
			require.Greater(t, n.quantity, n.capacity)
			return
		}
		later := plus(n.now, ask.Decision.Wait)
		again := ask
		require.NoError(t, again.Reserve(later-1, wait))
		require.True(t, again.Decision.Limited)
		require.EqualValues(t, 1, again.Decision.Wait)
		if err := again.Reserve(later, wait); err != gcra.ErrTAT {
			require.NoError(t, err)
			require.False(t, again.Decision.Limited)
		}
	})
}

// TestReserveDecides: all are poured or none, a funnel says what it says alone, and the
// others tell their state.
func TestReserveDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.OneOf(between(0, math.MaxInt64), between(today, today+second)).Draw(t, "now")
		asks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) gcra.Ask {
			n := calls.Draw(t, "funnel")
			rate, err := gcra.NewRate(n.capacity, n.count, n.period)
			require.NoError(t, err)
			return gcra.Ask{Rate: rate, TAT: n.tat, Quantity: n.quantity}
		}), 0, 4).Draw(t, "asks")

		failed, err := gcra.Reserve.Decide(asks, now, 0)

		limited, wait := false, int64(0)
		for i, ask := range asks {
			alone := ask
			if failure := alone.Reserve(now, 0); failure != nil {
				require.Equal(t, failure, err)
				require.Equal(t, i, failed)
				return
			}
			limited = limited || alone.Decision.Limited
			if wait != gcra.Never {
				wait = max(wait, alone.Decision.Wait)
			}
			if alone.Decision.Wait == gcra.Never {
				wait = gcra.Never
			}
		}
		require.NoError(t, err)
		for _, ask := range asks {
			want := ask
			if limited {
				require.NoError(t, want.Peek(now))
			} else {
				require.NoError(t, want.Reserve(now, 0))
			}
			require.Equal(t, want, ask)
		}
		gotLimited, gotWait := gcra.Together(asks)
		require.Equal(t, limited, gotLimited)
		require.Equal(t, wait, gotWait)
	})
}
