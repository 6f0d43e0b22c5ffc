package process_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestWithoutMemoryCallsReplyOOMAndFunnelsAreIntact: under noeviction, a server out of
// memory replies what it replies to any write, and evicts nothing.
func TestWithoutMemoryCallsReplyOOMAndFunnelsAreIntact(t *testing.T) {
	server := servertest.StartModule(t)
	client, wire := server.Client(t), server.Wire(t)
	ctx := context.Background()
	const outOfMemory = "OOM command not allowed when used memory > 'maxmemory'"
	key := func(i int) string { return fmt.Sprintf("user:%d", i) }

	limit := servertest.InfoField(t, client, "memory", "used_memory") + 1<<20
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", strconv.FormatInt(limit, 10)).Err())
	filled := 0
	for {
		require.Less(t, filled, 50_000, "the server never ran out of memory")
		got, err := wire.Do("cl.throttle", key(filled), "15", "1", "1000")
		require.NoError(t, err)
		if text, isError := got.(servertest.ErrorReply); isError {
			require.True(t, strings.HasPrefix(string(text), outOfMemory), text)
			break
		}
		require.NoError(t, servertest.MustBeAllowed(filled, got))
		filled++
	}
	t.Logf("%d funnels in 1 MB", filled)
	require.Greater(t, filled, 1000)

	// Buffers of clients count, too, and come and go: make it a clear case.
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", strconv.FormatInt(limit/2, 10)).Err())
	before := client.Do(ctx, "debug", "digest").Val()
	for i := range 1000 {
		servertest.RequireError(t, client, outOfMemory, key(i), 15, 1, 1000)
		servertest.RequireError(t, client, outOfMemory, key(filled+i), 15, 1, 1000)
	}
	servertest.RequireError(t, client, outOfMemory, key(0), 15, 1, 1000, 0)
	script := `return redis.call('cl.throttle', KEYS[1], 15, 1, 1000)`
	require.ErrorContains(t, client.Eval(ctx, script, []string{key(0)}).Err(), "OOM")
	_, err := client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
		return pipeline.Do(ctx, "cl.throttle", key(0), 15, 1, 1000).Err()
	})
	require.ErrorContains(t, err, "EXECABORT")
	require.Equal(t, before, client.Do(ctx, "debug", "digest").Val(), "a call that failed wrote something")
	require.EqualValues(t, filled, client.DBSize(ctx).Val())
	require.NotEmpty(t, client.Get(ctx, key(0)).Val(), "reading goes on")

	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "0").Err())
	for i := range filled {
		got, err := wire.Do("cl.throttle", key(i), "15", "1", "1000")
		require.NoError(t, err)
		require.NoError(t, servertest.MustBeAllowed(i, got))
		require.EqualValues(t, 13, got.([]any)[2], "funnel %d has forgotten its first call", i)
	}
}

// floodServer fills a server of little memory with funnels and returns how many
// calls it made. A server whose table of keys doubles may need more at once than it
// can evict in time, and reply OOM to a few of them (seen on Redis 8.6); no more than that.
func floodServer(t *testing.T, policy string, prepare func(client *redis.Client)) (client *redis.Client, calls int) {
	server := servertest.StartModule(t)
	client = server.Client(t)
	ctx := context.Background()
	limit := servertest.InfoField(t, client, "memory", "used_memory") + 4<<20
	require.NoError(t, client.ConfigSet(ctx, "maxmemory-policy", policy).Err())
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", strconv.FormatInt(limit, 10)).Err())
	prepare(client)

	calls = servertest.QuickOrLong(100_000, 1_000_000)
	start := time.Now()
	outOfMemory := 0
	require.NoError(t, servertest.CallMany(server.Wire(t), calls, func(i int) []string {
		return []string{"cl.throttle", "flood:" + strconv.Itoa(i), "15", "1", "1000"}
	}, func(i int, got any) error {
		if text, isError := got.(servertest.ErrorReply); isError && strings.HasPrefix(string(text), "OOM ") {
			outOfMemory++
			return nil
		}
		return servertest.MustBeAllowed(i, got)
	}))
	require.Less(t, outOfMemory, calls/100)
	evicted := servertest.InfoField(t, client, "stats", "evicted_keys")
	used := servertest.InfoField(t, client, "memory", "used_memory")
	t.Logf("%d calls, %d per second; %d keys evicted; %d bytes used of %d",
		calls, servertest.CallsPerSecond(calls, start), evicted, used, limit)
	require.Greater(t, evicted, int64(calls/4))
	require.Less(t, used, limit+1<<20)
	require.EqualValues(t, 1, servertest.Throttle(t, client, "full", 1, 1, 1000, 2)[0], "limits are still kept")
	return client, calls
}

// TestVolatileTTLEvictsTheFunnelsThatDrainFirst, and nothing that does not expire.
func TestVolatileTTLEvictsTheFunnelsThatDrainFirst(t *testing.T) {
	const slow = 100
	client, _ := floodServer(t, "volatile-ttl", func(client *redis.Client) {
		require.NoError(t, client.Set(context.Background(), "data", "precious", 0).Err())
		for i := range slow {
			servertest.Throttle(t, client, fmt.Sprintf("slow:%d", i), 15, 1, 1_000_000)
		}
	})
	require.Equal(t, "precious", client.Get(context.Background(), "data").Val())
	for i := range slow {
		require.EqualValues(t, 13, servertest.Throttle(t, client, fmt.Sprintf("slow:%d", i), 15, 1, 1_000_000)[2], "slow:%d", i)
	}
}

// TestAllKeysLRUEvictsFunnelsWhichThenStartAnew: an evicted funnel is an empty one.
func TestAllKeysLRUEvictsFunnelsWhichThenStartAnew(t *testing.T) {
	client, calls := floodServer(t, "allkeys-lru", func(*redis.Client) {})
	ctx := context.Background()
	const samples = 1000
	kept, evicted := 0, 0
	for i := range samples {
		key := fmt.Sprintf("flood:%d", calls-1-i*(calls/samples))
		// In one transaction, within which nothing is evicted.
		var exists *redis.IntCmd
		var call *redis.Cmd
		_, err := client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
			exists = pipeline.Exists(ctx, key)
			call = pipeline.Do(ctx, "cl.throttle", key, 15, 1, 1000)
			return nil
		})
		require.NoError(t, err)
		reply, err := call.Int64Slice()
		require.NoError(t, err)
		if exists.Val() == 1 {
			require.EqualValues(t, 13, reply[2], key)
			kept++
		} else {
			require.EqualValues(t, 14, reply[2], key)
			evicted++
		}
	}
	t.Logf("of %d funnels, %d were still there", samples, kept)
	require.Positive(t, kept)
	require.Positive(t, evicted)
}

// TestOneShotFunnelsGiveTheirMemoryBack: keys that are called once and never
// again cost nothing once they have drained.
func TestOneShotFunnelsGiveTheirMemoryBack(t *testing.T) {
	server := servertest.StartModule(t)
	client := server.Client(t)
	ctx := context.Background()
	calls, period := servertest.QuickOrLong(200_000, 10_000_000), servertest.QuickOrLong("1", "2")
	const connections = 2
	used := func() int64 { return servertest.InfoField(t, client, "memory", "used_memory") }
	before := used()

	var group sync.WaitGroup
	errs := make([]error, connections)
	start := time.Now()
	for connection := range connections {
		wire, err := server.TryWire()
		require.NoError(t, err)
		group.Go(func() {
			defer wire.Close() // its buffers count
			errs[connection] = servertest.CallMany(wire, calls/connections, func(i int) []string {
				return []string{"cl.throttle", fmt.Sprintf("once:%d:%d", connection, i), "1", "1", period}
			}, servertest.MustBeAllowed)
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	peak, peakKeys := int64(0), int64(0)
	for running := true; running; {
		peak, peakKeys = max(peak, used()), max(peakKeys, client.DBSize(ctx).Val())
		select {
		case <-done:
			running = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	require.NoError(t, errors.Join(errs...))
	rate := servertest.CallsPerSecond(calls, start)

	const slack = 256 << 10
	require.Greater(t, peak, before+2*slack, "nothing to give back")
	servertest.Eventually(t, "all funnels are gone", func() bool { return client.DBSize(ctx).Val() == 0 })
	servertest.Eventually(t, "the memory is back", func() bool { return used() < before+slack })
	t.Logf("%d funnels, %d per second: %d keys and %d KB at the peak, %d KB before, %d KB after",
		calls, rate, peakKeys, peak>>10, before>>10, used()>>10)
	require.EqualValues(t, calls, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
	require.EqualValues(t, calls, servertest.InfoField(t, client, "stats", "expired_keys"))
}

// TestTenThousandConnectionsShareOneFunnel: each makes calls, all at once, and
// the funnel lets through what it holds.
func TestTenThousandConnectionsShareOneFunnel(t *testing.T) {
	connections := servertest.QuickOrLong(1_000, 10_000)
	const spare = 200 // files of the server and of this test for other purposes
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if files.Max < uint64(connections+spare) {
		t.Skipf("ulimit -Hn is %d: too few for %d connections", files.Max, connections)
	}
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: []string{"--save", "", "--maxclients", strconv.Itoa(connections + 100), "--tcp-backlog", "4096"},
	})
	client := server.Client(t)
	const callsEach = 3
	capacity := connections // a third of the calls

	start := time.Now()
	wires := make([]*servertest.Wire, connections)
	for i := range wires {
		wires[i] = server.Wire(t)
	}
	require.GreaterOrEqual(t, servertest.InfoField(t, client, "clients", "connected_clients"), int64(connections))
	allowed := 0
	for range callsEach {
		call := servertest.AppendCommand(nil, "cl.throttle", "shared", strconv.Itoa(capacity), "1", "100000")
		for _, wire := range wires {
			_, err := wire.Write(call)
			require.NoError(t, err)
		}
		for _, wire := range wires {
			got, err := wire.Receive()
			require.NoError(t, err)
			reply, ok := got.([]any)
			require.True(t, ok, "%v", got)
			allowed += 1 - int(reply[0].(int64))
		}
	}
	t.Logf("%d connections, %d calls in %v", connections, callsEach*connections, time.Since(start).Round(time.Millisecond))
	require.Equal(t, capacity, allowed)
}

// TestMemoryOfTheProcessIsAsWithoutTheModule, but for the file itself: the medians of
// several servers side by side, for the memory of one varies.
func TestMemoryOfTheProcessIsAsWithoutTheModule(t *testing.T) {
	const servers = 9
	var with, without []*servertest.Server
	for range servers {
		with = append(with, servertest.Start(t, servertest.Options{Module: servertest.Module(t)}))
		without = append(without, servertest.Start(t, servertest.Options{}))
	}
	if servertest.Emulated(t, with[0]) {
		t.Skip("the emulator keeps what it has translated")
	}
	for i := range servers {
		require.NoError(t, servertest.CallMany(with[i].Wire(t), 1000, func(int) []string {
			return []string{"cl.throttle", "key", "1000000", "1", "1000"}
		}, servertest.MustBeAllowed))
		require.NoError(t, servertest.CallMany(without[i].Wire(t), 1000, func(int) []string {
			return []string{"set", "key", "1700000000000000000", "px", "1000000"}
		}, func(int, any) error { return nil }))
	}
	median := func(servers []*servertest.Server, kind string) int64 {
		var sizes []int64
		for _, server := range servers {
			sizes = append(sizes, servertest.MemoryOf(t, server, kind))
		}
		slices.Sort(sizes)
		return sizes[len(sizes)/2]
	}
	for kind, most := range map[string]int64{"RssAnon": 200 << 10, "VmRSS": 700 << 10} {
		var figures string
		servertest.Await(t, 100*time.Millisecond, "the memory is as without the module", func() error {
			got, want := median(with, kind), median(without, kind)
			figures = fmt.Sprintf("%s is %d KB with the module, and %d KB without", kind, got>>10, want>>10)
			if got > want+most {
				return errors.New(figures)
			}
			return nil
		})
		t.Log(figures)
	}
}
