package model_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// When the clock of the machine steps, now steps and the stored TATs stay.
// These tests step the clock of the module. The clock by which the server expires
// keys goes on: where that matters, it is the instant after the step.

// TestTheClockIsThatOfTheMachine, to the nanosecond: the instant of a call lies between
// what the clock says before and after.
func TestTheClockIsThatOfTheMachine(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	for range 100 {
		before := time.Now().UnixNano()
		servertest.Throttle(t, client, "key", 1, 1, 60)
		after := time.Now().UnixNano()
		tat, err := client.GetDel(ctx, "key").Int64()
		require.NoError(t, err)
		require.LessOrEqual(t, before, tat-60e9)
		require.LessOrEqual(t, tat-60e9, after)
	}
}

// TestClockThatSteps: after a step back a funnel is fuller by what leaks in the time that
// passes twice, and after a step forward it has drained early.
func TestClockThatSteps(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	const back, caughtUp = -time.Hour, -time.Hour + 3582*time.Second
	for _, c := range []struct {
		now      time.Duration // since Epoch
		key      string
		quantity int
		want     servertest.Reply
		why      string
	}{
		{0, "key", 5, servertest.Reply{0, 15, 10, -1, 10}, "a third is full"},
		{back, "key", 1, servertest.Reply{1, 15, 0, 3600 + 10 + 2 - 30, 3600 + 10}, "an hour back"},
		{back, "key", 0, servertest.Reply{1, 15, 0, 3600 + 10 - 30, 3600 + 10}, "peeks, too"},
		{back, "another key", 1, servertest.Reply{0, 15, 14, -1, 2}, "new funnels work as ever"},
		{caughtUp - 1, "key", 1, servertest.Reply{1, 15, 0, 1, 29}, "a nanosecond early"},
		{caughtUp, "key", 1, servertest.Reply{0, 15, 0, -1, 30}, "as announced"},
		{time.Minute, "key", 15, servertest.Reply{0, 15, 0, -1, 30}, "drained"},
		{time.Minute, "key", 1, servertest.Reply{1, 15, 0, 2, 30}, "full"},
		{time.Hour, "key", 1, servertest.Reply{0, 15, 14, -1, 2}, "an hour forward"},
		{0, "key", 1, servertest.Reply{1, 15, 0, 3600 + 2 + 2 - 30, 3600 + 2}, "and back again"},
	} {
		clock.Set(t, servertest.Epoch.Add(c.now))
		require.Equal(t, c.want, servertest.Throttle(t, client, c.key, 15, 30, 60, c.quantity), c.why)
	}
}

// TestKeysExpireByTheServersOwnClock: after a step back they stay until that
// clock has caught up; after a step forward those that have drained are gone.
func TestKeysExpireByTheServersOwnClock(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()

	clock.Set(t, time.Now().Add(time.Hour)) // the server's clock is an hour behind: it was stepped back
	servertest.Throttle(t, client, "stepped back", 15, 30, 60)
	ttl := client.PTTL(ctx, "stepped back").Val()
	require.Greater(t, ttl, 59*time.Minute)
	require.LessOrEqual(t, ttl, time.Hour+2*time.Second+time.Millisecond)

	clock.Set(t, time.Now().Add(-time.Hour)) // an hour ahead: it was stepped forward
	require.Equal(t, servertest.Reply{0, 15, 0, -1, 30}, servertest.Throttle(t, client, "stepped forward", 15, 30, 60, 15))
	require.Zero(t, client.Exists(ctx, "stepped forward").Val())
	require.Equal(t, servertest.Reply{0, 15, 14, -1, 2}, servertest.Throttle(t, client, "stepped forward", 15, 30, 60))
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
	servertest.Throttle(t, client, "key", 15, 30, 60)
	require.EqualValues(t, 1, client.Incr(ctx, "key").Val(), "the key was gone")
	require.NoError(t, client.Do(ctx, "debug", "loadaof").Err())
	require.Equal(t, "1", client.Get(ctx, "key").Val(), "the log says otherwise")
}
