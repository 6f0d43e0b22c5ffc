// Clients and operators see what a call did, and nothing else: in WATCH and client-side caches,
// keyspace events, the append-only file and INFO.

package command_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// effects are calls, the keys that they write, in that order, and how INFO counts them.
// Funnel one holds 1 token of 3, two holds 2, and new is none. TestErrors has all errors.
var effects = []struct{ name, call, writes, counted string }{
	{"taken", "cl.throttle one 3 1 1", "one", "allowed"},
	{"does not fit", "cl.throttle two 3 1 1 2", "", "limited"},
	{"quantity 0 of an overfull funnel", "cl.throttle two 1 1 1 0", "", "peeked"},
	{"no capacity", "cl.throttle one x 1 1", "", "errors"},

	{"taken from three", "cl.reserve two 3 1 1 1 one 3 1 1 1 new 3 1 1 1", "two one new", "allowed"},
	{"reserved", "cl.reserve one 3 1 1 3 9", "one", "allowed"},
	{"the last of two does not fit", "cl.reserve new 3 1 1 1 two 3 1 1 2", "", "limited"},

	{"taken in part", "cl.take one 3 1 1 3", "one", "allowed"},

	{"peek", "cl.peek one 3 1 1 1 two 3 1 1 4 new 3 1 1 1", "", "peeked"},

	{"charged above the capacity", "cl.charge one 3 1 1 1 two 3 1 1 9 new 3 1 1 1", "one two new", "charged"},
	{"the last of two ends too late", "cl.charge one 3 1 1 1 two 1 1 9223372036 1", "", "errors"},

	{"refunded, of which one is empty then", "cl.refund one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", "one two", "refunded"},
	{"refund of nothing and all", "cl.refund one 3 1 1 0 two 3 1 1 2", "two", "refunded"},
	{"nothing to refund", "cl.refund new 3 1 1 2", "", "refunded"},
	{"refund of a receipt", "cl.refund two 3 1 1 1 @2s", "two", "refunded"},
	{"refund of a receipt that has leaked", "cl.refund two 3 1 1 1 @0s", "", "refunded"},
}

// TestEffects: they see the keys that a call writes, in the order of the call. Each write is a
// SET with PXAT, or a DEL. INFO counts the call by its outcome.
func TestEffects(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--notify-keyspace-events", "Kg$"},
	})
	client, ctx := server.Client(t), t.Context()
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	subscription := client.PSubscribe(ctx, "__keyspace@0__:*")
	defer subscription.Close()
	_, err := subscription.Receive(ctx)
	require.NoError(t, err)

	var want []string // of the append-only file, by row
	for _, c := range effects {
		require.NoError(t, client.FlushAll(ctx).Err())
		servertest.Call(t, client, "cl.charge one 3 1 1 1 two 3 1 1 2")
		prepared, _ := written(t, client, "one two")
		drain(t, client, subscription)
		watchers := map[string]*servertest.Wire{}
		for _, key := range []string{"one", "two", "new"} {
			watchers[key] = server.Wire(t)
			require.Equal(t, "OK", watchers[key].MustDo(t, "watch", key))
			require.Equal(t, "OK", watchers[key].MustDo(t, "multi"))
		}
		dumps, counts := servertest.Dumps(t, client), countsOf(t, client)

		servertest.Try(client, withTATs(c.call))

		counts[c.counted]++
		counts["dirty"] += int64(len(strings.Fields(c.writes)))
		require.Equal(t, counts, countsOf(t, client), c.name)
		log, events := written(t, client, c.writes)
		want = append(want, prepared+log)
		require.Equal(t, events, drain(t, client, subscription), c.name)
		after := servertest.Dumps(t, client)
		for key, watcher := range watchers {
			touched := slices.Contains(strings.Fields(c.writes), key)
			require.Equal(t, touched, dumps[key] != after[key], "%s: the value of %s", c.name, key)
			require.Equal(t, touched, watcher.MustDo(t, "exec") == nil, "%s: WATCH of %s", c.name, key)
		}
	}
	var log strings.Builder
	for _, words := range servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, server)) {
		log.WriteString(strings.ToUpper(words[0]) + strings.TrimSuffix(" "+strings.Join(words[1:], " "), " ") + "\n")
	}
	got := strings.Split(log.String(), "FLUSHALL\n")[1:]
	require.Len(t, got, len(want))
	for i, c := range effects {
		require.Equal(t, want[i], got[i], c.name)
	}
}

// written are the commands and events of a call that wrote these keys.
func written(t *testing.T, client *redis.Client, keys string) (log string, events []string) {
	t.Helper()
	for _, key := range strings.Fields(keys) {
		if value, err := client.Get(t.Context(), key).Result(); err == nil {
			log += fmt.Sprintf("SET %s %s PXAT %d\n", key, value, servertest.ExpiryOf(t, client, key))
			events = append(events, key+" set", key+" expire")
		} else {
			log += "DEL " + key + "\n"
			events = append(events, key+" del")
		}
	}
	if servertest.Since7(t) && strings.Contains(keys, " ") {
		log = "MULTI\n" + log + "EXEC\n"
	}
	return log, events
}

// countsOf are the calls that INFO counts, by outcome, and the dirty counter.
func countsOf(t *testing.T, client *redis.Client) map[string]int64 {
	t.Helper()
	counts := map[string]int64{"dirty": servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")}
	for _, outcome := range []string{"allowed", "limited", "peeked", "charged", "refunded", "errors"} {
		counts[outcome] = servertest.InfoField(t, client, "funnel", "funnel_"+outcome)
	}
	return counts
}

// drain returns the keyspace events so far.
func drain(t *testing.T, client *redis.Client, subscription *redis.PubSub) (events []string) {
	t.Helper()
	require.NoError(t, client.Publish(t.Context(), "__keyspace@0__:", "end").Err())
	for {
		message, err := subscription.ReceiveMessage(t.Context())
		require.NoError(t, err)
		if message.Payload == "end" {
			return events
		}
		events = append(events, strings.TrimPrefix(message.Channel, "__keyspace@0__:")+" "+message.Payload)
	}
}
