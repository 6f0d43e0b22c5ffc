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

// TestEffects: WATCH, client-side caches, keyspace events, the dirty counter and the
// append-only file see the keys that a call writes, in the order of the call, and no others.
// Each write is a SET with PXAT, or a DEL. INFO counts the call by its outcome.
func TestEffects(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--notify-keyspace-events", "Kg$"},
	})
	client := server.Client(t)
	ctx := t.Context()
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	subscription := client.PSubscribe(ctx, "__keyspace@0__:*")
	defer subscription.Close()
	_, err := subscription.Receive(ctx)
	require.NoError(t, err)

	// Funnel one holds 1 token of 3, and two holds 2.
	for _, c := range []struct{ call, writes, counted string }{
		{"cl.throttle one 3 1 1", "one", "allowed"},
		{"cl.throttle new 3 1 1.000000001 3", "new", "allowed"},
		{"cl.throttle two 3 1 1 2", "", "limited"},
		{"cl.throttle new 3 1 1 4", "", "limited"},
		{"cl.throttle one 3 1 1 0", "", "peeked"},
		{"cl.throttle two 1 1 1 0", "", "peeked"}, // though it is overfull
		{"cl.throttle one x 1 1", "", "errors"},

		{"cl.reserve one 3 1 1 1", "one", "allowed"},
		{"cl.reserve two 3 1 1 1 one 3 1 1 1 new 3 1 1 1", "two one new", "allowed"},
		{"cl.reserve one 3 1 1 1 two 3 1 1 0 new 3 1 1 0", "one", "allowed"},
		{"cl.reserve one 3 1 1 3 9", "one", "allowed"},
		{"cl.reserve one 3 1 1 3", "", "limited"},
		{"cl.reserve one 3 1 1 4 9", "", "limited"},
		{"cl.reserve new 3 1 1 1 two 3 1 1 2", "", "limited"},
		{"cl.reserve two 3 1 1 2 one 3 1 1 1", "", "limited"},
		{"cl.reserve one 3 1 1 4 new 3 1 1 4 two 3 1 1 1", "", "limited"},
		{"cl.reserve one 3 1 1 0 two 1 1 1 0 new 3 1 1 0", "", "peeked"},
		{"cl.reserve two 1 1 1 0 5", "", "peeked"},
		{"cl.reserve one 3 1 1 1 two x 1 1 1", "", "errors"},

		{"cl.take one 3 1 1 2", "one", "allowed"},
		{"cl.take one 3 1 1 3", "one", "allowed"}, // in part
		{"cl.take new 3 1 1 9223372036854775807", "new", "allowed"},
		{"cl.take two 2 1 1 1", "", "limited"},
		{"cl.take one 3 1 1 0", "", "peeked"},
		{"cl.take new 1 1 9223372036 1", "", "errors"},

		{"cl.peek one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", "", "peeked"},
		{"cl.peek one 3 1 1 4", "", "peeked"},
		{"cl.peek one 3 1 1 1 one 3 1 1 1", "", "errors"},

		{"cl.charge one 3 1 1 1 two 3 1 1 9 new 3 1 1 1", "one two new", "charged"},
		{"cl.charge one 3 1 1 0 two 3 1 1 1", "two", "charged"},
		{"cl.charge one 3 1 1 0", "", "peeked"},
		{"cl.charge one 3 1 1 1 two 1 1 9223372036 9", "", "errors"},
		{"cl.charge one 3 1 1 1 two 1 1 9223372036 1", "", "errors"},

		{"cl.refund one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", "one two", "refunded"},
		{"cl.refund one 3 1 1 0 two 3 1 1 2", "two", "refunded"},
		{"cl.refund new 3 1 1 2", "", "refunded"},
		{"cl.refund two 3 1 1 1 @2s", "two", "refunded"},
		{"cl.refund two 3 1 1 1 @1ns", "two", "refunded"},
		{"cl.refund two 3 1 1 9 @2s", "two", "refunded"},
		{"cl.refund two 3 1 1 1 @0s", "", "refunded"},
		{"cl.refund two 3 1 1 1 0", "", "refunded"},
		{"cl.refund one 3 1 1 1 x", "", "errors"},
		{"cl.refund one 3 1 1 1 two 3 1 1 1 0", "", "errors"},
		{"cl.refund one 3 1 1 0 @1s", "", "peeked"},
		{"cl.refund one 3 1 1 0", "", "peeked"},
		{"cl.refund one 3 1 0 1", "", "errors"},
	} {
		require.NoError(t, client.FlushAll(ctx).Err())
		servertest.Call(t, client, "cl.charge one 3 1 1 1 two 3 1 1 2")
		drain(t, client, subscription)
		watchers := map[string]*watcher{}
		for _, key := range []string{"one", "two", "new"} {
			watchers[key] = newWatcher(t, server, key)
		}
		dumps, counts := servertest.Dumps(t, client), countsOf(t, client)
		logged := len(servertest.ReadAppendOnlyFile(t, server))

		servertest.Try(client, withTATs(c.call))

		counts[c.counted]++
		counts["dirty"] += int64(len(strings.Fields(c.writes)))
		require.Equal(t, counts, countsOf(t, client), c.call)
		var events []string
		var log [][]string
		for _, key := range strings.Fields(c.writes) {
			if value, err := client.Get(ctx, key).Result(); err == nil {
				log = append(log, []string{"SET", key, value, "PXAT", fmt.Sprint(servertest.ExpiryOf(t, client, key))})
				events = append(events, key+" set", key+" expire")
			} else {
				log = append(log, []string{"DEL", key})
				events = append(events, key+" del")
			}
		}
		if servertest.Since7(t) && len(log) > 1 {
			log = slices.Concat([][]string{{"MULTI"}}, log, [][]string{{"EXEC"}})
		}
		written := servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, server)[logged:])
		require.Equal(t, log, append([][]string(nil), written...), c.call)
		require.Equal(t, events, drain(t, client, subscription), c.call)
		after := servertest.Dumps(t, client)
		for key, watcher := range watchers {
			touched := slices.Contains(strings.Fields(c.writes), key)
			require.Equal(t, touched, dumps[key] != after[key], "%s: the value of %s", c.call, key)
			watched, cached := watcher.saw(t)
			require.Equal(t, touched, watched, "%s: WATCH of %s", c.call, key)
			require.Equal(t, touched, cached, "%s: the cache of %s", c.call, key)
		}
	}
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

// A watcher watches a key and has it in its cache.
type watcher struct {
	wire *servertest.Wire
	key  string
}

func newWatcher(t *testing.T, server *servertest.Server, key string) *watcher {
	t.Helper()
	w := &watcher{server.Wire(t), key}
	for _, words := range [][]string{{"hello", "3"}, {"client", "tracking", "on"}, {"watch", key}, {"get", key}} {
		w.wire.MustDo(t, words...)
	}
	return w
}

// saw says whether the key was changed in the meantime: what EXEC and the cache know.
func (w *watcher) saw(t *testing.T) (watched, cached bool) {
	t.Helper()
	var reply any
	for _, word := range []string{"multi", "ping", "exec"} {
		reply = w.wire.MustDo(t, word)
		for push, isPush := reply.(servertest.Push); isPush; push, isPush = reply.(servertest.Push) {
			require.Equal(t, servertest.Push{"invalidate", []any{w.key}}, push)
			cached = true
			var err error
			reply, err = w.wire.Receive()
			require.NoError(t, err)
		}
	}
	return reply == nil, cached
}
