// A demand counts the tokens of this window and of the last one.

package lease

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDemand(t *testing.T) {
	const span = 10
	var d demand
	require.Zero(t, d.inSpan())
	for _, call := range []struct {
		at       time.Duration
		quantity int
		want     int // tokens in the span
		why      string
	}{
		{1, 3, 3, "the first window"},
		{9, 4, 7, "the same window"},
		{10, 2, 7, "a window begins, and the last one has more"},
		{19, 6, 8, "this one has more"},
		{20, 1, 8, "the last one had 8"},
		{29, 1, 8, "the 7 of the window before that are forgotten"},
		{30, 1, 2, "the last one had 2"},
		{40, 5, 5, "no call within the span: the last window does not count"},
		{95, 1, 1, "a window begins with a call"},
		{104, 2, 3, "and lasts from there"},
		{105, 1, 3, "the last one had 3"},
	} {
		d.add(call.at, span, call.quantity)
		require.Equal(t, call.want, d.inSpan(), "at %d: %s", call.at, call.why)
		require.EqualValues(t, call.at, d.lastCall.Load())
	}
}

func TestDemandDoesNotOverflow(t *testing.T) {
	var d demand
	for range 3 {
		d.add(0, 10, math.MaxInt-1)
		require.Positive(t, d.inSpan())
	}
}
