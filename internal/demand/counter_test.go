// A counter counts the tokens of this window and of the last.

package demand_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/demand"
)

func TestCounter(t *testing.T) {
	var c demand.Counter
	require.Zero(t, c.Tokens())
	for _, call := range []struct {
		at       time.Duration
		quantity int
		tokens   int
	}{
		{1, 3, 3},
		{9, 4, 7},
		{10, 2, 7},  // a window begins, and the last one has more
		{19, 6, 8},  // this one has more
		{20, 1, 8},  // the last one had 8
		{29, 1, 8},  // without the 7 of the one before
		{30, 1, 2},  // the last one had 2
		{40, 5, 5},  // no call within the span: the last one does not count
		{95, 1, 1},  // a window begins with a call
		{104, 2, 3}, // it lasts from there
		{105, 1, 3},
	} {
		c.Add(call.at, 10, call.quantity)
		require.Equal(t, call.tokens, c.Tokens(), call.at)
		require.Equal(t, call.at, c.LastCall())
	}
}
