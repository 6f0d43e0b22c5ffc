package gcra_test

import (
	"flag"
	"math"
	"math/big"
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

// at, asking and from are the same call at another instant, for another quantity, and on
// a funnel with another TAT.
func (n numbers) at(now int64) numbers          { n.now = now; return n }
func (n numbers) asking(quantity int64) numbers { n.quantity = quantity; return n }
func (n numbers) from(tat int64) numbers        { n.tat = tat; return n }

func (n numbers) interval() int64 { return n.period / n.count }

// TestNeverLessThanCapacityAndLeak is the other half of what TestTurns says: a caller that
// takes what remains, and returns before the funnel is empty, gets no fewer tokens either.
func TestNeverLessThanCapacityAndLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := calls.Filter(func(n numbers) bool { return n.capacity > 1 }).Draw(t, "rate").from(gcra.Empty)
		tolerance := n.interval() * n.capacity
		start := between(0, math.MaxInt64-tolerance).Draw(t, "start")
		n = n.at(start).asking(n.capacity)
		through := new(big.Int)
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			decision, err := n.decide()
			if err == gcra.ErrTAT {
				return
			}
			require.NoError(t, err)
			require.False(t, decision.Limited)
			through.Add(through, big.NewInt(n.quantity))
			require.Equal(t, n.due(n.now-start).String(), through.String())

			// Even after the longest wait the funnel is not empty, so it leaks all the time.
			wait := between(0, tolerance-n.interval()).Draw(t, "wait")
			n = n.from(decision.TAT).at(plus(n.now, wait))
			peek, err := n.asking(0).decide()
			require.NoError(t, err)
			n.quantity = peek.Remaining
		}
	})
}

// due is how many tokens a funnel allows in a stretch of time.
func (n numbers) due(elapsed int64) *big.Int {
	return new(big.Int).Add(big.NewInt(n.capacity), big.NewInt(elapsed/n.interval()))
}
