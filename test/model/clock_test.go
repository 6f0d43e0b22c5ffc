package model_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// When the clock of the machine steps, now steps and the stored TATs stay.
// These tests step the clock of the module. The clock by which the server expires
// keys goes on: where that matters, it is the instant after the step.

// TestClockSteppedBackLimitsUntilItHasCaughtUp: a funnel is fuller by
// what leaks in the time that passes twice.
func TestClockSteppedBackLimitsUntilItHasCaughtUp(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	require.Equal(t, servertest.Reply{0, 15, 10, -1, 10}, servertest.Throttle(t, client, "key", 15, 30, 60, 5))
	before := client.Get(context.Background(), "key").Val()

	back := servertest.Epoch.Add(-time.Hour)
	clock.Set(t, back)
	require.Equal(t, servertest.Reply{1, 15, 0, 3600 + 10 + 2 - 30, 3600 + 10}, servertest.Throttle(t, client, "key", 15, 30, 60))
	require.Equal(t, servertest.Reply{1, 15, 0, 3600 + 10 - 30, 3600 + 10}, servertest.Throttle(t, client, "key", 15, 30, 60, 0))
	require.Equal(t, before, client.Get(context.Background(), "key").Val(), "nothing is lost")
	require.Equal(t, servertest.Reply{0, 15, 14, -1, 2}, servertest.Throttle(t, client, "another key", 15, 30, 60), "new funnels work as ever")

	clock.Set(t, back.Add(3582*time.Second-1))
	require.EqualValues(t, 1, servertest.Throttle(t, client, "key", 15, 30, 60)[0], "a nanosecond early")
	clock.Set(t, back.Add(3582*time.Second))
	require.Equal(t, servertest.Reply{0, 15, 0, -1, 30}, servertest.Throttle(t, client, "key", 15, 30, 60), "as announced")

	clock.Set(t, servertest.Epoch.Add(time.Minute))
	require.Equal(t, servertest.Reply{0, 15, 14, -1, 2}, servertest.Throttle(t, client, "key", 15, 30, 60), "drained")
}

// TestClockSteppedForwardDrainsFunnelsEarly, and stepping it back again makes
// them overfull.
func TestClockSteppedForwardDrainsFunnelsEarly(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	servertest.Throttle(t, client, "key", 15, 30, 60, 15)
	require.EqualValues(t, 1, servertest.Throttle(t, client, "key", 15, 30, 60)[0])

	clock.Set(t, servertest.Epoch.Add(time.Hour))
	require.Equal(t, servertest.Reply{0, 15, 14, -1, 2}, servertest.Throttle(t, client, "key", 15, 30, 60))
	clock.Set(t, servertest.Epoch)
	require.Equal(t, servertest.Reply{1, 15, 0, 3600 + 2 + 2 - 30, 3600 + 2}, servertest.Throttle(t, client, "key", 15, 30, 60))
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

// clockModel runs commands on a server and on the model of the contract.
type clockModel struct {
	t     *testing.T
	wire  *servertest.Wire
	model *model
}

func startClockModel(t *testing.T) *clockModel {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	return &clockModel{t, server.Wire(t), newModel()}
}

func (c *clockModel) set(now int64) {
	c.model.now = now
	c.do(now, "funnel.debug", "clock", strconv.FormatInt(now, 10))
}

func (c *clockModel) do(expected any, words ...string) {
	c.t.Helper()
	got, err := c.wire.Do(words...)
	require.NoError(c.t, err, "%q at %d", words, c.model.now)
	require.True(c.t, agrees(expected, got), "%q at %d: expected %v, got %v", words, c.model.now, expected, got)
}

// throttle makes a call and compares what is left at the key afterwards.
func (c *clockModel) throttle(key string, arguments ...string) {
	c.t.Helper()
	words := append([]string{"cl.throttle", key}, arguments...)
	c.model.instant = time.Now().UnixMilli()
	c.do(c.model.throttle(words), words...)
	c.model.instant = time.Now().UnixMilli()
	if entry, found := c.model.get(key); found {
		c.do(entry.text, "get", key)
		if entry.expiry != noExpiry {
			c.do(entry.expiry, servertest.AskExpiry(c.t, key)...)
		}
	} else {
		c.do(nil, "get", key)
	}
}

// TestClockSteppedBackAndForwardAgreesWithTheContract: a thousand steps, an hour back, an
// hour forward or a little, and calls on many funnels between them.
func TestClockSteppedBackAndForwardAgreesWithTheContract(t *testing.T) {
	c := startClockModel(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	steps := servertest.QuickOrLong(1_000, 20_000)
	for step := range steps {
		moves := []time.Duration{-time.Hour, time.Hour, time.Duration(random.Int64N(int64(time.Minute)))}
		c.set(c.model.now + int64(moves[random.IntN(len(moves))]))
		for range 3 {
			key := fmt.Sprintf("key:%d:%d", step/50, random.IntN(5))
			c.throttle(key, "15", "30", []string{"60", "600", "6000.5"}[random.IntN(3)], strconv.Itoa(random.IntN(5)))
		}
	}
	for _, outcome := range []string{metAllowed, metLimited, metPeeked} {
		require.Greater(t, c.model.met[outcome], steps/50, outcome)
	}
	t.Logf("%d steps: %v", steps, c.model.met)
}

// TestClockAtItsExtremesNeitherOverflowsNorCrashes: at each instant that 63 bits
// hold, whatever is stored, the answer is that of the contract; and with a sane
// clock again, so is everything else.
func TestClockAtItsExtremesNeitherOverflowsNorCrashes(t *testing.T) {
	c := startClockModel(t)
	instants := []int64{0, 1, 999_999, 1e6, 1e9, 1 << 53, 1 << 62, math.MaxInt64 - 60e9, math.MaxInt64 - 1e6, math.MaxInt64 - 1, math.MaxInt64}
	stored := []int64{-1, 0, 1, 1 << 62, math.MaxInt64 - 1, math.MaxInt64} // -1: nothing
	rates := [][]string{
		{"15", "30", "60"},
		{"1", "1", "0.000000001"},
		{"9223372036854775807", "1", "0.000000001"},
		{"1", "1", "9223372036.854775807"},
		{"3", "2", "4611686018.427387904"},
	}
	calls := 0
	for _, now := range instants {
		c.set(now)
		for _, tat := range append(stored, now) {
			for _, rate := range rates {
				for _, quantity := range []string{"0", "1", "2", rate[0]} {
					delete(c.model.databases[0], "key")
					if tat < 0 {
						c.do(anything{}, "del", "key")
					} else {
						value := strconv.FormatInt(tat, 10)
						c.model.put("key", modelEntry{kind: "string", text: value, expiry: noExpiry})
						c.do("OK", "set", "key", value)
					}
					c.throttle("key", append(rate, quantity)...)
					c.throttle("key", append(rate, quantity)...)
					calls += 2
				}
			}
		}
	}
	for _, outcome := range []string{metAllowed, metLimited, metNever, metPeeked, errIncrement} {
		require.Greater(t, c.model.met[outcome], 50, outcome)
	}
	t.Logf("%d calls: %v", calls, c.model.met)

	c.set(servertest.Epoch.UnixNano())
	c.throttle("sane", "15", "30", "60")
	c.do([]any{int64(0), int64(15), int64(14), int64(-1), int64(2)}, "cl.throttle", "sane too", "15", "30", "60")
}
