// Callers take each token once, from the oldest grant that holds enough, until the grant ends.

package grants_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/grants"
)

func TestGrants(t *testing.T) {
	g := grants.Grants{Interval: 10}
	g = g.With(2, 1000, 0, 5)
	g = g.With(3, 2000, 5, 9)
	for at, ahead := range map[time.Duration]int{0: 5, 5: 5, 6: 3, 9: 3, 10: 0} {
		require.Equal(t, ahead, g.Ahead(at), at)
	}
	for at, isLow := range []bool{3: false, 4: true, 5: true} { // 3 tokens last beyond 5
		require.Equal(t, isLow, g.IsLow(time.Duration(at), grants.Low{From: 2, Early: 2, Tokens: 4}), at)
	}
	require.False(t, g.IsLow(4, grants.Low{From: 5, Early: 2, Tokens: 4}))
	require.False(t, g.IsLow(10, grants.Low{}))
	for i, call := range []struct {
		at       time.Duration
		quantity int
		receipt  int64 // 0 where none are taken
	}{
		{5, 1, 990},
		{5, 2, 1990}, // the older grant holds one
		{5, 2, 0},
		{6, 2, 0},
		{5, 1, 1000},
		{10, 1, 0},
		{9, 1, 2000},
		{9, 1, 0},
	} {
		receipt, taken := g.Take(call.at, call.quantity)
		require.Equal(t, call.receipt, receipt, i)
		require.Equal(t, call.receipt > 0, taken, i)
	}
}

// Callers at the same time get different tokens, and all of them.
func TestNoTokenIsTakenTwice(t *testing.T) {
	const callers, each = 4, 5000
	g := grants.Grants{Interval: 1}
	g = g.With(callers*each, callers*each, 0, 0)
	var receipts sync.Map
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range each {
				receipt, taken := g.Take(0, 1)
				if _, others := receipts.LoadOrStore(receipt, true); others || !taken {
					t.Error("a token was taken twice, or not at all", receipt, taken)
				}
			}
		})
	}
	group.Wait()
	require.Zero(t, g.Ahead(0))
}
