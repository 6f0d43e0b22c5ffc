package gcra_test

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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

// named says that the error is the contract's. The command replies it behind "ERR ".
func named(err error, failure contract.Error) bool {
	if err == nil || failure == "" {
		return err == nil && failure == ""
	}
	return strings.HasPrefix("ERR "+err.Error(), string(failure))
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
							met[outcomeOf(operations[0].agree(t, n, 0))]++
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
	case decision.RetryAfter() == gcra.Never:
		return contract.Never
	}
	return contract.Limited
}
