package local_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra/local"
)

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
