package command_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestFunnelsTouchOnlyWhatTheyWrite: of the keys of a call, WATCH and client-side caches
// learn of those that it writes, and of no others; the dirty counter counts them.
func TestFunnelsTouchOnlyWhatTheyWrite(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	ctx := context.Background()
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	for _, c := range []struct{ call, touches string }{
		{"cl.reserve one 3 1 1 1", "one"},
		{"cl.reserve one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", "one two new"},
		{"cl.reserve one 3 1 1 1 two 3 1 1 0 new 3 1 1 0", "one"},
		{"cl.reserve one 3 1 1 3 9", "one"},
		{"cl.reserve one 3 1 1 3", ""},
		{"cl.reserve new 3 1 1 1 two 3 1 1 2", ""},
		{"cl.reserve two 3 1 1 2 one 3 1 1 1", ""},
		{"cl.reserve one 3 1 1 4 new 3 1 1 4 two 3 1 1 1", ""},
		{"cl.reserve one 3 1 1 0 two 3 1 1 0 new 3 1 1 0", ""},
		{"cl.reserve one 3 1 1 1 two x 1 1 1", ""},
		{"cl.peek one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", ""},
		{"cl.peek one 3 1 1 4", ""},
		{"cl.charge one 3 1 1 1 two 3 1 1 9 new 3 1 1 1", "one two new"},
		{"cl.charge one 3 1 1 0 two 3 1 1 1", "two"},
		{"cl.charge one 3 1 1 1 two 1 1 9223372036 9", ""},
		{"cl.refund one 3 1 1 1 two 3 1 1 1 new 3 1 1 1", "one two"},
		{"cl.refund one 3 1 1 0 two 3 1 1 2", "two"},
		{"cl.refund new 3 1 1 2", ""},
	} {
		require.NoError(t, client.FlushAll(ctx).Err())
		servertest.Funnels(t, client, "cl.charge one 3 1 1 1 two 3 1 1 2")
		before := servertest.Dumps(t, client)
		watchers := map[string]*watcher{}
		for _, key := range []string{"one", "two", "new"} {
			watchers[key] = newWatcher(t, server, key)
		}
		dirty := servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")
		client.Do(ctx, servertest.Words(c.call)...)
		written := strings.Fields(c.touches)
		require.EqualValues(t, len(written), servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")-dirty, c.call)
		after := servertest.Dumps(t, client)
		for key, watcher := range watchers {
			touched := slices.Contains(written, key)
			require.Equal(t, touched, before[key] != after[key], "%s: the value of %s", c.call, key)
			watched, cached := watcher.saw(t)
			require.Equal(t, touched, watched, "%s: WATCH of %s", c.call, key)
			require.Equal(t, touched, cached, "%s: the cache of %s", c.call, key)
		}
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
		_, err := w.wire.Do(words...)
		require.NoError(t, err)
	}
	return w
}

// saw says whether the key was changed in the meantime: what EXEC and the cache know.
func (w *watcher) saw(t *testing.T) (watched, cached bool) {
	t.Helper()
	var reply any
	for _, word := range []string{"multi", "ping", "exec"} {
		var err error
		reply, err = w.wire.Do(word)
		require.NoError(t, err)
		for push, isPush := reply.(servertest.Push); isPush; push, isPush = reply.(servertest.Push) {
			require.Equal(t, servertest.Push{"invalidate", []any{w.key}}, push)
			cached = true
			reply, err = w.wire.Receive()
			require.NoError(t, err)
		}
	}
	return reply == nil, cached
}

// TestFunnelsPeekedAreCached: clients that cache what they read are told when it changes.
func TestFunnelsPeekedAreCached(t *testing.T) {
	server := servertest.StartModule(t)
	client := server.Client(t)
	wire := server.Wire(t)
	for _, words := range [][]string{{"hello", "3"}, {"client", "tracking", "on"},
		{"cl.peek", "one", "3", "1", "1000", "1", "two", "3", "1", "1000", "1"}} {
		_, err := wire.Do(words...)
		require.NoError(t, err)
	}
	for _, call := range []string{"cl.charge two 3 1 1000 1", "cl.reserve one 3 1 1000 1"} {
		servertest.Funnels(t, client, call)
		push, err := wire.Receive()
		require.NoError(t, err)
		require.Equal(t, servertest.Push{"invalidate", []any{strings.Fields(call)[1]}}, push)
	}
}

// TestFunnelsKeyspaceEvents: a write has the events of the SET or DEL that replicas execute.
func TestFunnelsKeyspaceEvents(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	require.NoError(t, client.ConfigSet(ctx, "notify-keyspace-events", "KA").Err())
	subscription := client.PSubscribe(ctx, "__keyspace@0__:*")
	defer subscription.Close()
	_, err := subscription.Receive(ctx)
	require.NoError(t, err)
	for _, c := range []struct {
		call   string
		events []string
	}{
		{"cl.reserve a 3 1 1 1 b 3 1 1 2", []string{"a set", "a expire", "b set", "b expire"}},
		{"cl.reserve a 3 1 1 3 9", []string{"a set", "a expire"}},
		{"cl.reserve a 3 1 1 1 b 3 1 1 1", nil},
		{"cl.peek a 3 1 1 1 b 3 1 1 1", nil},
		{"cl.charge a 3 1 1 0 b 3 1 1 1", []string{"b set", "b expire"}},
		{"cl.charge a 3 1 1 1 b 3 1 1 x", nil},
		{"cl.refund a 3 1 1 1 b 3 1 1 3 c 3 1 1 1", []string{"a set", "a expire", "b del"}},
		{"cl.refund b 3 1 1 3", nil},
	} {
		client.Do(ctx, servertest.Words(c.call)...)
		require.NoError(t, client.Set(ctx, "end", 1, 0).Err())
		var events []string
		for {
			message, err := subscription.ReceiveMessage(ctx)
			require.NoError(t, err)
			event := strings.TrimPrefix(message.Channel, "__keyspace@0__:") + " " + message.Payload
			if event == "end set" {
				break
			}
			if event != "a new" && event != "b new" && event != "end new" {
				events = append(events, event)
			}
		}
		require.Equal(t, c.events, events, c.call)
	}
}

// TestFunnelsAreCounted in INFO, by what became of the call.
func TestFunnelsAreCounted(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	outcomes := []string{"allowed", "limited", "peeked", "charged", "refunded", "errors"}
	counts := func() map[string]int64 {
		counts := map[string]int64{}
		for _, outcome := range outcomes {
			counts[outcome] = servertest.InfoField(t, client, "funnel", "funnel_"+outcome)
		}
		return counts
	}
	for _, c := range []struct{ call, outcome string }{
		{"cl.reserve k 2 1 1 2", "allowed"},
		{"cl.reserve k 2 1 1 1 5", "allowed"},
		{"cl.reserve j 2 1 1 1 i 2 1 1 1", "allowed"},
		{"cl.reserve k 2 1 1 1", "limited"},
		{"cl.reserve j 2 1 1 1 k 2 1 1 1", "limited"},
		{"cl.reserve k 2 1 1 3 5", "limited"},
		{"cl.reserve k 2 1 1 0", "peeked"}, // though it is overfull
		{"cl.reserve k 2 1 1 0 5", "peeked"},
		{"cl.reserve j 2 1 1 0 i 2 1 1 0", "peeked"},
		{"cl.peek k 2 1 1 1", "peeked"},
		{"cl.peek new 2 1 1 1", "peeked"},
		{"cl.peek new 2 1 1 3", "peeked"},
		{"cl.charge k 2 1 1 9", "charged"},
		{"cl.charge new 2 1 1 1", "charged"},
		{"cl.charge k 2 1 1 0", "peeked"},
		{"cl.refund k 2 1 1 1", "refunded"},
		{"cl.refund empty 2 1 1 1", "refunded"},
		{"cl.refund new 2 1 1 1", "refunded"},
		{"cl.refund k 2 1 1 0", "peeked"},
		{"cl.reserve k 2 1 1 x", "errors"},
		{"cl.peek k 2 1 1 1 k 2 1 1 1", "errors"},
		{"cl.charge k 2 1 0 1", "errors"},
		{"cl.refund k 0 1 1 1", "errors"},
	} {
		want := counts()
		want[c.outcome]++
		client.Do(ctx, servertest.Words(c.call)...)
		require.Equal(t, want, counts(), c.call)
	}
}
