// Package funnel_test drives the module through real servers, with go-redis: the
// contract of CL.THROTTLE, row by row. This file holds the replies; what the
// server stores and does around a call is in test/command and the folders beside it.
package funnel_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
)

// TestTranscript is the example of the usual tutorial on redis-cell, where user laoqian
// may reply 15 times in a row and 30 times in 60 seconds.
func TestTranscript(t *testing.T) {
	client := servertest.StartClient(t)
	require.Equal(t, servertest.Reply{0, 15, 14, -1, 2}, servertest.Throttle(t, client, "laoqian:reply", 15, 30, 60))
	require.Equal(t, servertest.Reply{0, 15, 13, -1, 4}, servertest.Throttle(t, client, "laoqian:reply", 15, 30, 60, 1))
}

func TestFifteenOfTwentyCallsAreAllowed(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	for call := 1; call <= 20; call++ {
		got := servertest.Throttle(t, client, "user:reply", 15, 30, 60)
		if call <= 15 {
			require.Equal(t, servertest.Reply{0, 15, int64(15 - call), -1, int64(2 * call)}, got, "call %d", call)
		} else {
			require.Equal(t, servertest.Reply{1, 15, 0, 2, 30}, got, "call %d", call)
		}
	}
}

func TestQuantity(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	steps := []struct {
		name     string
		quantity int
		want     servertest.Reply
	}{
		{"peek at a new funnel", 0, servertest.Reply{0, 10, 10, -1, 0}},
		{"several at once", 4, servertest.Reply{0, 10, 6, -1, 4}},
		{"peek", 0, servertest.Reply{0, 10, 6, -1, 4}},
		{"more than fits now", 7, servertest.Reply{1, 10, 6, 1, 4}},
		{"more than ever fits", 11, servertest.Reply{1, 10, 6, -1, 4}},
		{"the rest", 6, servertest.Reply{0, 10, 0, -1, 10}},
		{"peek at a full funnel", 0, servertest.Reply{0, 10, 0, -1, 10}},
		{"one into a full funnel", 1, servertest.Reply{1, 10, 0, 1, 10}},
	}
	for _, step := range steps {
		require.Equal(t, step.want, servertest.Throttle(t, client, "key", 10, 1, 1, step.quantity), step.name)
	}
}

// TestSecondsRoundUp: the reply counts whole seconds, and waiting that long is
// always enough.
func TestSecondsRoundUp(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	require.Equal(t, servertest.Reply{0, 1, 0, -1, 2}, servertest.Throttle(t, client, "key", 1, 1, "1.000000001"))
	require.Equal(t, servertest.Reply{1, 1, 0, 2, 2}, servertest.Throttle(t, client, "key", 1, 1, "1.000000001"))
	clock.Set(t, servertest.Epoch.Add(time.Nanosecond))
	require.Equal(t, servertest.Reply{1, 1, 0, 1, 1}, servertest.Throttle(t, client, "key", 1, 1, "1.000000001"))
	clock.Set(t, servertest.Epoch.Add(time.Second))
	require.Equal(t, servertest.Reply{1, 1, 0, 1, 1}, servertest.Throttle(t, client, "key", 1, 1, "1.000000001"), "one nanosecond early")
	clock.Set(t, servertest.Epoch.Add(time.Second+time.Nanosecond))
	require.Equal(t, servertest.Reply{0, 1, 0, -1, 2}, servertest.Throttle(t, client, "key", 1, 1, "1.000000001"))
}

// TestRedisCellMode: the other reading of the second argument allows one more.
func TestRedisCellMode(t *testing.T) {
	client := servertest.StartModule(t, "compat", "redis-cell").Client(t)
	require.Equal(t, servertest.Reply{0, 16, 15, -1, 2}, servertest.Throttle(t, client, "laoqian:reply", 15, 30, 60))
	require.Equal(t, servertest.Reply{0, 1, 0, -1, 60}, servertest.Throttle(t, client, "none", 0, 1, 60), "capacity 0 is accepted here")
	servertest.RequireError(t, client, "ERR capacity ", "key", -1, 30, 60)
	servertest.RequireError(t, client, "ERR capacity and period are too large together", "key", math.MaxInt64, 1, 1)
}

// TestErrors: an error names what was wrong, and writes nothing.
func TestErrors(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	require.NoError(t, client.RPush(ctx, "list", "a").Err())
	require.NoError(t, client.Set(ctx, "word", "abc", 0).Err())
	type arguments = []any
	for _, c := range []struct {
		arguments arguments
		message   string
	}{
		{arguments{"key", 15, 30}, "ERR wrong number of arguments for 'cl.throttle' command"},
		{arguments{"key", 15, 30, 60, 1, 1}, "ERR wrong number of arguments for 'cl.throttle' command"},
		{arguments{"key", 0, 30, 60}, "ERR capacity must be an integer from 1 to 9223372036854775807, not '0'"},
		{arguments{"key", 15, "lots", 60}, "ERR count must be an integer from 1 to 9223372036854775807, not 'lots'"},
		{arguments{"key", 15, 30, "1e3"}, "ERR period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits, not '1e3'"},
		{arguments{"key", 15, 30, 60, -1}, "ERR quantity must be an integer from 0 to 9223372036854775807, not '-1'"},
		{arguments{"key", 15, 1000000001, 1}, "ERR count is too large for period: "},
		{arguments{"key", math.MaxInt64, 30, 60}, "ERR capacity and period are too large together"},
		{arguments{"key", 15, 1, 1, math.MaxInt64}, "ERR quantity and period are too large together"},
		{arguments{"key", 1, 1, "9223372036.854775807"}, "ERR quantity and period are too large together"}, // added to now
		{arguments{"list", 15, 30, 60}, "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{arguments{"word", 15, 30, 60}, "ERR the key does not hold a funnel"},
		{arguments{"list", 15, 30, "x"}, "ERR period must be"}, // arguments come before the key
	} {
		servertest.RequireError(t, client, c.message, c.arguments...)
	}
	require.ElementsMatch(t, []string{"list", "word"}, client.Keys(ctx, "*").Val())
}

// TestRefillOverRealTime goes by the real clock: tokens leak as time passes.
func TestRefillOverRealTime(t *testing.T) {
	client := servertest.StartClient(t)
	const interval = 50 * time.Millisecond // 20 tokens per second
	start := time.Now()
	allowed := 0
	for time.Since(start) < 20*interval {
		if servertest.Throttle(t, client, "key", 3, 20, 1)[0] == 0 {
			allowed++
		}
	}
	elapsed := time.Since(start)
	require.GreaterOrEqual(t, allowed, 3+19, "a token that leaked was withheld")
	require.LessOrEqual(t, allowed, 3+int(elapsed/interval)+1, "more was let through than has leaked")
}

// TestClientsHammeringOneKey: 64 clients at once get the capacity and what leaks
// meanwhile, and no token more.
func TestClientsHammeringOneKey(t *testing.T) {
	const clients, calls, capacity = 64, 500, 1000

	hammer := func(t *testing.T, client *redis.Client, count any, period string) (allowed int64, elapsed time.Duration) {
		var group sync.WaitGroup
		allowedBy := make([]int64, clients)
		errs := make([]error, clients)
		start := time.Now()
		for i := range clients {
			group.Go(func() {
				for range calls {
					result, err := client.Do(context.Background(), "cl.throttle", "key", capacity, count, period).Int64Slice()
					if err != nil {
						errs[i] = err
						return
					}
					allowedBy[i] += 1 - result[0]
				}
			})
		}
		group.Wait()
		elapsed = time.Since(start)
		for i := range clients {
			require.NoError(t, errs[i])
			allowed += allowedBy[i]
		}
		return allowed, elapsed
	}
	manyConnections := func(options *redis.Options) { options.PoolSize = clients }

	t.Run("while nothing leaks", func(t *testing.T) {
		client := servertest.StartModule(t).Client(t, manyConnections)
		allowed, _ := hammer(t, client, 1, "1000000")
		require.EqualValues(t, capacity, allowed)
	})
	t.Run("while it leaks", func(t *testing.T) {
		client := servertest.StartModule(t).Client(t, manyConnections)
		const interval = time.Millisecond
		allowed, elapsed := hammer(t, client, 1000, "1")
		require.GreaterOrEqual(t, allowed, int64(capacity))
		require.LessOrEqual(t, allowed, capacity+int64(elapsed/interval)+1)
	})
}

// TestRepliesEqualTheArithmetic compares replies with package gcra, to the
// nanosecond, on funnels of every size while the clock moves on.
func TestRepliesEqualTheArithmetic(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	rates := []struct {
		capacity, count int64
		period          string
		nanoseconds     int64
	}{
		{1, 1, "0.000000001", 1},
		{3, 7, "1", 1e9},
		{15, 30, "60", 60e9},
		{1 << 31, 1 << 31, "3600.000000001", 3600e9 + 1},
		{1 << 53, 1000, "0.000009999", 9999},
		{1, 1, "31536000", 31536000 * 1e9},
	}
	for _, rate := range rates {
		t.Run(fmt.Sprintf("%d of %d per %s", rate.capacity, rate.count, rate.period), func(t *testing.T) {
			key := t.Name()
			model, err := gcra.NewRate(rate.capacity, rate.count, rate.nanoseconds)
			require.NoError(t, err)
			tat, now := gcra.Empty, servertest.Epoch.UnixNano()
			for step := range 60 {
				clock.Set(t, time.Unix(0, now))
				quantity := int64(step) % 4 * max(1, rate.capacity/7)
				want, err := model.Decide(tat, now, quantity)
				require.NoError(t, err)
				got := servertest.Throttle(t, client, key, rate.capacity, rate.count, rate.period, quantity)
				require.Equal(t, replyOf(want), got, "step %d", step)
				if tat = want.TAT; tat > now {
					require.Equal(t, fmt.Sprint(tat), client.Get(context.Background(), key).Val(), "step %d", step)
				}
				now += model.EmissionInterval()*int64(step%5)/2 + int64(step%2)
			}
		})
	}
}

func replyOf(decision gcra.Decision) servertest.Reply {
	limited := int64(0)
	if decision.Limited {
		limited = 1
	}
	return servertest.Reply{
		limited, decision.Limit, decision.Remaining,
		gcra.Seconds(decision.RetryAfter()), gcra.Seconds(decision.ResetAfter),
	}
}
