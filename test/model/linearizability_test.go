package model_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
)

// The tests in this file record what concurrent clients saw of a few funnels, and
// have porcupine search for an order of the calls, each somewhere between its start
// and its end, in which package gcra gives the same answers. If there is none, the
// calls were not atomic.
//
// The answers depend on the server's clock. Either a test sets it, and setting it
// is part of the history; or it is the real one, and since server and clients are
// on one machine, the clock that a client read before and after its call bounds
// what the server read in between.

// A limiter executes an operation, and says what came of it.
type limiter func(operation) result

// onServer executes operations as the module's clients do. With replicas, it adds
// a write and waits until that many have confirmed it, and so all that came before
// it: what the operation did, and what it saw. Without that confirmation the
// answer does not count.
func onServer(client *redis.Client, replicas int) limiter {
	return func(operation operation) result {
		ctx := context.Background()
		pipeline := client.Pipeline()
		if operation.action == pourAndRead {
			pipeline.Do(ctx, "multi")
		}
		var poured, got, executed *redis.Cmd
		f := operation.funnel
		switch operation.action {
		case setClock:
			pipeline.Do(ctx, "funnel.debug", "clock", operation.instant)
		case pour, pourAndRead:
			poured = pipeline.Do(ctx, "cl.throttle", f.key, f.capacity, f.count, f.period, operation.quantity)
		}
		switch operation.action {
		case read, pourAndRead:
			got = pipeline.Do(ctx, "get", f.key)
		}
		if operation.action == pourAndRead {
			executed = pipeline.Do(ctx, "exec")
		}
		var confirmed *redis.Cmd
		if replicas > 0 {
			pipeline.Set(ctx, "mark", operation.quantity, 0)
			confirmed = pipeline.Do(ctx, "wait", replicas, servertest.Patience.Milliseconds())
		}
		if _, err := pipeline.Exec(ctx); servertest.IgnoreNil(err) != nil {
			return result{unknown: true}
		}
		if confirmed != nil {
			if count, err := confirmed.Int(); err != nil || count < replicas {
				return result{unknown: true}
			}
		}
		if executed != nil {
			answers, _ := executed.Slice()
			if len(answers) != 2 {
				return result{unknown: true}
			}
			poured.SetVal(answers[0])
			got.SetVal(answers[1])
		}
		return resultOf(poured, got)
	}
}

// resultOf reads the answers of CL.THROTTLE and of GET, either of which may be
// missing.
func resultOf(poured, got *redis.Cmd) (answer result) {
	if poured != nil {
		numbers, err := poured.Int64Slice()
		if err != nil || len(numbers) != len(servertest.Reply{}) {
			return result{unknown: true}
		}
		answer.reply = servertest.Reply(numbers)
	}
	if got != nil && got.Val() != nil {
		text, _ := got.Text()
		tat, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return result{unknown: true}
		}
		answer.tat = tat
	}
	return answer
}

// readOutsideTheCall is a limiter as it must not be: it reads the funnel in one
// command, decides in the client, and writes in another command.
func readOutsideTheCall(client *redis.Client) limiter {
	return func(operation operation) result {
		ctx := context.Background()
		key := operation.funnel.key
		tat, err := client.Get(ctx, key).Int64()
		if servertest.IgnoreNil(err) != nil {
			return result{unknown: true}
		}
		if operation.action == read {
			return result{tat: tat}
		}
		decision, err := operation.funnel.rate().Decide(tat, time.Now().UnixNano(), operation.quantity)
		if err != nil {
			return result{unknown: true}
		}
		if decision.TAT != tat {
			err := client.Do(ctx, "set", key, decision.TAT, "pxat", gcra.Milliseconds(decision.TAT)).Err()
			if err != nil {
				return result{unknown: true}
			}
		}
		return result{reply: toSeconds(decision), tat: decision.TAT}
	}
}

// anOperation picks an operation on one of the funnels at random.
func anOperation(funnels []funnel) operation {
	operation := operation{action: pour, quantity: 1, funnel: funnels[rand.IntN(len(funnels))]}
	switch dice := rand.IntN(100); {
	case dice < 50:
	case dice < 60:
		operation.quantity = 2 + rand.Int64N(3)
	case dice < 70:
		operation.quantity = 0
	case dice < 73:
		operation.quantity = operation.funnel.capacity + 1
	case dice < 88:
		operation.action = pourAndRead
	default:
		operation.action = read
	}
	return operation
}

// recordClients has some clients work on the funnels at once, each with a limiter
// of its own, and records it.
func recordClients(history *history, clients, operations int, funnels []funnel, connect func() limiter) {
	var running sync.WaitGroup
	for client := range clients {
		limiter := connect()
		running.Go(func() {
			for range operations {
				history.record(client, anOperation(funnels), limiter)
			}
		})
	}
	running.Wait()
}

// funnelsOfAllKinds leak nothing during a test, or some, or nearly at once; and
// are large or small.
var funnelsOfAllKinds = []funnel{
	{key: "still and large", capacity: 100_000, count: 1, period: 1000},
	{key: "still and small", capacity: 100, count: 1, period: servertest.StillPeriod},
	{key: "leaks 100 per second", capacity: 20, count: 100, period: 1},
	{key: "leaks 20000 per second", capacity: 5, count: 20_000, period: 1},
}

const historyClients = 8

// TestLinearizableByAClockThatIsSet, forward and backward, while clients pour.
func TestLinearizableByAClockThatIsSet(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	history := newHistory()
	connect := func() limiter { return onServer(server.Client(t), 0) }

	now := servertest.Epoch.UnixNano()
	setClockTo := func(instant int64) {
		history.record(historyClients, operation{action: setClock, instant: instant}, connect())
	}
	setClockTo(now)
	var done atomic.Bool
	var clocks sync.WaitGroup
	clocks.Go(func() {
		limiter := connect()
		for !done.Load() {
			switch dice := rand.IntN(100); {
			case dice < 3:
				now -= int64(time.Hour)
			case dice < 6:
				now += int64(time.Hour)
			default:
				now += rand.Int64N(int64(20 * time.Millisecond))
			}
			history.record(historyClients, operation{action: setClock, instant: now}, limiter)
		}
	})
	recordClients(history, historyClients, servertest.QuickOrLong(400, 4000), funnelsOfAllKinds, connect)
	done.Store(true)
	clocks.Wait()

	history.requireAllAnswered(t)
	history.requireLinearizable(t, exactModel)
}

// TestLinearizableByTheRealClock: as it runs in production.
func TestLinearizableByTheRealClock(t *testing.T) {
	server := servertest.StartModule(t)
	history := newHistory()
	recordClients(history, historyClients, servertest.QuickOrLong(2000, 20_000), funnelsOfAllKinds, func() limiter {
		return onServer(server.Client(t), 0)
	})
	history.requireSteadyClock(t)
	history.requireAllAnswered(t)
	history.requireLinearizable(t, boundedModel)
}

// TestNotLinearizableWhenReadOutsideTheCall: the check would see it if calls were
// not atomic. One client alone is right even so; several are not.
func TestNotLinearizableWhenReadOutsideTheCall(t *testing.T) {
	server := servertest.StartModule(t)
	for _, c := range []struct {
		clients int
		want    porcupine.CheckResult
	}{{1, porcupine.Ok}, {historyClients, porcupine.Illegal}} {
		require.NoError(t, server.Client(t).FlushAll(context.Background()).Err())
		history := newHistory()
		recordClients(history, c.clients, 1000/c.clients, funnelsOfAllKinds, func() limiter {
			return readOutsideTheCall(server.Client(t))
		})
		history.requireSteadyClock(t)
		history.requireAllAnswered(t)
		require.Equal(t, c.want, history.check(boundedModel), "%d clients", c.clients)
		t.Logf("%d clients, %v: %s", c.clients, history, c.want)
	}
}

// A pair is a primary and its replica, of which one is killed.
type pair struct {
	primary, replica             *servertest.Server
	primaryClient, replicaClient *redis.Client
	killed                       atomic.Bool // the primary
}

// newPair puts a replica beside a primary.
func newPair(t testing.TB, primary *servertest.Server, client *redis.Client) *pair {
	t.Helper()
	replica := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: []string{"--save", "", "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port),
			"--repl-diskless-sync-delay", "0"},
	})
	servertest.Eventually(t, "the replica is attached", func() bool {
		return strings.Contains(client.Info(context.Background(), "replication").Val(), "state=online")
	})
	return &pair{primary: primary, replica: replica, primaryClient: client, replicaClient: replica.Client(t)}
}

// startPair starts a primary with a replica.
func startPair(t testing.TB) *pair {
	t.Helper()
	primary := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: []string{"--save", "", "--repl-diskless-sync-delay", "0"},
	})
	return newPair(t, primary, primary.Client(t))
}

// promote makes the replica a primary, whether the old one still lives or not.
func (p *pair) promote(t testing.TB) {
	t.Helper()
	require.NoError(t, p.replicaClient.Do(context.Background(), "replicaof", "no", "one").Err())
}

// funnelsOfAFailover have room for all that a test pours, or leak.
var funnelsOfAFailover = []funnel{
	{key: "still and large", capacity: 100_000, count: 1, period: 1000},
	{key: "still and small", capacity: 300, count: 1, period: servertest.StillPeriod},
	{key: "leaks 100 per second", capacity: 20, count: 100, period: 1},
}

// TestLinearizableAcrossFailovers: primaries are killed under load and replicas
// promoted, and the calls that were confirmed by the replica, together with some of
// those that went without an answer, still are the calls on one funnel.
func TestLinearizableAcrossFailovers(t *testing.T) {
	history := newHistory()
	var current atomic.Pointer[pair]
	current.Store(startPair(t))
	var done atomic.Bool
	var running sync.WaitGroup
	for client := range historyClients {
		running.Go(func() {
			for !done.Load() {
				here := current.Load()
				history.record(client, anOperation(funnelsOfAFailover), onServer(here.primaryClient, 1))
				// A client whose server has ended waits for the next one.
				for here.killed.Load() && current.Load() == here && !done.Load() {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	defer running.Wait()
	defer done.Store(true)

	failovers := servertest.QuickOrLong(3, 30)
	more := func() {
		enough := history.size() + 400
		servertest.Eventually(t, "the clients go on", func() bool { return history.size() >= enough })
	}
	for range failovers {
		more()
		here := current.Load()
		here.primary.Kill()
		here.killed.Store(true)
		history.settle()
		here.promote(t)
		current.Store(newPair(t, here.replica, here.replicaClient))
	}
	more()
	done.Store(true)
	running.Wait()

	history.requireSteadyClock(t)
	_, _, _, _, unknown := history.answers()
	require.Positive(t, unknown, "no failover has hit a call")
	history.requireLinearizable(t, boundedModel)
	t.Logf("%d failovers; calls that the replica had confirmed and that were lost: 0", failovers)
}

// TestNotLinearizableWhenAWriteIsLost: the check would see it if a failover lost a
// call that has been acknowledged. Here it does, as the link was cut before.
func TestNotLinearizableWhenAWriteIsLost(t *testing.T) {
	for _, c := range []struct {
		lost int
		want porcupine.CheckResult
	}{{0, porcupine.Ok}, {3, porcupine.Illegal}} {
		pair := startPair(t)
		history := newHistory()
		still := funnelsOfAFailover[:1]
		work := func(client *redis.Client, operations, replicas int) {
			recordClients(history, historyClients, operations, still, func() limiter { return onServer(client, replicas) })
		}
		work(pair.primaryClient, 10, 1)
		pair.promote(t)
		for range c.lost {
			lost := operation{action: pour, funnel: still[0], quantity: 1}
			history.record(0, lost, onServer(pair.primaryClient, 0))
		}
		pair.primary.Kill()
		work(pair.replicaClient, 10, 0)

		history.requireSteadyClock(t)
		history.requireAllAnswered(t)
		require.Equal(t, c.want, history.check(boundedModel), "%d calls lost", c.lost)
		t.Logf("%v, %d calls lost: %s", history, c.lost, c.want)
	}
}
