package gcra_test

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/internal/contract"
)

// Numbers are all that a call depends on.
type numbers struct{ capacity, count, period, tat, now, quantity int64 }

// decide is what the package makes of a call.
func (n numbers) decide() (gcra.Decision, error) {
	rate, err := gcra.NewRate(n.capacity, n.count, n.period)
	if err != nil {
		return gcra.Decision{}, err
	}
	return rate.Decide(n.tat, n.now, n.quantity)
}

// model is what the contract makes of it. The contract has no numbers below 0; the
// package documents what they mean.
func (n numbers) model() (contract.Decision, contract.Error) {
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
	return funnel.Decide(big.NewInt(max(n.tat, 0)), big.NewInt(max(n.now, 0)))
}

// agree compares the package with the contract and returns what both answered. It costs
// no more than that: it runs a million times.
func (n numbers) agree(t require.TestingT) (gcra.Decision, error) {
	got, err := n.decide()
	want, failure := n.model()
	if got != gcra.Decision(want) || !named(err, failure) {
		require.FailNow(t, "package and contract differ", "%+v:\ngot  %+v, %v\nwant %+v, %v", n, got, err, want, failure)
	}
	return got, err
}

// named says that the error is the contract's. The command replies it behind "ERR ".
func named(err error, failure contract.Error) bool {
	if err == nil || failure == "" {
		return err == nil && failure == ""
	}
	return strings.HasPrefix("ERR "+err.Error(), string(failure))
}

// TestContractAtRandom takes any numbers, some of them below 0, and calls on rates that
// are valid: the extremes seldom meet in one of those by chance.
func TestContractAtRandom(t *testing.T) {
	anything := between(-10, math.MaxInt64)
	rapid.Check(t, func(t *rapid.T) {
		numbers{anything.Draw(t, "capacity"), anything.Draw(t, "count"), anything.Draw(t, "period"),
			anything.Draw(t, "tat"), anything.Draw(t, "now"), anything.Draw(t, "quantity")}.agree(t)
	})
	rapid.Check(t, func(t *rapid.T) { calls.Draw(t, "call").agree(t) })
}

// FuzzDecide takes any six numbers.
func FuzzDecide(f *testing.F) {
	const least, most = math.MinInt64, math.MaxInt64
	for _, n := range []numbers{
		{15, 30, 60 * second, gcra.Empty, today, 1},
		{10, 3, 10 * second, today + 1, today, 10},
		{1, 1, most, most, most - 1, 1},
		{most, 1, 1, gcra.Empty, 1, most},
		{1 << 31, 1, 1 << 32, 0, 0, 1},
		{1, 1, 1<<32 + 1, 0, 0, 1 << 32},
		{1, 2, 1, 0, 0, 1},
		{1, 1, 1, least, least, least},
		{least, least, least, 0, 0, 0},
	} {
		f.Add(n.capacity, n.count, n.period, n.tat, n.now, n.quantity)
	}
	f.Fuzz(func(t *testing.T, capacity, count, period, tat, now, quantity int64) {
		numbers{capacity, count, period, tat, now, quantity}.agree(t)
	})
}

// TestContractAtEveryEdge combines the numbers at which an answer can turn, and meets
// every answer.
func TestContractAtEveryEdge(t *testing.T) {
	var (
		edges   = []int64{1, 2, 15, 1 << 31, 1 << 53, 1 << 62, math.MaxInt64}
		periods = append([]int64{second, 60 * second, math.MaxInt64 / second * second}, edges...)
		nows    = []int64{-1, 0, 1, today, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
		met     = map[string]int{}
	)
	for _, capacity := range edges {
		for _, count := range edges {
			for _, period := range periods {
				for _, quantity := range slices.Concat([]int64{-1, 0, capacity - 1, plus(capacity, 1)}, edges) {
					for _, now := range nows {
						n := numbers{capacity, count, period, 0, now, quantity}
						for _, tat := range n.turns() {
							n.tat = tat
							met[outcomeOf(n.agree(t))]++
						}
					}
				}
			}
		}
	}
	for _, outcome := range []string{
		contract.Allowed, contract.Limited, contract.Never, gcra.ErrQuantity.Error(), gcra.ErrEmissionInterval.Error(),
		gcra.ErrTolerance.Error(), gcra.ErrIncrement.Error(), gcra.ErrTAT.Error(),
	} {
		require.Greater(t, met[outcome], 10, outcome)
	}
}

// turns are the TATs at which the answer to a call can turn: where a funnel is empty, has
// room for the call, or is full, and where 63 bits end.
func (n numbers) turns() []int64 {
	instants := []int64{gcra.Empty}
	rate, err := gcra.NewRate(n.capacity, n.count, n.period)
	if err != nil {
		return instants
	}
	increment, _ := rate.Increment(max(n.quantity, 0))
	full := new(big.Int).Add(big.NewInt(n.now), big.NewInt(rate.Tolerance()))
	for _, turn := range []*big.Int{
		big.NewInt(0),
		big.NewInt(n.now),
		big.NewInt(plus(n.now, rate.EmissionInterval())),
		full,
		new(big.Int).Sub(full, big.NewInt(increment)),
		big.NewInt(math.MaxInt64 - increment),
		big.NewInt(math.MaxInt64),
	} {
		for step := int64(-1); step <= 1; step++ {
			if instant := new(big.Int).Add(turn, big.NewInt(step)); instant.IsInt64() {
				instants = append(instants, instant.Int64())
			}
		}
	}
	return instants
}

func outcomeOf(decision gcra.Decision, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case !decision.Limited:
		return contract.Allowed
	case decision.RetryAfter == gcra.NoRetry:
		return contract.Never
	}
	return contract.Limited
}
