// What a call shows to clients that watch the server: classes of events, and counts of lookups.

package command_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestClassesOfEvents: a client that subscribes to one class of events gets the events of that
// class, the same as from the commands that replicas receive.
func TestClassesOfEvents(t *testing.T) {
	client, _ := servertest.StartWithClock(t)
	const calls = `
		cl.throttle f 2 1 1
		cl.refund f 2 1 1 1
		cl.reserve q 2 UNTIL ^60s 1
		cl.refund q 2 UNTIL ^60s 1
		cl.reserve s 2 SLOTS 9 a
		zadd s 1 x inf y
		cl.reserve s 3 SLOTS 8 b
		zrem s a y
		cl.refund s 3 SLOTS 8 b`
	got := map[string]string{}
	for _, class := range []string{"$", "z", "g"} {
		require.NoError(t, client.ConfigSet(t.Context(), "notify-keyspace-events", "K"+class).Err())
		subscription := client.PSubscribe(t.Context(), "__keyspace@0__:*")
		defer subscription.Close()
		_, err := subscription.Receive(t.Context())
		require.NoError(t, err)
		for line := range strings.SplitSeq(strings.TrimSpace(calls), "\n") {
			servertest.Call(t, client, withInstants(line))
		}
		got[class] = strings.Join(drain(t, client, subscription), ", ")
	}
	require.Equal(t, map[string]string{
		"$": "f set, q set",
		"z": "s zadd, s zadd, s zadd, s zremrangebyrank, s zrem, s zrem",
		"g": "f expire, f del, q expire, q del, s expire, s persist, s del",
	}, got)
}

// TestLookupsAreCounted: INFO counts the keys of CL.PEEK as found or missed, and the server sends
// an event for a missed key, as for GET. The other commands write. Like SET, they send no such
// event.
func TestLookupsAreCounted(t *testing.T) {
	client := servertest.StartClient(t)
	require.NoError(t, client.ConfigSet(t.Context(), "notify-keyspace-events", "Km").Err())
	subscription := client.PSubscribe(t.Context(), "__keyspace@0__:*")
	defer subscription.Close()
	_, err := subscription.Receive(t.Context())
	require.NoError(t, err)
	for _, c := range commands {
		for _, line := range c.calls([]string{"absent", "present"}[:min(2, c.maxRows())]...)[:1] {
			require.NoError(t, client.FlushAll(t.Context()).Err())
			servertest.Call(t, client, "cl.charge present 9 1 1 1")
			drain(t, client, subscription)
			before := lookups(t, client)
			servertest.Call(t, client, line)
			after := lookups(t, client)
			events := drain(t, client, subscription)
			if c.name == "cl.peek" {
				require.Equal(t, [2]int64{before[0] + 1, before[1] + 1}, after, line)
				require.Equal(t, []string{"absent keymiss"}, events, line)
			} else {
				require.NotContains(t, events, "absent keymiss", line)
			}
		}
	}
}

// lookups returns how many keys the server has found and missed.
func lookups(t *testing.T, client *redis.Client) [2]int64 {
	return [2]int64{
		servertest.InfoField(t, client, "stats", "keyspace_hits"),
		servertest.InfoField(t, client, "stats", "keyspace_misses"),
	}
}
