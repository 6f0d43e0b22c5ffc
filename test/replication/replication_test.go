package replication_test

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// What replication promises: a replica holds the same funnels as its primary, to
// the byte, however it came by them, and a promoted one grants nothing twice.
// The servers are real, and so are the kills and the cuts.

const replicatedFunnels = 10_000

// TestReplicasHoldTheSameFunnels as their primary, after a load of allowed,
// limited and peeked calls.
func TestReplicasHoldTheSameFunnels(t *testing.T) {
	tally := newTally(replicatedFunnels)
	primary := startPrimary(t)
	first, second := startReplica(t, primary.Port), startReplica(t, primary.Port)

	tally.pourFor(t, primary, servertest.QuickOrLong(500*time.Millisecond, 8*time.Second))

	requireReplicated(t, tally, primary, first, second)
	tally.requireCounted(t, second.Client(t), tally.acknowledged())
}

// TestReplicaThatAttachesUnderLoadHoldsTheSameFunnels: the full copy is sent
// while calls go on, in each way that servers know.
func TestReplicaThatAttachesUnderLoadHoldsTheSameFunnels(t *testing.T) {
	for _, way := range []struct {
		name    string
		setting string // that only some servers have
		config  []string
		log     string // what the primary says of its own way
	}{
		{"from file to file", "", []string{"--repl-diskless-sync", "no", "--repl-diskless-load", "disabled"},
			`SYNC with target: disk`},
		{"without a disk", "", []string{"--repl-diskless-sync", "yes", "--repl-diskless-load", "swapdb"},
			`SYNC with target: replicas sockets( using: normal sync)?\n`},
		{"through a second connection of Redis", "repl-rdb-channel",
			[]string{"--repl-diskless-sync", "yes", "--repl-rdb-channel", "yes"},
			`SYNC with target: replicas sockets \(rdb-channel\)`},
		{"through a second connection of Valkey", "dual-channel-replication-enabled",
			[]string{"--repl-diskless-sync", "yes", "--dual-channel-replication-enabled", "yes"},
			`SYNC with target: replicas sockets using: dual-channel`},
	} {
		t.Run(way.name, func(t *testing.T) {
			if way.setting != "" {
				skipWithout(t, way.setting)
			}
			tally := newTally(replicatedFunnels)
			primary := startPrimary(t, way.config...)
			if way.setting != "repl-rdb-channel" {
				setIfKnown(t, primary.Client(t), "repl-rdb-channel", "no") // where it is the default
			}
			load := tally.pour(t, primary, 0)
			time.Sleep(servertest.QuickOrLong(200*time.Millisecond, 500*time.Millisecond))

			slowDownCopies(t, primary)
			before := tally.answered()
			replica := startReplica(t, primary.Port, way.config...)
			during := tally.answered() - before
			time.Sleep(servertest.QuickOrLong(100*time.Millisecond, 500*time.Millisecond))
			load.stop(t)

			require.Positive(t, during, "calls while the replica attached")
			require.EqualValues(t, 1, servertest.InfoField(t, primary.Client(t), "stats", "sync_full"))
			require.Regexp(t, way.log, primary.Log())
			t.Logf("%d calls while the replica attached", during)
			requireReplicated(t, tally, primary, replica)
		})
	}
}

// TestReplicaWhoseLinkIsCutCatchesUpByPartialResync: cut in the middle of the
// stream, again and again, it receives exactly what it missed.
func TestReplicaWhoseLinkIsCutCatchesUpByPartialResync(t *testing.T) {
	tally := newTally(replicatedFunnels)
	primary := startPrimary(t)
	proxy := startProxy(t, primary)
	replica := startReplica(t, proxy.port)
	client := primary.Client(t)

	load := tally.pour(t, primary, 0)
	cuts := servertest.QuickOrLong(5, 40)
	for cut := range cuts {
		time.Sleep(50 * time.Millisecond)
		proxy.cut()
		missed := tally.answered()
		servertest.Eventually(t, "calls go on that the replica misses", func() bool { return tally.answered() > missed+1000 })
		proxy.restore()
		servertest.Eventually(t, "the replica catches up", func() bool {
			return servertest.InfoField(t, client, "stats", "sync_partial_ok") == int64(cut+1) && isAttached(t, replica)
		})
	}
	load.stop(t)

	t.Logf("%d cuts, %d partial resyncs", cuts, servertest.InfoField(t, client, "stats", "sync_partial_ok"))
	require.EqualValues(t, 1, servertest.InfoField(t, client, "stats", "sync_full"), "only the first time")
	requireReplicated(t, tally, primary, replica)
}

// TestReplicaThatFellBehindServesItsFunnelsUntilItHasTheNewOnes: too far behind
// for a partial resync it loads all of them anew, without a disk, and with
// repl-diskless-load swapdb it answers from the old ones meanwhile. Servers allow
// that only when every module agrees.
func TestReplicaThatFellBehindServesItsFunnelsUntilItHasTheNewOnes(t *testing.T) {
	servertest.NeedSince7(t, "replicas that answer while they load")
	tally := newTally(replicatedFunnels)
	primary := startPrimary(t, "--repl-diskless-sync", "yes", "--repl-backlog-size", "16kb")
	proxy := startProxy(t, primary)
	replica := startReplica(t, proxy.port, "--repl-diskless-load", "swapdb",
		// How often a server that loads serves its clients: 10,000 funnels are
		// less than the megabytes that are usual.
		"--loading-process-events-interval-bytes", "1024")
	client, replicaClient := primary.Client(t), replica.Client(t)

	load := tally.pour(t, primary, 0)
	rounds := servertest.QuickOrLong(1, 4)
	var reads int
	for round := range rounds {
		time.Sleep(100 * time.Millisecond)
		proxy.cut()
		offset := servertest.InfoField(t, client, "replication", "master_repl_offset")
		servertest.Eventually(t, "the backlog has gone round", func() bool {
			return servertest.InfoField(t, client, "replication", "master_repl_offset") > offset+1<<20
		})
		slowDownCopies(t, primary)
		proxy.restore()

		servertest.Eventually(t, "the replica loads beside its funnels", func() bool {
			return servertest.InfoField(t, replicaClient, "persistence", "async_loading") == 1
		})
		for servertest.InfoField(t, replicaClient, "persistence", "async_loading") == 1 {
			require.NoError(t, servertest.IgnoreNil(replicaClient.Get(context.Background(), funnelKey(reads%replicatedFunnels)).Err()))
			reads++
		}
		servertest.Eventually(t, "the replica is attached", func() bool { return isAttached(t, replica) })
		require.EqualValues(t, 2+round, servertest.InfoField(t, client, "stats", "sync_full"))
	}
	load.stop(t)

	require.Positive(t, reads)
	t.Logf("%d full resyncs while serving, %d reads meanwhile", rounds, reads)
	requireReplicated(t, tally, primary, replica)
}

// TestChainedReplicaHoldsTheSameFunnels: a replica of a replica, also when the
// link between them is cut.
func TestChainedReplicaHoldsTheSameFunnels(t *testing.T) {
	tally := newTally(replicatedFunnels)
	primary := startPrimary(t)
	middle := startReplica(t, primary.Port)
	proxy := startProxy(t, middle)
	last := startReplica(t, proxy.port)

	load := tally.pour(t, primary, 0)
	time.Sleep(servertest.QuickOrLong(200*time.Millisecond, 2*time.Second))
	proxy.cut()
	time.Sleep(servertest.QuickOrLong(100*time.Millisecond, 500*time.Millisecond))
	proxy.restore()
	time.Sleep(servertest.QuickOrLong(200*time.Millisecond, 2*time.Second))
	load.stop(t)

	require.EqualValues(t, 1, servertest.InfoField(t, primary.Client(t), "replication", "connected_slaves"))
	requireReplicated(t, tally, primary, middle, last)
	require.EqualValues(t, 1, servertest.InfoField(t, middle.Client(t), "stats", "sync_partial_ok"))
}

// TestReplicaWithoutTheModuleHoldsTheSameFunnels: it receives nothing that it
// does not know, neither in the full copy nor in the stream.
func TestReplicaWithoutTheModuleHoldsTheSameFunnels(t *testing.T) {
	tally := newTally(replicatedFunnels)
	primary := startPrimary(t)
	load := tally.pour(t, primary, 0)
	time.Sleep(servertest.QuickOrLong(200*time.Millisecond, 500*time.Millisecond))
	replica := servertest.Start(t, servertest.Options{Config: replicaConfig(primary.Port)})
	awaitAttached(t, replica)
	time.Sleep(servertest.QuickOrLong(300*time.Millisecond, 3*time.Second))
	load.stop(t)

	requireReplicated(t, tally, primary, replica)
	servertest.RequireError(t, replica.Client(t), "ERR unknown command", funnelKey(0), 1, 1, 1)
}

// TestReplicaWithAnotherClockHoldsTheSameFunnels: whether it is an hour ahead or
// behind, it has the primary's numbers.
func TestReplicaWithAnotherClockHoldsTheSameFunnels(t *testing.T) {
	tally := newTally(replicatedFunnels)
	primary := startPrimary(t)
	ahead, behind := startReplicaWithClock(t, primary.Port, time.Hour), startReplicaWithClock(t, primary.Port, -time.Hour)
	tally.pourFor(t, primary, servertest.QuickOrLong(300*time.Millisecond, 3*time.Second))
	requireReplicated(t, tally, primary, ahead, behind)
}

// TestReplicasReplyREADONLY to allowed calls, limited calls and peeks, sent as they are
// or from a script; a promoted replica accepts them.
func TestReplicasReplyREADONLY(t *testing.T) {
	ctx := context.Background()
	primary := startPrimary(t)
	replica := startReplica(t, primary.Port)
	servertest.Throttle(t, primary.Client(t), "full", 1, 1, secondsPerToken)
	servertest.Throttle(t, primary.Client(t), "half", 2, 1, secondsPerToken)
	client := replica.Client(t)
	servertest.Eventually(t, "the replica has both", func() bool { return client.DBSize(ctx).Val() == 2 })
	half := client.Get(ctx, "half").Val()

	for _, arguments := range [][]any{
		{"new", 1, 1, secondsPerToken}, {"new", 1, 1, secondsPerToken, 0},
		{"half", 2, 1, secondsPerToken}, {"full", 1, 1, secondsPerToken}, {"full", 1, 1, secondsPerToken, 0},
	} {
		servertest.RequireError(t, client, "READONLY", arguments...)
		script := `return redis.call('cl.throttle', KEYS[1], unpack(ARGV))`
		err := client.Eval(ctx, script, []string{arguments[0].(string)}, arguments[1:]...).Err()
		require.ErrorContains(t, err, "READONLY")
	}
	require.Equal(t, half, client.Get(ctx, "half").Val())
	require.EqualValues(t, 2, client.DBSize(ctx).Val())

	promote(t, replica)
	require.EqualValues(t, 1, servertest.Throttle(t, client, "full", 1, 1, secondsPerToken)[0])
	require.Equal(t, servertest.Reply{0, 2, 0, -1, 2 * secondsPerToken}, servertest.Throttle(t, client, "half", 2, 1, secondsPerToken))
}

// TestPromotedReplicaGrantsNothingTwice: a primary is killed under load, the
// replica that is furthest is promoted, the others follow it, and the load goes
// on. What a call was granted that at least one replica has confirmed (WAIT 1) is
// still counted. The links of the replicas are cut before, one after the other,
// so that one lags behind and both miss the last calls.
func TestPromotedReplicaGrantsNothingTwice(t *testing.T) {
	tally := newTally(replicatedFunnels)
	primary := startPrimary(t)
	replicas := []*servertest.Server{startReplica(t, primary.Port), startReplica(t, primary.Port)}

	kills := servertest.QuickOrLong(2, 10)
	for range kills {
		proxies := followByProxies(t, primary, replicas)
		load := tally.pour(t, primary, 1)
		time.Sleep(servertest.QuickOrLong(200*time.Millisecond, 600*time.Millisecond))
		for _, proxy := range proxies {
			proxy.cut()
			time.Sleep(50 * time.Millisecond)
		}
		primary.Kill()
		load.awaitDisconnect(t)

		killed := primary
		primary, replicas = failOver(t, replicas)
		forgotten := tally.requireCounted(t, primary.Client(t), tally.acknowledged())
		require.Zero(t, forgotten)

		killed.Reconfigure(func(options *servertest.Options) { options.Config = replicaConfig(primary.Port) })
		killed.Restart(t)
		awaitAttached(t, killed)
		replicas = append(replicas, killed)
	}
	tally.pourFor(t, primary, servertest.QuickOrLong(200*time.Millisecond, 500*time.Millisecond))
	require.Positive(t, tally.figures.unconfirmed, "calls that no replica has, so that there was something to lose")
	t.Logf("%d primaries killed, %d links cut, 0 confirmed tokens lost", kills, 2*kills)
	requireReplicated(t, tally, primary, replicas...)
}

// followByProxies lets replicas follow their primary through a proxy each.
func followByProxies(t testing.TB, primary *servertest.Server, replicas []*servertest.Server) (proxies []*proxy) {
	t.Helper()
	for _, replica := range replicas {
		proxy := startProxy(t, primary)
		follow(t, replica, proxy.port)
		proxies = append(proxies, proxy)
	}
	return proxies
}

// failOver promotes the replica that is furthest, as Sentinel does, and lets the
// others follow it.
func failOver(t testing.TB, replicas []*servertest.Server) (primary *servertest.Server, others []*servertest.Server) {
	t.Helper()
	furthest := int64(-1)
	for _, replica := range replicas {
		client := replica.Client(t)
		// The last bytes of the killed primary may still be on their way.
		servertest.Eventually(t, "the replica has noticed", func() bool {
			return strings.Contains(client.Info(context.Background(), "replication").Val(), "master_link_status:down")
		})
		if offset := servertest.InfoField(t, client, "replication", "slave_repl_offset"); offset > furthest {
			furthest, primary = offset, replica
		}
	}
	promote(t, primary)
	for _, replica := range replicas {
		if replica != primary {
			follow(t, replica, primary.Port)
			others = append(others, replica)
		}
	}
	return primary, others
}

// follow lets a replica follow another primary, or the same one by another way.
func follow(t testing.TB, replica *servertest.Server, primaryPort int) {
	t.Helper()
	require.NoError(t, replica.Client(t).ReplicaOf(context.Background(), "127.0.0.1", strconv.Itoa(primaryPort)).Err())
	awaitAttached(t, replica)
}

func promote(t testing.TB, replica *servertest.Server) {
	t.Helper()
	require.NoError(t, replica.Client(t).ReplicaOf(context.Background(), "no", "one").Err())
}

// startPrimary starts a server with the module that sends replicas their copy at
// once, and remembers enough of the stream for a partial resync unless the
// configuration says otherwise.
func startPrimary(t testing.TB, config ...string) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: slices.Concat(replicationConfig(), config),
	})
}

// startReplica starts a replica with the module, and waits until it is attached.
func startReplica(t testing.TB, primaryPort int, config ...string) *servertest.Server {
	t.Helper()
	replica := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: slices.Concat(replicaConfig(primaryPort), config),
	})
	awaitAttached(t, replica)
	return replica
}

// startReplicaWithClock starts a replica whose module takes for now what lies that
// much ahead.
func startReplicaWithClock(t testing.TB, primaryPort int, ahead time.Duration) *servertest.Server {
	t.Helper()
	replica := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: replicaConfig(primaryPort),
	})
	servertest.ClockOf(replica.Client(t)).Set(t, time.Now().Add(ahead))
	awaitAttached(t, replica)
	return replica
}

// replicationConfig lets full copies be made without waiting for one of the things
// that servers do once a second.
func replicationConfig() []string {
	return []string{
		"--save", "",
		"--hz", "100", // notices that a copy is written
		"--repl-diskless-sync", "no", // else a replica that is done too soon says so a second later
		"--repl-diskless-sync-delay", "0", // for those who say yes
		"--repl-diskless-load", "swapdb", // else Valkey 9 checks once a second for the file
		"--repl-backlog-size", "64mb",
	}
}

func replicaConfig(primaryPort int) []string {
	return append(replicationConfig(), "--replicaof", "127.0.0.1", strconv.Itoa(primaryPort))
}

func awaitAttached(t testing.TB, replica *servertest.Server) {
	t.Helper()
	servertest.Eventually(t, "the replica is attached", func() bool { return isAttached(t, replica) })
}

func isAttached(t testing.TB, replica *servertest.Server) bool {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: replica.Addr()})
	defer client.Close()
	return strings.Contains(client.Info(context.Background(), "replication").Val(), "master_link_status:up")
}

// slowDownCopies makes a full copy slow, so that many calls come meanwhile.
func slowDownCopies(t testing.TB, primary *servertest.Server) {
	t.Helper()
	// Above 0, microseconds for each key; below 0, keys for each microsecond. Either
	// way the operating system makes more of a microsecond.
	delay := servertest.QuickOrLong("-4", "10")
	require.NoError(t, primary.Client(t).ConfigSet(context.Background(), "rdb-key-save-delay", delay).Err())
}

// skipWithout skips a test on servers that lack a setting.
func skipWithout(t testing.TB, setting string) {
	t.Helper()
	if client := servertest.Start(t, servertest.Options{}).Client(t); !hasSetting(t, client, setting) {
		t.Skipf("this server has no %s", setting)
	}
}

// setIfKnown changes a setting that only some servers have.
func setIfKnown(t testing.TB, client *redis.Client, setting, value string) {
	t.Helper()
	if hasSetting(t, client, setting) {
		require.NoError(t, client.ConfigSet(context.Background(), setting, value).Err())
	}
}

func hasSetting(t testing.TB, client *redis.Client, setting string) bool {
	t.Helper()
	settings, err := client.ConfigGet(context.Background(), setting).Result()
	require.NoError(t, err)
	return len(settings) > 0
}

// requireReplicated waits until the replicas have all that the primary has, and
// requires that they hold the same bytes, and that these count every call.
func requireReplicated(t testing.TB, tally *tally, primary *servertest.Server, replicas ...*servertest.Server) {
	t.Helper()
	client := primary.Client(t)
	waitForReplicas(t, tally, client)
	want := tally.read(t, client)
	for i, replica := range replicas {
		// WAIT counts the replicas of the primary, but not theirs.
		servertest.Eventually(t, "the replica has everything", func() bool {
			return servertest.InfoField(t, replica.Client(t), "replication", "master_repl_offset") >=
				servertest.InfoField(t, client, "replication", "master_repl_offset")
		})
		tally.requireSame(t, want, tally.read(t, replica.Client(t)), "replica "+strconv.Itoa(i+1))
	}
	t.Logf("%v; %d funnels the same on %d servers", tally.figures, inUse(want), 1+len(replicas))
	tally.requireCounted(t, client, tally.acknowledged())
}

// waitForReplicas calls once more, on a funnel that is never full, and waits
// until all replicas have that call and with it all before.
func waitForReplicas(t testing.TB, tally *tally, client *redis.Client) {
	t.Helper()
	ctx := context.Background()
	connection := client.Conn()
	defer connection.Close()
	call := pouring{funnel: 1, capacity: bottomless, quantity: 1}
	_, err := connection.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		call.send(ctx, pipeline)
		return nil
	})
	require.NoError(t, err)
	tally.accounts[call.funnel].open += call.quantity
	tally.enter([]pouring{call}, 0, true)

	replicas := servertest.InfoField(t, client, "replication", "connected_slaves")
	confirmed, err := connection.Do(ctx, "wait", replicas, servertest.Patience.Milliseconds()).Int64()
	require.NoError(t, err)
	require.Equal(t, replicas, confirmed)
}

// A proxy forwards connections to a server, and can be cut off.
type proxy struct {
	port     int
	server   *servertest.Server
	listener net.Listener

	mutex    sync.Mutex
	isCut    bool
	whole    *sync.Cond // broadcast when isCut is no more
	carrying map[net.Conn]bool
}

// startProxy starts a proxy, until the test ends.
func startProxy(t testing.TB, server *servertest.Server) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &proxy{
		port: listener.Addr().(*net.TCPAddr).Port, server: server, listener: listener,
		carrying: map[net.Conn]bool{},
	}
	c.whole = sync.NewCond(&c.mutex)
	t.Cleanup(func() {
		listener.Close()
		c.cut()
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go c.forward(near)
		}
	}()
	return c
}

// forward copies bytes both ways until either end closes, or the proxy is cut. Connections
// that come while it is cut wait until it is restored.
func (c *proxy) forward(near net.Conn) {
	defer near.Close()
	c.mutex.Lock()
	for c.isCut {
		c.whole.Wait()
	}
	c.mutex.Unlock()
	far, err := net.Dial("tcp", c.server.Addr())
	if err != nil {
		return
	}
	defer far.Close()

	c.mutex.Lock()
	if c.isCut {
		c.mutex.Unlock()
		return
	}
	c.carrying[near], c.carrying[far] = true, true
	c.mutex.Unlock()

	ended := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		io.Copy(to, from)
		ended <- struct{}{}
	}
	go pipe(far, near)
	go pipe(near, far)
	<-ended
	c.mutex.Lock()
	delete(c.carrying, near)
	delete(c.carrying, far)
	c.mutex.Unlock()
}

// cut breaks all connections, and with them what is under way.
func (c *proxy) cut() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.isCut = true
	for connection := range c.carrying {
		connection.Close()
	}
}

func (c *proxy) restore() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.isCut = false
	c.whole.Broadcast()
}

// TestScriptOfMillionsOfCallsReplicates: until it is over, all that it has written waits
// to be sent, each SET with a reference to the shared word PXAT. Redis 8.6 counts 2^23
// references to a string at the most, and ends itself at one more.
func TestScriptOfMillionsOfCallsReplicates(t *testing.T) {
	if os.Getenv("FUNNEL_LONG") == "" {
		t.Skip("takes a minute and some gigabytes: set FUNNEL_LONG")
	}
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
			"--crash-memcheck-enabled", "no"}, // a server that crashes here may hang in it
	})
	client := server.Client(t, func(options *redis.Options) { options.ReadTimeout = 5 * time.Minute })
	ctx := context.Background()
	const calls = 8_450_000
	const script = `
		for _ = 1, tonumber(ARGV[1]) do redis.call('cl.throttle', KEYS[1], ARGV[1], '1', '800') end
		return 1`
	start := time.Now()
	require.NoError(t, client.Eval(ctx, script, []string{"key"}, calls).Err())
	t.Logf("%d calls in %v", calls, time.Since(start).Round(time.Millisecond))
	require.EqualValues(t, calls, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
	require.EqualValues(t, 1, servertest.Throttle(t, client, "key", calls, 1, 800)[0])
}
