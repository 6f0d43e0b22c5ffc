package gcra_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
)

func TestRoundedUp(t *testing.T) {
	for _, c := range []struct{ nanoseconds, seconds, milliseconds int64 }{
		{0, 0, 0},
		{1, 1, 1},
		{1e6, 1, 1},
		{1e6 + 1, 1, 2},
		{second, 1, 1000},
		{second + 1, 2, 1001},
		{today + 1, 1_800_000_001, 1_800_000_000_001},
		{math.MaxInt64, 9_223_372_037, 9_223_372_036_855},
	} {
		require.Equal(t, c.seconds, gcra.Seconds(c.nanoseconds), c.nanoseconds)
		require.Equal(t, c.milliseconds, gcra.Milliseconds(c.nanoseconds), c.nanoseconds)
	}
	for _, none := range []int64{gcra.Never, -2 * second, math.MinInt64} {
		require.EqualValues(t, -1, gcra.Seconds(none))
	}
}
