package local_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/gcra/local"
)

// A Funnel is gcra.Decide and a stored TAT, on any clock.
func TestFunnelIsDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var clock fakeClock
		rate := rates.Draw(t, "rate")
		funnel, tat := local.NewFunnel(rate, clock.now), gcra.Empty
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			clock.advance(rapid.OneOf(waits, steps).Draw(t, "step"))
			quantity := quantities.Draw(t, "quantity")
			want, wantErr := rate.Decide(tat, clock.nanoseconds(), quantity)
			got, err := funnel.Take(quantity)
			require.Equal(t, wantErr, err)
			require.Equal(t, want, got)
			if err == nil {
				tat = want.TAT
			}
		}
	})
}

// Between reading the TAT and storing the new one, a call reads the clock; this clock
// makes another call then.
func TestTakingMeanwhileIsNotLost(t *testing.T) {
	var funnel *local.Funnel
	var meanwhile func()
	funnel = local.NewFunnel(mustRate(t, 1, 1, time.Second), func() time.Time {
		if take := meanwhile; take != nil {
			meanwhile = nil
			take()
		}
		return today
	})
	meanwhile = func() {
		decision, err := funnel.Take(1)
		require.NoError(t, err)
		require.False(t, decision.Limited)
	}
	decision, err := funnel.Take(1)
	require.NoError(t, err)
	require.True(t, decision.Limited, "the other call took the only token")
	require.Nil(t, meanwhile, "the clock was read")
}
