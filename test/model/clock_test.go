package model_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// When the clock of the machine steps, now steps and the stored TATs stay: the stories of
// test/command say what that means for calls. Here it is about the server, by whose clock
// keys expire. These tests step the clock of the module, and the server's goes on: it is the
// instant after the step.

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

// TestKeysExpireByTheServersOwnClock: after a step back they stay until that
// clock has caught up; after a step forward those that have drained are gone.
func TestKeysExpireByTheServersOwnClock(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()

	clock.Set(t, time.Now().Add(time.Hour)) // the server's clock is an hour behind: it was stepped back
	servertest.Call(t, client, "cl.throttle back 15 30 60")
	ttl := client.PTTL(ctx, "back").Val()
	require.Greater(t, ttl, 59*time.Minute)
	require.LessOrEqual(t, ttl, time.Hour+2*time.Second+time.Millisecond)

	clock.Set(t, time.Now().Add(-time.Hour)) // an hour ahead: it was stepped forward
	require.Equal(t, "0 15 0 -1 30", servertest.Call(t, client, "cl.throttle forward 15 30 60 15"))
	require.Zero(t, client.Exists(ctx, "forward").Val())
	require.Equal(t, "0 15 14 -1 2", servertest.Call(t, client, "cl.throttle forward 15 30 60"))
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
