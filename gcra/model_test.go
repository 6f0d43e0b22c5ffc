package gcra_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"funnel/gcra"
)

// model answers a call from the formulas of the contract, written out line by
// line in integers that never overflow. What does not fit 63 bits is found by
// looking at the result, not by watching the steps.
func model(capacity, count, period, tat, now, quantity int64) (gcra.Decision, error) {
	switch {
	case capacity < 1:
		return gcra.Decision{}, gcra.ErrCapacity
	case count < 1:
		return gcra.Decision{}, gcra.ErrCount
	case period < 1:
		return gcra.Decision{}, gcra.ErrPeriod
	}
	limit := big.NewInt(capacity)

	T := new(big.Int).Quo(big.NewInt(period), big.NewInt(count))
	if T.Sign() == 0 {
		return gcra.Decision{}, gcra.ErrEmissionInterval
	}
	tau := new(big.Int).Mul(T, limit)
	if !tau.IsInt64() {
		return gcra.Decision{}, gcra.ErrTolerance
	}
	if quantity < 0 {
		return gcra.Decision{}, gcra.ErrQuantity
	}
	increment := new(big.Int).Mul(T, big.NewInt(quantity))
	if !increment.IsInt64() {
		return gcra.Decision{}, gcra.ErrIncrement
	}

	instant, stored := big.NewInt(now), big.NewInt(tat)
	if instant.Sign() < 0 {
		instant.SetInt64(0)
	}
	if stored.Sign() < 0 {
		stored.SetInt64(0)
	}

	newTAT := new(big.Int).Set(stored)
	if instant.Cmp(stored) > 0 {
		newTAT.Set(instant)
	}
	newTAT.Add(newTAT, increment)
	wait := new(big.Int).Sub(newTAT, tau)
	wait.Sub(wait, instant)

	limited := wait.Sign() > 0
	retryAfter := big.NewInt(-1)
	level := new(big.Int)
	kept := stored
	if limited {
		if increment.Cmp(tau) <= 0 {
			retryAfter = wait
		}
		if level.Sub(stored, instant).Sign() < 0 {
			level.SetInt64(0)
		}
	} else {
		level.Sub(newTAT, instant)
		if quantity > 0 {
			kept = newTAT
		}
	}
	if !kept.IsInt64() {
		return gcra.Decision{}, gcra.ErrTAT
	}

	remaining := new(big.Int)
	if remaining.Sub(tau, level).Sign() < 0 {
		remaining.SetInt64(0)
	}
	remaining.Quo(remaining, T)

	for _, number := range []*big.Int{remaining, retryAfter, level} {
		if !number.IsInt64() {
			panic("the model's reply does not fit 63 bits: " + number.String())
		}
	}
	return gcra.Decision{
		Limited:    limited,
		Limit:      capacity,
		Remaining:  remaining.Int64(),
		RetryAfter: retryAfter.Int64(),
		ResetAfter: level.Int64(),
		TAT:        kept.Int64(),
	}, nil
}

// answer is what the package makes of the model's arguments.
func answer(capacity, count, period, tat, now, quantity int64) (gcra.Decision, error) {
	rate, err := gcra.NewRate(capacity, count, period)
	if err != nil {
		return gcra.Decision{}, err
	}
	return rate.Decide(tat, now, quantity)
}

// A fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

// agree compares the package with the model and returns what both answered.
func agree(t fataler, capacity, count, period, tat, now, quantity int64) (gcra.Decision, error) {
	t.Helper()
	got, gotErr := answer(capacity, count, period, tat, now, quantity)
	want, wantErr := model(capacity, count, period, tat, now, quantity)
	if got != want || gotErr != wantErr {
		t.Fatalf("capacity %d, count %d, period %d, TAT %d, now %d, quantity %d:\ngot  %+v, %v\nwant %+v, %v",
			capacity, count, period, tat, now, quantity, got, gotErr, want, wantErr)
	}
	return got, gotErr
}

func TestModelAtRandom(t *testing.T) {
	// Reaches below 0 too: what is no valid argument has an answer as well.
	anything := between(-10, math.MaxInt64)
	rapid.Check(t, func(t *rapid.T) {
		agree(t,
			anything.Draw(t, "capacity"), anything.Draw(t, "count"), anything.Draw(t, "period"),
			anything.Draw(t, "tat"), anything.Draw(t, "now"), anything.Draw(t, "quantity"))
	})
}

// The extremes seldom meet by chance in a valid rate, so valid calls get a test
// of their own.
func TestModelAtRandomValidCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.Draw(t, "call")
		agree(t, c.capacity, c.count, c.period, c.tat, c.now, c.quantity)
	})
}

func TestModelAtEveryEdge(t *testing.T) {
	var (
		edges   = []int64{1, 2, 15, 1 << 31, 1 << 53, 1 << 62, math.MaxInt64}
		periods = []int64{1, 15, 1 << 31, 1 << 53, 1 << 62, math.MaxInt64,
			1 * second, 60 * second, (1 << 31) * second, math.MaxInt64 / second * second}
		quantities = append([]int64{0}, edges...)
		instants   = []int64{0, 1, today, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	)

	// near are the instants around the sum of the terms, where the sum and
	// its neighbours are instants at all.
	near := func(sum *big.Int, to map[int64]bool) {
		for step := int64(-1); step <= 1; step++ {
			instant := new(big.Int).Add(sum, big.NewInt(step))
			if instant.IsInt64() && instant.Sign() >= 0 {
				to[instant.Int64()] = true
			}
		}
	}
	// stored are the TATs at which an answer can turn.
	stored := func(now, emissionInterval, capacity, quantity int64) map[int64]bool {
		instants := map[int64]bool{gcra.Empty: true, 1 << 62: true, math.MaxInt64: true}
		start, one := big.NewInt(now), big.NewInt(emissionInterval)
		tolerance := new(big.Int).Mul(one, big.NewInt(capacity))
		increment := new(big.Int).Mul(one, big.NewInt(quantity))
		full := new(big.Int).Add(start, tolerance)
		near(start, instants)
		near(new(big.Int).Add(start, one), instants)
		near(full, instants)
		near(new(big.Int).Sub(full, increment), instants)
		near(new(big.Int).Sub(big.NewInt(math.MaxInt64), increment), instants)
		return instants
	}

	// Agreement alone could be agreement on one answer only.
	met := map[string]int{}
	count := func(decision gcra.Decision, err error) {
		switch {
		case err != nil:
			met[err.Error()]++
		case !decision.Limited:
			met["allowed"]++
		case decision.RetryAfter == gcra.NoRetry:
			met["limited for ever"]++
		default:
			met["limited"]++
		}
	}
	for _, capacity := range edges {
		for _, leak := range edges {
			for _, period := range periods {
				rate, err := gcra.NewRate(capacity, leak, period)
				if err != nil {
					count(agree(t, capacity, leak, period, 0, 0, 1))
					continue
				}
				for _, quantity := range slices.Concat(quantities, []int64{capacity - 1, plus(capacity, 1)}) {
					for _, now := range instants {
						for tat := range stored(now, rate.EmissionInterval(), capacity, quantity) {
							count(agree(t, capacity, leak, period, tat, now, quantity))
						}
					}
				}
			}
		}
	}
	for _, outcome := range []string{
		"allowed", "limited", "limited for ever",
		gcra.ErrEmissionInterval.Error(), gcra.ErrTolerance.Error(),
		gcra.ErrIncrement.Error(), gcra.ErrTAT.Error(),
	} {
		if met[outcome] < 10 {
			t.Errorf("the edges met %q %d times only", outcome, met[outcome])
		}
	}
}
