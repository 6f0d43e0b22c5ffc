// Every operation decides as package contract says, for all numbers of 64 bits. The stories of test/command
// keep the contract honest: they are worked out by hand.

package gcra_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/internal/contract"
)

const (
	second = int64(1e9)

	// today is an instant in 2026, far from 0 and far from the year 2262.
	today = 1_800_000_000 * second
)

// Numbers are all that a call depends on.
type numbers struct{ capacity, count, period, tat, now, quantity, maxWait, receipt int64 }

// An operation is one of the package, with its name in the contract.
type operation struct {
	gcra.Operation
	name string
}

var operations = []operation{{gcra.Reserve, "reserve"}, {gcra.Take, "take"}, {gcra.Peek, "peek"}, {gcra.Charge, "charge"}, {gcra.Refund, "refund"}}

// ask makes the operation.
func (o operation) ask(rate gcra.Rate, tat, now, quantity, maxWait, receipt int64) (decision gcra.Decision, taken int64, err error) {
	request, err := rate.Request(quantity)
	if increment, _ := rate.Increment(quantity); err != nil && (increment != 0 || request != gcra.Request{}) {
		panic("a number beside an error")
	}
	if o.Operation == gcra.Take {
		request, err = rate.RequestUpTo(quantity)
	}
	if err != nil {
		return gcra.Decision{}, 0, err
	}
	items := []gcra.Item{{Request: request, TAT: tat, Decision: gcra.Decision{Wait: 77, TAT: 77}}}
	if _, err = o.Decide(items, now, maxWait, receipt); err != nil {
		return gcra.Decision{}, 0, err
	}
	return items[0].Decision, items[0].Taken, nil
}

// contract is what the contract makes of a call. The contract has no numbers below 0; the
// package documents what they mean.
func (o operation) contract(n numbers) (decision contract.Decision, taken int64, err error) {
	switch {
	case n.capacity < 1:
		return decision, 0, gcra.ErrCapacity
	case n.count < 1:
		return decision, 0, gcra.ErrCount
	case n.period < 1:
		return decision, 0, gcra.ErrPeriod
	}
	funnel, failure := contract.NewFunnel(o.name, "", big.NewInt(n.capacity), big.NewInt(n.count), big.NewInt(n.period),
		big.NewInt(max(n.quantity, 0)))
	switch {
	case failure != "":
	case n.quantity < 0:
		return decision, 0, gcra.ErrQuantity
	default:
		decision, taken, failure = funnel.Decide(o.name, big.NewInt(max(n.tat, 0)), big.NewInt(max(n.now, 0)),
			big.NewInt(max(n.maxWait, 0)), big.NewInt(max(n.receipt, 0)))
	}
	if failure != "" {
		err = gcra.Error(strings.TrimPrefix(string(failure), "ERR "))
	}
	return decision, taken, err
}

// agree compares an operation with the contract and returns what both answered. It costs
// no more than that: it runs a million times.
func (o operation) agree(t require.TestingT, n numbers) (got gcra.Decision, err error) {
	rate, err := gcra.NewRate(n.capacity, n.count, n.period)
	taken := int64(0)
	switch {
	case err == nil:
		got, taken, err = o.ask(rate, n.tat, n.now, n.quantity, n.maxWait, n.receipt)
	case rate != gcra.Rate{}:
		panic("a rate beside an error")
	}
	want, wantTaken, wantErr := o.contract(n)
	if got != gcra.Decision(want) || taken != wantTaken || err != wantErr {
		require.FailNow(t, "package and contract differ", "%s of %+v:\ngot  %+v, %d, %v\nwant %+v, %d, %v",
			o.name, n, got, taken, err, want, wantTaken, wantErr)
	}
	return got, err
}

// drawMaxWaitAndReceipt generates the max wait and the receipt of a call, gathered where the answer changes.
func drawMaxWaitAndReceipt(t *rapid.T, n numbers) numbers {
	rate, _ := gcra.NewRate(n.capacity, n.count, n.period)
	decision, _ := rate.Decide(n.tat, n.now, n.quantity)
	last := rapid.OneOf(rapid.Just(int64(0)), around(max(decision.Wait, 0)), around(n.now), around(n.tat),
		between(0, math.MaxInt64), rapid.Just(gcra.NoReceipt))
	n.maxWait, n.receipt = last.Draw(t, "max wait"), last.Draw(t, "receipt")
	return n
}

// TestOperationsAgreeWithTheContract in calls on rates that are valid, the extremes of which
// seldom meet by chance, and in any numbers, some of them below 0.
func TestOperationsAgreeWithTheContract(t *testing.T) {
	anything := between(-10, math.MaxInt64)
	for _, operation := range operations {
		t.Run(operation.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := calls.Draw(t, "call")
				_, _ = operation.agree(t, drawMaxWaitAndReceipt(t, n))
				_, _ = operation.agree(t, numbers{anything.Draw(t, "capacity"), anything.Draw(t, "count"), anything.Draw(t, "period"),
					anything.Draw(t, "tat"), anything.Draw(t, "now"), anything.Draw(t, "quantity"),
					anything.Draw(t, "max wait"), anything.Draw(t, "receipt")})
			})
		})
	}
}

// FuzzOperations takes any numbers, and all operations. It begins with products and sums at the ends of 63 bits.
func FuzzOperations(f *testing.F) {
	const least, most = math.MinInt64, math.MaxInt64
	for _, n := range []numbers{
		{1, 1, most, most, most - 1, 1, 0, 0},
		{most, 1, 1, gcra.Empty, 1, most, 0, 0},
		{1 << 31, 1, 1 << 32, 0, 0, 1, 0, 0},
		{1, 1, 1<<32 + 1, 0, 0, 1 << 32, 0, 0},
		{least, least, least, 0, 0, 0, 0, 0},
	} {
		for _, last := range []int64{least, 0, 5 * second, today + second, most} {
			f.Add(n.capacity, n.count, n.period, n.tat, n.now, n.quantity, last, last)
		}
	}
	f.Fuzz(func(t *testing.T, capacity, count, period, tat, now, quantity, maxWait, receipt int64) {
		for _, operation := range operations {
			_, _ = operation.agree(t, numbers{capacity, count, period, tat, now, quantity, maxWait, receipt})
		}
	})
}

func TestRequestOfTheZeroRate(t *testing.T) {
	for _, operation := range operations {
		_, _, err := operation.ask(gcra.Rate{}, 0, today, 1, 0, 0)
		require.ErrorIs(t, err, gcra.ErrCapacity, operation.name)
	}
}
