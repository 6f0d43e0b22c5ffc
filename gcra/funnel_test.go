// Every operation decides as package contract says, for all numbers of 64 bits, drawn where the answer changes.
// The stories of test/command keep the contract honest: they are worked out by hand. Callers who go ahead when
// they are told keep the bound.

package gcra_test

import (
	"flag"
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
	name  string
	apply func(f *gcra.Funnel, now, maxWait, receipt int64) error
}

var operations = []operation{
	{"reserve", func(f *gcra.Funnel, now, maxWait, _ int64) error { return f.Reserve(now, maxWait) }},
	{"take", func(f *gcra.Funnel, now, _, _ int64) error { return f.Take(now) }},
	{"peek", func(f *gcra.Funnel, now, _, _ int64) error { return f.Peek(now) }},
	{"charge", func(f *gcra.Funnel, now, _, _ int64) error { return f.Charge(now) }},
	{"refund", func(f *gcra.Funnel, now, _, receipt int64) error { f.Refund(now, receipt); return nil }},
}

// ask makes a call of a funnel whose Decision holds numbers of an earlier call.
func (o operation) ask(rate gcra.Rate, tat, now, quantity, maxWait, receipt int64) (d gcra.Decision, taken int64, err error) {
	request, err := rate.Request(quantity)
	if increment, _ := rate.Increment(quantity); err != nil && (increment != 0 || request != gcra.Request{}) {
		panic("a number beside an error")
	}
	if o.name == "take" {
		request, err = rate.RequestUpTo(quantity)
	}
	if err != nil {
		return gcra.Decision{}, 0, err
	}
	funnel := gcra.Funnel{Request: request, TAT: tat, Decision: gcra.Decision{Limited: true, Wait: 77, TAT: 77}}
	if err = o.apply(&funnel, now, maxWait, receipt); err != nil {
		return gcra.Decision{}, 0, err
	}
	return funnel.Decision, funnel.Taken, nil
}

// contract is what the contract makes of a call. The contract has no numbers below 0; the
// package documents what they mean.
func (o operation) contract(n numbers) (decision gcra.Decision, taken int64, err error) {
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
		var d contract.Decision
		var tat int64
		d, tat, taken, failure = funnel.Decide(o.name, big.NewInt(max(n.tat, 0)), big.NewInt(max(n.now, 0)),
			big.NewInt(max(n.maxWait, 0)), big.NewInt(max(n.receipt, 0)))
		decision = gcra.Decision{Limited: d.Limited, Limit: d.Limit, Remaining: d.Remaining, Wait: d.Wait,
			ResetAfter: d.ResetAfter, TAT: tat}
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
	if got != want || taken != wantTaken || err != wantErr {
		require.FailNow(t, "package and contract differ", "%s of %+v:\ngot  %+v, %d, %v\nwant %+v, %d, %v",
			o.name, n, got, taken, err, want, wantTaken, wantErr)
	}
	return got, err
}

// drawMaxWaitAndReceipt generates the max wait and the receipt of a call, gathered where the answer changes.
func drawMaxWaitAndReceipt(t *rapid.T, n numbers) numbers {
	rate, _ := gcra.NewRate(n.capacity, n.count, n.period)
	decision, _, _ := operations[0].ask(rate, n.tat, n.now, n.quantity, 0, 0)
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
				_, _ = operation.agree(t, numbers{anything.Draw(t, "capacity"), anything.Draw(t, "count"),
					anything.Draw(t, "period"), anything.Draw(t, "tat"), anything.Draw(t, "now"), anything.Draw(t, "quantity"),
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
