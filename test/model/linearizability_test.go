package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestCallsAreLinearizable while clients set the clock.
func TestCallsAreLinearizable(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t), ModuleArguments: servertest.AllCommands})
	history := newHistory()
	history.record(0, startOfTime(), onServer(server.Client(t), 0))
	history.work(servertest.QuickOrLong(400, 4000), onFunnelsAndClock, func() func(operation) result {
		return onServer(server.Client(t), 0)
	})
	require.Zero(t, history.outcomes()["unknown"])
	history.requireLinearizable(t)
}
