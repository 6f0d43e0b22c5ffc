package process_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestWithoutMemoryCallsReplyOOM, as any write does, peeks included, and nothing changes.
func TestWithoutMemoryCallsReplyOOM(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := t.Context()
	const outOfMemory = "OOM command not allowed when used memory > 'maxmemory'"
	servertest.Throttle(t, client, "key", 15, 1, servertest.StillPeriod)
	tat := client.Get(ctx, "key").Val()
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
	for _, key := range []string{"key", "another"} {
		servertest.RequireError(t, client, outOfMemory, key, 15, 1, servertest.StillPeriod)
		servertest.RequireError(t, client, outOfMemory, key, 15, 1, servertest.StillPeriod, 0)
	}
	require.ErrorContains(t, client.Eval(ctx, `return redis.call('cl.throttle', KEYS[1], 15, 1, 1000)`, []string{"key"}).Err(), "OOM")
	_, err := client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
		return pipeline.Do(ctx, "cl.throttle", "key", 15, 1, 1000).Err()
	})
	require.ErrorContains(t, err, "EXECABORT")
	require.Equal(t, tat, client.Get(ctx, "key").Val())
	require.EqualValues(t, 1, client.DBSize(ctx).Val())

	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "0").Err())
	require.EqualValues(t, 13, servertest.Throttle(t, client, "key", 15, 1, servertest.StillPeriod)[2])
}

// TestDrainedFunnelsGiveTheirMemoryBack: a key that is called twice and never again costs
// nothing once it has drained. The first call adds it, the second writes in its place.
func TestDrainedFunnelsGiveTheirMemoryBack(t *testing.T) {
	server := servertest.StartModule(t)
	client, wire := server.Client(t), server.Wire(t)
	used := func() int64 { return servertest.InfoField(t, client, "memory", "used_memory") }
	calls := servertest.QuickOrLong(100_000, 10_000_000)
	round := func() {
		require.NoError(t, servertest.CallMany(wire, calls, func(i int) []string {
			return []string{"cl.throttle", fmt.Sprintf("once:%d", i/2), "2", "1", "0.5"}
		}, servertest.MustBeAllowed))
		servertest.Eventually(t, "all funnels are gone", func() bool { return client.DBSize(t.Context()).Val() == 0 })
	}
	round() // which makes the buffers of the connections as large as they get
	const slack = 256 << 10
	before := used()
	round()
	require.Greater(t, int64(calls/2*16), int64(2*slack), "a leak would be seen")
	servertest.Eventually(t, "the memory is back", func() bool { return used() < before+slack })
	require.EqualValues(t, 2*calls, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
}

// TestMemoryOfTheProcessIsAsWithoutTheModule, but for the file itself: the medians of
// several servers side by side, for the memory of one varies.
func TestMemoryOfTheProcessIsAsWithoutTheModule(t *testing.T) {
	commands := map[string][]string{
		servertest.Module(t): {"cl.throttle", "key", "1000000", "1", "1000"},
		"":                   {"set", "key", "1700000000000000000", "px", "1000000"},
	}
	servers := map[string][]*servertest.Server{}
	for range servertest.QuickOrLong(3, 9) {
		for module, command := range commands {
			server := servertest.Start(t, servertest.Options{Module: module})
			if servertest.Emulated(t, server) {
				t.Skip("the emulator keeps what it has translated")
			}
			require.NoError(t, servertest.CallMany(server.Wire(t), 1000,
				func(int) []string { return command }, func(int, any) error { return nil }))
			servers[module] = append(servers[module], server)
		}
	}
	median := func(module, kind string) int64 {
		var sizes []int64
		for _, server := range servers[module] {
			sizes = append(sizes, servertest.MemoryOf(t, server, kind))
		}
		slices.Sort(sizes)
		return sizes[len(sizes)/2]
	}
	for kind, most := range map[string]int64{"RssAnon": 200 << 10, "VmRSS": 700 << 10} {
		var figures string
		servertest.Await(t, 100*time.Millisecond, "the memory is as without the module", func() error {
			with, without := median(servertest.Module(t), kind), median("", kind)
			figures = fmt.Sprintf("%s is %d KB with the module, and %d KB without", kind, with>>10, without>>10)
			if with > without+most {
				return errors.New(figures)
			}
			return nil
		})
		t.Log(figures)
	}
}
