package funnel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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
// have porcupine look for an order of the calls, each somewhere between its start
// and its end, in which package gcra gives the same answers. If there is none, the
// calls were not atomic.
//
// The answers depend on the server's clock. Either a test sets it, and setting it
// is part of the history; or it is the real one, and since server and clients are
// on one machine, the clock that a client read before and after its call bounds
// what the server read in between.

// An action is what an operation does.
type action int

const (
	pour        action = iota // CL.THROTTLE
	pourAndRead               // CL.THROTTLE and GET in one transaction: the answer, and the TAT that it left
	read                      // GET
	setClock                  // FUNNEL.DEBUG CLOCK
)

// An operation is what a client asked for: the input of porcupine's models.
type operation struct {
	action   action
	funnel   funnel
	quantity int64
	instant  int64 // to set the clock to

	// The clock of the machine before and after, in nanoseconds.
	earliest, latest int64
}

// A funnel is a key with its rate.
type funnel struct {
	key                     string
	capacity, count, period int64
}

func (f funnel) rate() gcra.Rate {
	rate, err := gcra.NewRate(f.capacity, f.count, f.period*int64(time.Second))
	if err != nil {
		panic(err)
	}
	return rate
}

// A result is what a client was answered: the output of porcupine's models.
type result struct {
	// unknown says that there was no answer: the server may have done what it was
	// asked, or not.
	unknown bool

	reply reply
	tat   int64 // what was read, gcra.Empty for no key
}

func (o operation) String() string {
	switch o.action {
	case setClock:
		return fmt.Sprintf("clock %d", o.instant)
	case read:
		return fmt.Sprintf("get %s", o.funnel.key)
	case pourAndRead:
		return fmt.Sprintf("throttle %v %d, get", o.funnel, o.quantity)
	}
	return fmt.Sprintf("throttle %v %d", o.funnel, o.quantity)
}

// A history is the record of what clients did and saw.
type history struct {
	began      time.Time
	mutex      sync.Mutex
	operations []porcupine.Operation
	settled    int // of the operations: no server will execute them any more
}

func newHistory() *history { return &history{began: time.Now()} }

// record does something and writes down when and what.
func (h *history) record(client int, operation operation, do func(operation) result) {
	called := time.Now()
	result := do(operation)
	returned := time.Now()
	operation.earliest, operation.latest = called.UnixNano(), returned.UnixNano()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: client,
		Input:    operation,
		Call:     int64(called.Sub(h.began)), // by the monotonic clock
		Output:   result,
		Return:   int64(returned.Sub(h.began)),
	})
}

// settle is told that the server has died. Until then it may have executed the
// operations that went without an answer.
func (h *history) settle() {
	now := time.Now()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i := range h.operations[h.settled:] {
		recorded := &h.operations[h.settled+i]
		if recorded.Output.(result).unknown {
			operation := recorded.Input.(operation)
			operation.latest = now.UnixNano()
			recorded.Input, recorded.Return = operation, int64(now.Sub(h.began))
		}
	}
	h.settled = len(h.operations)
}

// answers counts the operations by how they were answered.
func (h *history) answers() (allowed, limited, reads, clocks, unknown int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, recorded := range h.operations {
		operation, result := recorded.Input.(operation), recorded.Output.(result)
		switch {
		case result.unknown:
			unknown++
		case operation.action == read:
			reads++
		case operation.action == setClock:
			clocks++
		case result.reply[0] == 0:
			allowed++
		default:
			limited++
		}
	}
	return allowed, limited, reads, clocks, unknown
}

// size is the number of operations.
func (h *history) size() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.operations)
}

func (h *history) String() string {
	allowed, limited, reads, clocks, unknown := h.answers()
	return fmt.Sprintf("%d operations (%d allowed, %d limited, %d reads, %d changes of the clock, %d without an answer)",
		h.size(), allowed, limited, reads, clocks, unknown)
}

// requireAllAnswered requires that no operation failed.
func (h *history) requireAllAnswered(t testing.TB) {
	t.Helper()
	_, _, _, _, unknown := h.answers()
	require.Zero(t, unknown)
}

// requireSteadyClock makes sure that nobody has set the machine's clock meanwhile:
// the bounds of the server's clock would be worth nothing.
func (h *history) requireSteadyClock(t testing.TB) {
	t.Helper()
	now := time.Now()
	drift := now.Round(0).Sub(h.began.Round(0)) - now.Sub(h.began)
	require.Less(t, drift.Abs(), 50*time.Millisecond, "the clock of this machine was set during the test")
}

// check looks for an order of the calls that the model explains.
func (h *history) check(model porcupine.Model) porcupine.CheckResult {
	const longest = 60 * time.Second
	model.Partition = byFunnel
	return porcupine.CheckOperationsTimeout(model, h.operations, longest)
}

// requireLinearizable requires that there is such an order. If not, it leaves a
// page behind that shows how far the calls can be explained.
func (h *history) requireLinearizable(t testing.TB, model porcupine.Model) {
	t.Helper()
	began := time.Now()
	verdict := h.check(model)
	if verdict != porcupine.Ok {
		model.Partition = byFunnel
		_, information := porcupine.CheckOperationsVerbose(model, h.operations, 10*time.Second)
		page, err := os.CreateTemp("", "not-linearizable-*.html")
		require.NoError(t, err)
		defer page.Close()
		require.NoError(t, porcupine.Visualize(model, information, page))
		t.Logf("see %s", page.Name())
	}
	require.Equal(t, porcupine.Ok, verdict)
	t.Logf("%v: linearizable, found in %v", h, time.Since(began).Round(time.Millisecond))
}

// byFunnel cuts a history into one for each funnel. The clock belongs to all.
func byFunnel(operations []porcupine.Operation) [][]porcupine.Operation {
	var clocks []porcupine.Operation
	funnels := map[string][]porcupine.Operation{}
	for _, o := range operations {
		if operation := o.Input.(operation); operation.action == setClock {
			clocks = append(clocks, o)
		} else {
			funnels[operation.funnel.key] = append(funnels[operation.funnel.key], o)
		}
	}
	var parts [][]porcupine.Operation
	for _, part := range funnels {
		parts = append(parts, append(part, clocks...))
	}
	return parts
}

// An exactState is all that decides over an answer when the clock is set by hand.
type exactState struct{ now, tat int64 }

// exactModel is package gcra with a clock that operations set: it knows every
// answer to the nanosecond.
var exactModel = porcupine.Model{
	Init: func() any { return exactState{tat: gcra.Empty} },
	Step: func(state, input, output any) (bool, any) {
		before, operation, result := state.(exactState), input.(operation), output.(result)
		switch operation.action {
		case setClock:
			return true, exactState{now: operation.instant, tat: before.tat}
		case read:
			return result.tat == before.tat, before
		}
		decision, err := operation.funnel.rate().Decide(before.tat, before.now, operation.quantity)
		if err != nil || result.reply != toSeconds(decision) {
			return false, before
		}
		after := exactState{now: before.now, tat: decision.TAT}
		return operation.action == pour || result.tat == after.tat, after
	},
}

// toSeconds is the answer that the contract derives from a decision.
func toSeconds(decision gcra.Decision) reply {
	limited := int64(0)
	if decision.Limited {
		limited = 1
	}
	return reply{limited, decision.Limit, decision.Remaining,
		gcra.Seconds(decision.RetryAfter), gcra.Seconds(decision.ResetAfter)}
}

// A span is a range of nanoseconds, both ends included.
type span struct{ from, to int64 }

func (s span) and(other span) span  { return span{max(s.from, other.from), min(s.to, other.to)} }
func (s span) shift(by int64) span  { return span{s.from + by, s.to + by} }
func (s span) plus(other span) span { return span{s.from + other.from, s.to + other.to} }
func (s span) empty() bool          { return s.from > s.to }
func (s span) hull(other span) span {
	switch {
	case s.empty():
		return other
	case other.empty():
		return s
	}
	return span{min(s.from, other.from), max(s.to, other.to)}
}

// highest is above any level: half of 63 bits, so that sums fit.
const highest = maxInt63 / 2

// nothing is an empty span.
var nothing = span{1, 0}

// boundedModel is gcra with a real clock, of which only bounds are known. Its
// state is the span in which the TAT must lie for all answers so far; what an
// answer says of the level, and the clock's bounds, narrow it. Whoever reads the
// TAT pins it to the nanosecond.
//
// Spans are rounded outwards wherever they are not exact, so that the model never
// refuses what a correct server may answer.
var boundedModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{span{gcra.Empty, gcra.Empty}} },
	Step: func(state, input, output any) []any {
		tat, operation, result := state.(span), input.(operation), output.(result)
		clock := span{operation.earliest, operation.latest}
		var after []any
		add := func(tat span) {
			if operation.action == pourAndRead && !result.unknown {
				tat = narrow(tat, clock, result.tat)
			}
			if !tat.empty() {
				after = append(after, tat)
			}
		}
		switch {
		case operation.action == read && result.unknown:
			add(tat)
		case operation.action == read:
			add(narrow(tat, clock, result.tat))
		case result.unknown:
			add(tat)
			inc := operation.funnel.rate().EmissionInterval() * operation.quantity
			level := span{inc, operation.funnel.rate().Tolerance()}
			add(poured(tat, clock, inc, level))
		case result.reply[0] == 0 && operation.quantity > 0:
			inc := operation.funnel.rate().EmissionInterval() * operation.quantity
			add(poured(tat, clock, inc, levelOf(operation, result.reply)))
		default:
			add(looked(tat, clock, levelOf(operation, result.reply)))
		}
		return after
	},
}).ToModel()

// narrow is what is known of a TAT once it has been read. A key that is not there
// has expired, unless there never was one.
func narrow(tat, clock span, read int64) span {
	if read == gcra.Empty {
		return tat.and(span{0, clock.to})
	}
	return tat.and(span{read, read})
}

// poured is where the TAT lies after inc was added to the funnel, which raised its
// level to one within the span.
func poured(tat, clock span, inc int64, level span) span {
	before := level.shift(-inc).and(span{0, highest})
	if before.empty() {
		return before
	}
	drained := nothing
	if before.from == 0 {
		// The TAT may have passed; then the new one counts from now.
		drained = clock.and(span{tat.from, maxInt63})
	}
	return drained.hull(tat.and(clock.plus(before))).shift(inc)
}

// looked is where the TAT lies when the level, which has not changed, is within
// the span.
func looked(tat, clock span, level span) span {
	level = level.and(span{0, highest})
	if level.empty() {
		return level
	}
	known := clock.plus(level)
	if level.from == 0 {
		known.from = 0 // it may have passed long ago
	}
	return tat.and(known)
}

// levelOf is the span in which the level of the funnel after the call lies, from
// all that the answer says of it. It is empty for an answer that says nonsense.
func levelOf(operation operation, reply reply) span {
	rate := operation.funnel.rate()
	interval, tolerance := rate.EmissionInterval(), rate.Tolerance()
	inc := interval * operation.quantity
	limited, remaining, retry, reset := reply[0] == 1, reply[2], reply[3], reply[4]
	if reply[1] != rate.Capacity() || remaining < 0 || reset < 0 {
		return nothing
	}

	level := seconds(reset)
	fits := span{tolerance - (remaining+1)*interval + 1, tolerance - remaining*interval}
	if remaining == 0 {
		fits.to = highest
	}
	level = level.and(fits)
	switch {
	case !limited && retry == -1:
		return level.and(span{0, tolerance})
	case !limited:
		return nothing
	case retry == -1 && inc > tolerance:
		return level
	case retry < 1 || inc > tolerance:
		return nothing
	}
	return level.and(seconds(retry).shift(tolerance - inc))
}

// seconds is the span of nanoseconds that are rounded up to so many seconds.
func seconds(count int64) span {
	return span{(count-1)*int64(time.Second) + 1, count * int64(time.Second)}
}

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
		if _, err := pipeline.Exec(ctx); ignoreNil(err) != nil {
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
		if err != nil || len(numbers) != len(reply{}) {
			return result{unknown: true}
		}
		answer.reply = reply(numbers)
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
		if ignoreNil(err) != nil {
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
	{key: "still and small", capacity: 100, count: 1, period: stillPeriod},
	{key: "leaks 100 per second", capacity: 20, count: 100, period: 1},
	{key: "leaks 20000 per second", capacity: 5, count: 20_000, period: 1},
}

const historyClients = 8

// TestLinearizableByAClockThatIsSet, forward and backward, while clients pour.
func TestLinearizableByAClockThatIsSet(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	history := newHistory()
	connect := func() limiter { return onServer(server.Client(t), 0) }

	now := epoch.UnixNano()
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
	recordClients(history, historyClients, quickOrLong(400, 4000), funnelsOfAllKinds, connect)
	done.Store(true)
	clocks.Wait()

	history.requireAllAnswered(t)
	history.requireLinearizable(t, exactModel)
}

// TestLinearizableByTheRealClock: as it runs in production.
func TestLinearizableByTheRealClock(t *testing.T) {
	server := startServer(t)
	history := newHistory()
	recordClients(history, historyClients, quickOrLong(2000, 20_000), funnelsOfAllKinds, func() limiter {
		return onServer(server.Client(t), 0)
	})
	history.requireSteadyClock(t)
	history.requireAllAnswered(t)
	history.requireLinearizable(t, boundedModel)
}

// TestNotLinearizableWhenReadOutsideTheCall: the check would see it if calls were
// not atomic. One client alone is right even so; several are not.
func TestNotLinearizableWhenReadOutsideTheCall(t *testing.T) {
	server := startServer(t)
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

// A pair is a primary and its replica, of which the one outlives the other.
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
		Config: []string{"--save", "", "--replicaof", "127.0.0.1 " + strconv.Itoa(primary.Port),
			"--repl-diskless-sync-delay", "0"},
	})
	eventually(t, "the replica is attached", func() bool {
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
	{key: "still and small", capacity: 300, count: 1, period: stillPeriod},
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
				// A client that finds its server dead waits for the next one.
				for here.killed.Load() && current.Load() == here && !done.Load() {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	defer running.Wait()
	defer done.Store(true)

	failovers := quickOrLong(3, 30)
	more := func() {
		enough := history.size() + 400
		eventually(t, "the clients go on", func() bool { return history.size() >= enough })
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
