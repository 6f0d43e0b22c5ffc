package gcra_test

import (
	"flag"
	"math"
	"math/big"
	"testing"

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

// around generates neighbours of the centre, cut off at low and high.
func around(centre, low, high int64) *rapid.Generator[int64] {
	return rapid.Map(rapid.Int64Range(-2, 2), func(step int64) int64 {
		return min(max(plus(centre, step), low), high)
	})
}

// plus adds and stops at the last instant, like a clock of 63 bits would.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// A call is everything that one decision depends on.
type call struct {
	rate                    gcra.Rate
	capacity, count, period int64
	tat, now, quantity      int64
}

// rates generates valid rates only, the largest and smallest among them: the
// emission interval first, then what still fits beside it.
var rates = rapid.Custom(func(t *rapid.T) call {
	emissionInterval := rapid.OneOf(
		between(1, math.MaxInt64),
		between(1, 100*second),
	).Draw(t, "emission interval")
	capacity := rapid.OneOf(
		between(1, math.MaxInt64/emissionInterval),
		between(1, min(20, math.MaxInt64/emissionInterval)),
	).Draw(t, "capacity")
	count := between(1, math.MaxInt64/emissionInterval).Draw(t, "count")
	least := emissionInterval * count
	period := between(least, plus(least, count-1)).Draw(t, "period")

	rate, err := gcra.NewRate(capacity, count, period)
	if err != nil || rate.EmissionInterval() != emissionInterval {
		t.Fatalf("NewRate(%d, %d, %d) = %+v, %v; want emission interval %d",
			capacity, count, period, rate, err, emissionInterval)
	}
	return call{rate: rate, capacity: capacity, count: count, period: period}
})

// calls generates calls on valid rates. Times and quantities gather where the
// answer changes.
var calls = rapid.Custom(func(t *rapid.T) call {
	c := rates.Draw(t, "rate")
	c.now = rapid.OneOf(
		between(0, math.MaxInt64),
		between(today, today+3600*second),
	).Draw(t, "now")
	c.quantity = rapid.OneOf(
		between(0, c.capacity),
		around(c.capacity, 0, math.MaxInt64),
		between(0, math.MaxInt64),
	).Draw(t, "quantity")
	full := plus(c.now, c.rate.Tolerance())
	instants := []*rapid.Generator[int64]{
		rapid.Just(gcra.Empty),
		around(c.now, 0, math.MaxInt64),
		around(full, 0, math.MaxInt64),
		between(c.now, full),
		between(0, math.MaxInt64),
	}
	if c.quantity <= c.capacity {
		increment := c.rate.EmissionInterval() * c.quantity
		instants = append(instants,
			around(full-increment, 0, math.MaxInt64),
			around(math.MaxInt64-increment, 0, math.MaxInt64))
	}
	c.tat = rapid.OneOf(instants...).Draw(t, "tat")
	return c
})

// decide makes the call for which an error is a possible answer.
func (c call) decide() (gcra.Decision, error) { return c.rate.Decide(c.tat, c.now, c.quantity) }

// at and asking are the same call at another instant or for another quantity.
func (c call) at(now int64) call          { c.now = now; return c }
func (c call) asking(quantity int64) call { c.quantity = quantity; return c }

// fits says that the tokens went into the funnel.
func (c call) fits() bool {
	decision, err := c.decide()
	return err == nil && !decision.Limited
}

// A pour is one allowed call in the history of a funnel.
type pour struct{ at, quantity int64 }

// In no stretch of time, from any allowed call to any later one, more tokens are
// allowed than capacity + elapsed/T.
func TestNeverMoreThanCapacityAndLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.Draw(t, "first call")
		emissionInterval, tolerance := c.rate.EmissionInterval(), c.rate.Tolerance()
		var history []pour
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			decision, err := c.decide()
			if err != nil {
				decision = gcra.Decision{TAT: c.tat}
			} else if !decision.Limited {
				history = append(history, pour{c.now, c.quantity})
			}
			c.tat = decision.TAT

			c.now = plus(c.now, rapid.OneOf(
				rapid.SampledFrom([]int64{0, 1, emissionInterval, max(0, decision.RetryAfter), decision.ResetAfter}),
				around(emissionInterval, 0, math.MaxInt64),
				between(0, tolerance),
				between(0, math.MaxInt64-c.now),
			).Draw(t, "wait"))
			c.quantity = rapid.OneOf(
				rapid.SampledFrom([]int64{1, decision.Remaining, plus(decision.Remaining, 1), c.capacity}),
				between(0, c.capacity),
			).Draw(t, "quantity")
		}

		for from := range history {
			through := new(big.Int)
			for to := from; to < len(history); to++ {
				through.Add(through, big.NewInt(history[to].quantity))
				elapsed := history[to].at - history[from].at
				allowed := new(big.Int).Add(big.NewInt(c.capacity), big.NewInt(elapsed/emissionInterval))
				if through.Cmp(allowed) > 0 {
					t.Fatalf("%v tokens in %d ns, want at most %v\n%+v", through, elapsed, allowed, history)
				}
			}
		}
	})
}

// The other half of the law above: a caller that takes what remains, and returns
// before the funnel is empty, gets no fewer tokens either.
func TestNeverLessThanCapacityAndLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rates.Filter(func(c call) bool { return c.capacity > 1 }).Draw(t, "rate")
		emissionInterval := c.rate.EmissionInterval()
		// Even after the longest wait the funnel is not empty, so it has leaked
		// all the time.
		longest := c.rate.Tolerance() - emissionInterval
		start := between(0, math.MaxInt64-c.rate.Tolerance()).Draw(t, "start")
		c.now, c.quantity = start, c.capacity
		through := new(big.Int)
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			decision, err := c.decide()
			if err == gcra.ErrTAT {
				return
			}
			if err != nil || decision.Limited {
				t.Fatalf("%d tokens should fit: %+v, %v", c.quantity, decision, err)
			}
			through.Add(through, big.NewInt(c.quantity))
			elapsed := c.now - start
			due := new(big.Int).Add(big.NewInt(c.capacity), big.NewInt(elapsed/emissionInterval))
			if through.Cmp(due) != 0 {
				t.Fatalf("%v tokens in %d ns, want %v", through, elapsed, due)
			}

			c.tat = decision.TAT
			c.now = plus(c.now, between(0, longest).Draw(t, "wait"))
			peek, err := c.asking(0).decide()
			if err != nil {
				t.Fatal(err)
			}
			c.quantity = peek.Remaining
		}
	})
}

// Waiting RetryAfter is enough, and a nanosecond less is not.
func TestRetryAfterIsExact(t *testing.T) {
	limited := calls.Filter(func(c call) bool {
		decision, err := c.decide()
		return err == nil && decision.Limited && decision.RetryAfter != gcra.NoRetry
	})
	rapid.Check(t, func(t *rapid.T) {
		c := limited.Draw(t, "limited call")
		decision, err := c.decide()
		if err != nil || decision.RetryAfter < 1 {
			t.Fatalf("no such wait: %+v, %v", decision, err)
		}
		// Behind the year 2262 lies ErrTAT, which is no "limited" either.
		if got, err := c.at(c.now + decision.RetryAfter).decide(); err != gcra.ErrTAT && (err != nil || got.Limited) {
			t.Fatalf("after %d ns still %+v, %v", decision.RetryAfter, got, err)
		}
		if got, err := c.at(c.now + decision.RetryAfter - 1).decide(); err != nil || !got.Limited || got.RetryAfter != 1 {
			t.Fatalf("a nanosecond before %d ns already %+v, %v", decision.RetryAfter, got, err)
		}
	})
}

// No wait is named where there is none: the call was allowed, or it asks for more
// than the funnel ever holds.
func TestNoRetryExactlyWhereWaitingIsNoUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.Draw(t, "call")
		decision, err := c.decide()
		if err != nil {
			return
		}
		noUse := !decision.Limited || c.quantity > c.capacity
		if (decision.RetryAfter == gcra.NoRetry) != noUse {
			t.Fatalf("%d of %d tokens: %+v", c.quantity, c.capacity, decision)
		}
	})
}

// What pours nothing changes nothing: limited calls, quantity 0 and errors.
func TestOnlyPouringChangesTheTAT(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.Draw(t, "call")
		decision, err := c.decide()
		poured := err == nil && !decision.Limited && c.quantity > 0
		switch {
		case err != nil && decision != gcra.Decision{}:
			t.Fatalf("%v, and yet %+v", err, decision)
		case err == nil && !poured && decision.TAT != c.tat:
			t.Fatalf("nothing poured, but TAT moved from %d to %d", c.tat, decision.TAT)
		case poured && decision.TAT <= max(c.now, c.tat):
			t.Fatalf("%d poured, but TAT went from %d to %d", c.quantity, c.tat, decision.TAT)
		}
	})
}

// A quantity fits at once exactly when its parts fit one after the other at the
// same instant, and both ways end at the same TAT.
func TestPartsEqualTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.Draw(t, "call")
		whole, err := c.decide()
		wholeFits := err == nil && !whole.Limited

		partsFit, part, rest := true, c, c.quantity
		var last gcra.Decision
		for more := rapid.IntRange(1, 6).Draw(t, "parts") - 1; more >= 0 && partsFit; more-- {
			part.quantity = rest
			if more > 0 {
				part.quantity = between(0, rest).Draw(t, "part")
			}
			rest -= part.quantity
			last, err = part.decide()
			partsFit = err == nil && !last.Limited
			part.tat = last.TAT
		}

		if partsFit != wholeFits {
			t.Fatalf("whole fits: %t, parts fit: %t", wholeFits, partsFit)
		}
		if partsFit && last != whole {
			t.Fatalf("the parts end at %+v, the whole at %+v", last, whole)
		}
	})
}

func TestRemainingFitsAndNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.Draw(t, "call")
		decision, err := c.decide()
		if err != nil {
			return
		}
		if decision.Remaining < 0 || decision.Remaining > decision.Limit || decision.Limit != c.capacity {
			t.Fatalf("remaining %d of %d", decision.Remaining, decision.Limit)
		}
		c.tat = decision.TAT
		if decision.Remaining > 0 {
			if got, err := c.asking(decision.Remaining).decide(); err != gcra.ErrTAT && (err != nil || got.Limited) {
				t.Fatalf("%d remaining, but %+v, %v", decision.Remaining, got, err)
			}
		}
		if decision.Remaining < math.MaxInt64 && c.asking(decision.Remaining+1).fits() {
			t.Fatalf("%d remaining, but %d fit", decision.Remaining, decision.Remaining+1)
		}
	})
}

func TestWaitingNeverHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.Filter(call.fits).Draw(t, "allowed call")
		later := c.at(between(c.now, math.MaxInt64).Draw(t, "later"))
		if got, err := later.decide(); err != gcra.ErrTAT && (err != nil || got.Limited) {
			t.Fatalf("allowed at %d, but at %d %+v, %v", c.now, later.now, got, err)
		}
	})
}

func TestAskingForMoreNeverHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.Filter(func(c call) bool { return !c.fits() }).Draw(t, "call that is not allowed")
		more := c.asking(between(c.quantity, math.MaxInt64).Draw(t, "more"))
		if more.fits() {
			t.Fatalf("%d tokens do not fit, but %d do", c.quantity, more.quantity)
		}
	})
}

// After ResetAfter the funnel is empty, and not a nanosecond before.
func TestResetAfterIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.Draw(t, "call")
		decision, err := c.decide()
		if err != nil {
			return
		}
		if decision.ResetAfter < 0 {
			t.Fatalf("reset after %d", decision.ResetAfter)
		}
		c.tat = decision.TAT
		empty, err := c.asking(0).at(c.now + decision.ResetAfter).decide()
		if err != nil || empty.Remaining != empty.Limit || empty.ResetAfter != 0 {
			t.Fatalf("after %d ns not empty: %+v, %v", decision.ResetAfter, empty, err)
		}
		if decision.ResetAfter == 0 {
			return
		}
		wet, err := c.asking(0).at(c.now + decision.ResetAfter - 1).decide()
		if err != nil || wet.Remaining >= wet.Limit || wet.ResetAfter != 1 {
			t.Fatalf("a nanosecond before %d ns empty already: %+v, %v", decision.ResetAfter, wet, err)
		}
	})
}

// Rounding up means: long enough, and no whole unit too long.
func TestRoundedUpIsLongEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nanoseconds := between(0, math.MaxInt64).Draw(t, "nanoseconds")
		for _, unit := range []struct {
			name    string
			size    int64
			rounded int64
		}{
			{"seconds", 1e9, gcra.Seconds(nanoseconds)},
			{"milliseconds", 1e6, gcra.Milliseconds(nanoseconds)},
		} {
			excess := new(big.Int).Mul(big.NewInt(unit.rounded), big.NewInt(unit.size))
			excess.Sub(excess, big.NewInt(nanoseconds))
			if excess.Sign() < 0 || excess.Cmp(big.NewInt(unit.size)) >= 0 {
				t.Fatalf("%d ns became %d %s", nanoseconds, unit.rounded, unit.name)
			}
		}
	})
}
