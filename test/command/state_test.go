package command_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestStateIsTheTATInDecimal, and its expiry is the TAT rounded up to the next
// millisecond.
func TestStateIsTheTATInDecimal(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		period string
		tat    time.Duration // after the epoch
		expiry time.Duration
	}{
		{"whole milliseconds", "0.002", 2 * time.Millisecond, 2 * time.Millisecond},
		{"a nanosecond more", "0.002000001", 2*time.Millisecond + 1, 3 * time.Millisecond},
		{"a nanosecond", "0.000000001", 1, time.Millisecond},
	} {
		clock.Set(t, servertest.Epoch)
		servertest.Throttle(t, client, c.name, 1, 1, c.period)
		require.Equal(t, fmt.Sprint(servertest.Epoch.Add(c.tat).UnixNano()), client.Get(ctx, c.name).Val(), c.name)
		require.EqualValues(t, servertest.Epoch.Add(c.expiry).UnixMilli(), servertest.ExpiryOf(t, client, c.name), c.name)
		require.EqualValues(t, 1, servertest.Throttle(t, client, c.name, 1, 1, c.period)[0], c.name)
	}
}

// TestKeysAreBinary: any bytes name a funnel, and none but those bytes.
func TestKeysAreBinary(t *testing.T) {
	client := servertest.StartClient(t)
	keys := []string{"", " ", "\x00", "a\x00b", "a\x00c", "\xff\xfe", "漏斗", "a\r\nb", strings.Repeat("k", 1<<20)}
	for _, key := range keys {
		require.Equal(t, servertest.Reply{0, 15, 14, -1, 2}, servertest.Throttle(t, client, key, 15, 30, 60), "%.20q", key)
	}
	require.EqualValues(t, len(keys), client.DBSize(context.Background()).Val())
}

// TestFunnelsAreStrings: what works on strings works on funnels.
func TestFunnelsAreStrings(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	servertest.Throttle(t, client, "key", 15, 30, 60, 15)
	require.Equal(t, "string", client.Type(ctx, "key").Val())
	require.EqualValues(t, 1, client.Copy(ctx, "key", "copied", 0, false).Val())
	require.NoError(t, client.Restore(ctx, "restored", client.PTTL(ctx, "key").Val(), client.Dump(ctx, "key").Val()).Err())
	require.NoError(t, client.Rename(ctx, "key", "renamed").Err())
	require.NoError(t, client.Persist(ctx, "copied").Err())
	for _, key := range []string{"copied", "restored", "renamed"} {
		require.Equal(t, servertest.Reply{1, 15, 0, 2, 30}, servertest.Throttle(t, client, key, 15, 30, 60), key)
	}
	clock.Set(t, servertest.Epoch.Add(2*time.Second))
	require.Equal(t, servertest.Reply{0, 15, 0, -1, 30}, servertest.Throttle(t, client, "copied", 15, 30, 60))
	require.Positive(t, servertest.ExpiryOf(t, client, "copied"), "it has an expiry again")
}

// TestValuesOfOthers are read in every encoding that a server keeps them in (an integer,
// an embedded string, a raw string), and written in place or anew. redis-cell stores the
// same number as funnel, with an expiry in whole seconds.
func TestValuesOfOthers(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	tat := fmt.Sprint(servertest.Epoch.Add(10 * time.Second).UnixNano())
	for name, write := range map[string]func(key string) error{
		"int":        func(key string) error { return client.Set(ctx, key, tat, 0).Err() },
		"raw":        func(key string) error { return client.Append(ctx, key, tat).Err() },
		"shared":     func(key string) error { return client.MSet(ctx, key, tat, key+"2", tat).Err() },
		"redis-cell": func(key string) error { return client.Do(ctx, "set", key, tat, "ex", 10).Err() },
		"short":      func(key string) error { return client.Set(ctx, key, "7", 0).Err() },
	} {
		require.NoError(t, write(name))
		level := int64(10)
		if name == "short" {
			level = 0
		}
		for call := range int64(4) { // the first takes nothing
			quantity := min(call, 1)
			require.Equal(t, servertest.Reply{0, 15, 15 - level - call, -1, level + call},
				servertest.Throttle(t, client, name, 15, 1, 1, quantity), "%s, call %d", name, call)
		}
		drained := servertest.Epoch.Add(time.Duration(level+3) * time.Second)
		require.Equal(t, fmt.Sprint(drained.UnixNano()), client.Get(ctx, name).Val(), name)
		require.Equal(t, drained.UnixMilli(), servertest.ExpiryOf(t, client, name), name)
	}
	require.Equal(t, tat, client.Get(ctx, "shared2").Val())
}

// TestWritesAreSeenAsSetWithPXAT by the AOF and by replicas: never the command
// itself, and nothing at all when nothing was written.
func TestWritesAreSeenAsSetWithPXAT(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"},
	})
	client := server.Client(t)
	ctx := context.Background()
	clock := servertest.ClockOf(client)
	clock.Set(t, servertest.Epoch)
	for range 3 {
		servertest.Throttle(t, client, "a key", 2, 1, "1.000000001") // the third is limited
	}
	servertest.Throttle(t, client, "a key", 2, 1, 1, 0)
	servertest.RequireError(t, client, "ERR", "a key", 0, 1, 1)
	require.NoError(t, client.Set(ctx, "last", 1, 0).Err())

	set := func(tat time.Duration, expiry time.Duration) []string {
		return []string{"SET", "a key", fmt.Sprint(servertest.Epoch.Add(tat).UnixNano()),
			"PXAT", fmt.Sprint(servertest.Epoch.Add(expiry).UnixMilli())}
	}
	require.Equal(t, [][]string{
		{"SELECT", "0"},
		set(time.Second+1, time.Second+time.Millisecond),
		set(2*time.Second+2, 2*time.Second+time.Millisecond),
		{"set", "last", "1"},
	}, servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, server)))
}

// TestNothingIsWrittenUnlessAllowed: a limited call, a peek and an error leave
// WATCH, the dirty counter, replication and client-side caches alone; an allowed
// call touches them all.
func TestNothingIsWrittenUnlessAllowed(t *testing.T) {
	server := servertest.StartModule(t)
	client := server.Client(t)
	ctx := context.Background()
	servertest.Throttle(t, client, "key", 2, 1, 1000)

	// Replication has an offset once a replica has attached; without pings, only writes
	// move it.
	require.NoError(t, client.ConfigSet(ctx, "repl-ping-replica-period", "3600").Err())
	require.NoError(t, client.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err())
	servertest.Start(t, servertest.Options{Config: []string{"--save", "", "--replicaof", "127.0.0.1", strconv.Itoa(server.Port)}})
	servertest.Eventually(t, "the replica is attached", func() bool {
		return strings.Contains(client.Info(ctx, "replication").Val(), "state=online")
	})
	traces := func() map[string]any {
		return map[string]any{
			"value":   client.Get(ctx, "key").Val(),
			"expiry":  servertest.ExpiryOf(t, client, "key"),
			"dirty":   servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save"),
			"offset":  servertest.InfoField(t, client, "replication", "master_repl_offset"),
			"caching": servertest.InfoField(t, client, "stats", "tracking_total_keys"),
			"WATCH":   error(nil),
		}
	}
	for _, call := range []struct {
		name      string
		arguments []any
		writes    bool
	}{
		{"limited", []any{"key", 1, 1, 1000, 1}, false},
		{"never", []any{"key", 1, 1, 1000, 2}, false},
		{"peek", []any{"key", 2, 1, 1000, 0}, false},
		{"peek at a key that is not there", []any{"other", 2, 1, 1000, 0}, false},
		{"limited on a key that is not there", []any{"other", 2, 1, 1000, 3}, false},
		{"error", []any{"key", 0, 1, 1000}, false},
		{"allowed", []any{"key", 2, 1, 1000, 1}, true},
	} {
		t.Run(call.name, func(t *testing.T) {
			key := call.arguments[0].(string)
			// The server remembers the key of a caching client until it has told
			// the client that the key changed.
			cache := server.Client(t).Conn()
			defer cache.Close()
			require.NoError(t, cache.Do(ctx, "client", "tracking", "on").Err())
			require.NoError(t, servertest.IgnoreNil(cache.Get(ctx, key).Err()))
			before := traces()
			require.Positive(t, before["caching"])
			watch := client.Watch(ctx, func(transaction *redis.Tx) error {
				client.Do(ctx, append([]any{"cl.throttle"}, call.arguments...)...)
				_, err := transaction.TxPipelined(ctx, func(pipeline redis.Pipeliner) error { return pipeline.Ping(ctx).Err() })
				return err
			}, key)
			after := traces()
			after["WATCH"] = watch
			if !call.writes {
				require.Equal(t, before, after)
				require.Zero(t, client.Exists(ctx, "other").Val())
				return
			}
			for name := range before {
				require.NotEqual(t, before[name], after[name], name)
			}
		})
	}
}

// TestKeyspaceEvents: a write has the events of the SET that replicas execute, and a
// funnel that has drained is gone, by the server's own clock.
func TestKeyspaceEvents(t *testing.T) {
	server := servertest.StartModule(t)
	client, events := server.Client(t), server.Wire(t)
	require.NoError(t, client.ConfigSet(context.Background(), "notify-keyspace-events", "KA").Err())
	events.MustDo(t, "psubscribe", "__keyspace@0__:*")
	servertest.Throttle(t, client, "key", 1, 5, 1)
	servertest.Throttle(t, client, "key", 1, 5, 1) // limited
	servertest.Throttle(t, client, "key", 1, 5, 1, 0)
	for _, event := range []string{"set", "expire", "expired"} {
		got, err := events.Receive()
		require.NoError(t, err)
		require.Equal(t, []any{"pmessage", "__keyspace@0__:*", "__keyspace@0__:key", event}, got)
	}
	require.Equal(t, servertest.Reply{0, 1, 0, -1, 1}, servertest.Throttle(t, client, "key", 1, 5, 1))
}
