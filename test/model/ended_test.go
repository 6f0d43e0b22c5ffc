// Slots that have ended cost nothing but memory until calls have removed them.

package model_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestEndedSlotsCostNothing: with a million of them and a limit of 1, a call that is limited and
// CL.PEEK take less than a millisecond, and one that writes and removes a thousand less than five, by
// SLOWLOG. The fastest of some calls counts: the machine has other work. Fewer have less time.
func TestEndedSlotsCostNothing(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	ended := servertest.QuickOrLong(100_000, 1_000_000)
	const fill = `for i = 1, tonumber(ARGV[1]) do redis.call('ZADD', KEYS[1], i, 'ended:' .. i) end`
	require.ErrorIs(t, client.Eval(t.Context(), fill, []string{"k"}, ended).Err(), redis.Nil)
	servertest.Call(t, client, "cl.charge k 1 SLOTS 60 last") // the key has not expired
	require.NoError(t, client.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())

	const rounds = 20
	reads := servertest.QuickOrLong(time.Millisecond/10, time.Millisecond)
	for _, c := range []struct {
		call    string // %d is another number in each round
		most    time.Duration
		removes int
	}{
		{"cl.peek k 1 SLOTS 30 h%d", reads, 0},
		{"cl.reserve k 0 SLOTS 30 h%d", reads, 0},
		{"cl.charge k 1 SLOTS 30 h%d", 5 * time.Millisecond, 1000},
		{"cl.peek k 1 SLOTS 30 more%d", reads, 0},
		{"cl.reserve k 1 SLOTS 30 more%d", reads, 0},
		{"cl.reserve k 0 SLOTS 31 h%d", 5 * time.Millisecond, 1000},
		{"cl.refund k 1 SLOTS 30 h%d", 5 * time.Millisecond, 1000},
	} {
		before := client.ZCount(t.Context(), "k", "-inf", "1e9").Val()
		require.NoError(t, client.Do(t.Context(), "slowlog", "reset").Err())
		for round := range rounds {
			servertest.Call(t, client, fmt.Sprintf(c.call, round))
		}
		var took []time.Duration
		for _, entry := range client.SlowLogGet(t.Context(), 2*rounds).Val() {
			if entry.Args[0] != "slowlog" {
				took = append(took, entry.Duration)
			}
		}
		require.Len(t, took, rounds)
		slices.Sort(took)
		t.Logf("%s: %v to %v, median %v", c.call, took[0], took[rounds-1], took[rounds/2])
		require.Less(t, took[0], c.most, c.call)
		require.EqualValues(t, before-int64(c.removes*rounds), client.ZCount(t.Context(), "k", "-inf", "1e9").Val(), c.call)
	}
}
