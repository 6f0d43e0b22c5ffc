// The module reads the machine's clock, to the nanosecond, and the server expires keys by its own.
// The stories of test/command say what it means for calls when the machine's clock steps.

package model_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestTheClockIsThatOfTheMachine, to the nanosecond: the instant of a call lies between
// what the clock says before and after.
func TestTheClockIsThatOfTheMachine(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	for range 100 {
		before := time.Now().UnixNano()
		servertest.Call(t, client, "cl.throttle key 1 1 60")
		after := time.Now().UnixNano()
		tat, err := client.GetDel(ctx, "key").Int64()
		require.NoError(t, err)
		require.LessOrEqual(t, before, tat-60e9)
		require.LessOrEqual(t, tat-60e9, after)
	}
}

// TestFunnelsThatHaveExpiredWhenTheyAreStoredAreLoggedInOrder: a clock that steps
// back at the moment of a call fills a funnel that the server, by the time at
// which the call began, deletes at once. Its log and its replicas learn of it in
// that order; else they would keep a key that it has not.
func TestFunnelsThatHaveExpiredWhenTheyAreStoredAreLoggedInOrder(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "no"},
	})
	client := server.Client(t)
	ctx := context.Background()
	servertest.ClockOf(client).Set(t, time.Now().Add(-time.Hour))
	servertest.Call(t, client, "cl.throttle key 15 30 60")
	require.EqualValues(t, 1, client.Incr(ctx, "key").Val(), "the key was gone")
	require.NoError(t, client.Do(ctx, "debug", "loadaof").Err())
	require.Equal(t, "1", client.Get(ctx, "key").Val(), "the log says otherwise")
}
