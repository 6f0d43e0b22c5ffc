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

// An operation is a method of Ask, and the same in the contract. Wait is how long the
// caller can wait, for those who can.
type operation struct {
	name  string
	ask   func(ask *gcra.Ask, now, wait int64) error
	model func(funnel contract.Funnel, tat, now, wait *big.Int) (contract.Decision, contract.Error)
}

var operations = []operation{
	{"reserve", (*gcra.Ask).Reserve, contract.Funnel.Reserve},
	{"peek",
		func(ask *gcra.Ask, now, _ int64) error { return ask.Peek(now) },
		func(funnel contract.Funnel, tat, now, _ *big.Int) (contract.Decision, contract.Error) {
			return funnel.Peek(tat, now)
		}},
	{"charge",
		func(ask *gcra.Ask, now, _ int64) error { return ask.Charge(now) },
		func(funnel contract.Funnel, tat, now, _ *big.Int) (contract.Decision, contract.Error) {
			return funnel.Charge(tat, now)
		}},
	{"refund",
		func(ask *gcra.Ask, now, _ int64) error { return ask.Refund(now) },
		func(funnel contract.Funnel, tat, now, _ *big.Int) (contract.Decision, contract.Error) {
			return funnel.Refund(tat, now)
		}},
}

// agree compares an operation with the contract. The rate is valid.
func (o operation) agree(t require.TestingT, n numbers, wait int64) gcra.Decision {
	rate, err := gcra.NewRate(n.capacity, n.count, n.period)
	require.NoError(t, err)
	ask := gcra.Ask{Rate: rate, TAT: n.tat, Quantity: n.quantity, Decision: gcra.Decision{Wait: 77, TAT: 77}}
	err = o.ask(&ask, n.now, wait)

	funnel, failure := contract.NewFunnel("", big.NewInt(n.capacity), big.NewInt(n.count), big.NewInt(n.period),
		big.NewInt(max(n.quantity, 0)))
	var want contract.Decision
	switch {
	case failure != "":
	case n.quantity < 0:
		failure = contract.ErrQuantity
	default:
		want, failure = o.model(funnel, big.NewInt(max(n.tat, 0)), big.NewInt(max(n.now, 0)), big.NewInt(max(wait, 0)))
	}
	if ask.Decision != gcra.Decision(want) || !named(err, failure) {
		require.FailNow(t, "package and contract differ", "%s of %+v, waiting %d:\ngot  %+v, %v\nwant %+v, %v",
			o.name, n, wait, ask.Decision, err, want, failure)
	}
	return ask.Decision
}

// waitsOf generates how long a caller can wait, gathered where the answer changes.
func waitsOf(t *rapid.T, n numbers) int64 {
	decision, _ := n.decide()
	return rapid.OneOf(rapid.Just(int64(0)), around(max(decision.Wait, 0)), between(0, math.MaxInt64)).Draw(t, "wait")
}

func TestOperationsAgreeWithTheContract(t *testing.T) {
	for _, operation := range operations {
		t.Run(operation.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := calls.Draw(t, "call")
				operation.agree(t, n, waitsOf(t, n))
			})
		})
	}
}

// FuzzOperations takes any numbers, and all operations.
func FuzzOperations(f *testing.F) {
	const least, most = math.MinInt64, math.MaxInt64
	f.Add(int64(15), int64(30), 60*second, gcra.Empty, today, int64(1), int64(0))
	f.Add(int64(1), int64(1), second, today+5*second, today, int64(1), 5*second)
	f.Add(int64(1), int64(1), int64(most), int64(most), int64(most-1), int64(1), int64(most))
	f.Add(int64(most), int64(1), int64(1), gcra.Empty, int64(most), int64(most), int64(least))
	f.Fuzz(func(t *testing.T, capacity, count, period, tat, now, quantity, wait int64) {
		if _, err := gcra.NewRate(capacity, count, period); err != nil {
			t.Skip()
		}
		for _, operation := range operations {
			operation.agree(t, numbers{capacity, count, period, tat, now, quantity}, wait)
		}
	})
}

func TestAskOfTheZeroRate(t *testing.T) {
	for _, operation := range operations {
		require.ErrorIs(t, operation.ask(&gcra.Ask{Quantity: 1}, today, 0), gcra.ErrCapacity, operation.name)
	}
}

// A step is what happens to one funnel: the clock goes on, and somebody asks.
type step struct {
	operation string
	elapsed   int64
	quantity  int64
	wait      int64
}

// histories generates steps on a small funnel, close enough together to fill it.
func histories(operations ...string) *rapid.Generator[[]step] {
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
func replay(t *rapid.T, rate gcra.Rate, steps []step, told func(s step, now int64, ask gcra.Ask)) {
	tat, now := gcra.Empty, today
	for _, s := range steps {
		now += s.elapsed
		ask := gcra.Ask{Rate: rate, TAT: tat, Quantity: s.quantity}
		for _, operation := range operations {
			if operation.name == s.operation {
				require.NoError(t, operation.ask(&ask, now, s.wait))
			}
		}
		told(s, now, ask)
		tat = ask.Decision.TAT
	}
}

// TestTurns: those who go ahead at their turns never exceed capacity + elapsed/T, first
// and last instant included, and nobody goes ahead before somebody who asked earlier.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := smallRates.Draw(t, "rate")
		type turn struct{ at, quantity int64 }
		var turns []turn
		replay(t, rate, histories("reserve", "peek").Draw(t, "history"), func(s step, now int64, ask gcra.Ask) {
			if s.operation == "reserve" && !ask.Decision.Limited && s.quantity > 0 {
				turns = append(turns, turn{now + ask.Decision.Wait, s.quantity})
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
		replay(t, rate, histories("reserve", "peek", "charge", "refund").Draw(t, "history"), func(s step, now int64, ask gcra.Ask) {
			level = max(0, level-(now-last))
			last = now
			increment := s.quantity * rate.EmissionInterval()
			switch {
			case s.operation == "refund":
				level = max(0, level-increment)
			case s.operation == "charge", s.operation == "reserve" && !ask.Decision.Limited:
				level += increment
			}
			require.Equal(t, level, ask.Decision.ResetAfter)
			if s.quantity == 0 {
				require.Equal(t, ask.TAT, ask.Decision.TAT, "nothing is written")
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

// TestDecideAll: all are poured or none, a funnel says what it says alone, and the
// others tell their state.
func TestDecideAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.OneOf(between(0, math.MaxInt64), between(today, today+second)).Draw(t, "now")
		asks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) gcra.Ask {
			n := calls.Draw(t, "funnel")
			rate, err := gcra.NewRate(n.capacity, n.count, n.period)
			require.NoError(t, err)
			return gcra.Ask{Rate: rate, TAT: n.tat, Quantity: n.quantity}
		}), 0, 4).Draw(t, "asks")

		failed, err := gcra.DecideAll(asks, now)

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
