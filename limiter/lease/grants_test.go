// Callers take each token once, from the oldest grant that holds enough, until the grant ends.

package lease

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// twoGrants returns 2 tokens until 5, with the receipt 1000, and 3 tokens until 9, with the receipt
// 2000. A token leaks in 10.
func twoGrants() grants {
	g := grants{interval: 10}
	g = g.with(2, 1000, 0, 5)
	return g.with(3, 2000, 5, 9)
}

func TestTokensAreTakenFromTheOldestGrantThatHoldsEnough(t *testing.T) {
	g := twoGrants()
	for _, call := range []struct {
		at       time.Duration
		quantity int
		receipt  int64 // 0: none are taken
		why      string
	}{
		{5, 1, 990, "one of the older grant, with one left behind it"},
		{5, 2, 1990, "the older grant holds one only"},
		{5, 2, 0, "each grant holds one"},
		{5, 1, 1000, "the last of the older grant"},
		{10, 1, 0, "both have ended"},
		{9, 1, 2000, "the last instant of the younger grant"},
		{9, 1, 0, "both are used up"},
	} {
		receipt, taken := g.take(call.at, call.quantity)
		require.Equal(t, call.receipt, receipt, "%d at %d: %s", call.quantity, call.at, call.why)
		require.Equal(t, call.receipt > 0, taken)
	}
}

func TestGrantsEnd(t *testing.T) {
	g := twoGrants()
	for at, want := range map[time.Duration]int{0: 5, 5: 5, 6: 3, 9: 3, 10: 0} {
		require.Equal(t, want, g.ahead(at), "at %d", at)
	}
	require.Len(t, g.all, 2)
	g.take(0, 2)
	g = g.with(1, 3000, 9, 20)
	require.Len(t, g.all, 2, "a grant that is used up is left out")
	g = g.with(1, 4000, 10, 20)
	require.Len(t, g.all, 2, "and one that has ended")

	huge := grants{interval: 1}
	huge = huge.with(math.MaxInt, 1, 0, 1)
	huge = huge.with(math.MaxInt, 1, 0, 1)
	require.Equal(t, math.MaxInt, huge.ahead(0))
}

func TestRefillIsDue(t *testing.T) {
	g := twoGrants()
	r := refill{from: 2, early: 2, tokens: 4}
	require.False(t, r.isDue(3, &g), "5 tokens are left at 5")
	require.True(t, r.isDue(4, &g), "3 tokens are left at 6")
	r.from = 5
	require.False(t, r.isDue(4, &g), "it is too early to ask again")
	require.False(t, (&refill{}).isDue(10, &g), "the zero refill never asks")
}
