package replication_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A funnel under load leaks one token in a good while, so nothing leaks while a
// test lasts, and no key expires. That makes the laws exact. The tokens of a
// funnel are numbered 1, 2, 3 and so on in the order in which they are granted;
// a reply names the newest of them, which is capacity minus remaining, and the
// stored TAT names it as well.
const (
	secondsPerToken = 10_000
	timePerToken    = secondsPerToken * time.Second
)

// Of the funnels every other one is small and soon full, so that it limits; the
// rest never are.
const (
	largestSmallCapacity = 16
	bottomless           = 100_000
)

// A tally is what clients know of their funnels: which tokens they were granted,
// and which they asked for without learning what became of it.
type tally struct {
	opened time.Time

	mutex      sync.Mutex
	accounts   []account // one for each funnel
	figures    figures
	violations []string // replies that break a law
}

// An account is what is known of one funnel.
type account struct {
	capacity int64
	granted  big.Int // bit n is set when token n+1 was granted by an acknowledged call
	count    int64   // how many bits are set
	newest   int64   // the highest of them, counted from 1
	open     int64   // tokens asked for by calls of unknown outcome
}

type figures struct {
	calls, allowed, limited, peeked int64         // calls that were answered, and how
	unanswered                      int64         // calls whose connection broke first
	unconfirmed                     int64         // allowed calls that no replica confirmed in time
	slowest                         time.Duration // until a whole batch was answered
}

func (f figures) String() string {
	return fmt.Sprintf("%d calls answered (%d allowed, %d limited, %d peeked), %d unanswered, %d unconfirmed, slowest batch %v",
		f.calls, f.allowed, f.limited, f.peeked, f.unanswered, f.unconfirmed, f.slowest.Round(time.Millisecond))
}

func newTally(funnels int) *tally {
	tally := &tally{opened: time.Now(), accounts: make([]account, funnels)}
	for funnel := range tally.accounts {
		capacity := int64(bottomless)
		if funnel%2 == 0 {
			capacity = 1 + int64(funnel/2)%largestSmallCapacity
		}
		tally.accounts[funnel].capacity = capacity
	}
	return tally
}

func funnelKey(funnel int) string { return fmt.Sprintf("funnel:%d", funnel) }

// A workload is a number of clients that call on random funnels, in batches: mostly
// for one token, sometimes for more, and sometimes a peek.
type workload struct {
	tally   *tally
	confirm int // how many replicas must have a batch before it counts; 0 for none

	stopping atomic.Bool
	broken   atomic.Bool // a connection was
	clients  sync.WaitGroup
}

const (
	workloadClients = 8
	workloadBatch   = 32
	confirmTime     = 1000 // milliseconds
)

// pour starts a workload on a server. Calls count as acknowledged once they are
// answered and, if confirm is above 0, that many replicas have them.
func (tally *tally) pour(t testing.TB, server *servertest.Server, confirm int) *workload {
	t.Helper()
	c := &workload{tally: tally, confirm: confirm}
	for range workloadClients {
		client := server.Client(t)
		c.clients.Go(func() {
			defer client.Close()
			for !c.stopping.Load() {
				if !c.callOnce(client) {
					c.broken.Store(true)
					return
				}
			}
		})
	}
	return c
}

// pourFor runs a workload for a while, and waits until all calls are answered.
func (tally *tally) pourFor(t testing.TB, server *servertest.Server, duration time.Duration) {
	t.Helper()
	c := tally.pour(t, server, 0)
	time.Sleep(duration)
	c.stop(t)
}

// stop ends the workload. The server was up all the time, so every call must have been
// answered.
func (c *workload) stop(t testing.TB) {
	t.Helper()
	c.stopping.Store(true)
	c.clients.Wait()
	c.tally.requireNoViolations(t)
	require.False(t, c.broken.Load(), "a connection broke, of a server that is up")
}

// awaitDisconnect waits until the connection of every client is broken.
func (c *workload) awaitDisconnect(t testing.TB) {
	t.Helper()
	c.clients.Wait()
	c.tally.requireNoViolations(t)
}

// callOnce sends one batch, and is false when the server is gone.
func (c *workload) callOnce(client *redis.Client) (alive bool) {
	ctx := context.Background()
	pipeline := client.Pipeline()
	calls := c.tally.chooseCalls()
	for i := range calls {
		calls[i].send(ctx, pipeline)
	}
	// WAIT counts all writes that its connection sent before.
	confirmation := redis.NewCmd(ctx, "wait", c.confirm, confirmTime)
	if c.confirm > 0 {
		pipeline.Process(ctx, confirmation)
	}
	sent := time.Now()
	_, err := pipeline.Exec(ctx)
	took := time.Since(sent)
	if err != nil {
		took = 0 // no answer: what took time is dialling a dead server again
	}

	replicas, waitError := confirmation.Int()
	c.tally.enter(calls, took, c.confirm == 0 || (waitError == nil && replicas >= c.confirm))
	return err == nil || isReply(err)
}

// isReply tells an error that the server has sent from a broken connection.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// A pouring is one call of a workload.
type pouring struct {
	funnel             int
	capacity, quantity int64
	newestBefore       int64 // the newest acknowledged token when the call was sent
	answer             *redis.Cmd
}

func (p *pouring) send(ctx context.Context, pipeline redis.Pipeliner) {
	p.answer = pipeline.Do(ctx, "cl.throttle", funnelKey(p.funnel), p.capacity, 1, secondsPerToken, p.quantity)
}

// numbers reads the answer. When a connection breaks, go-redis gives that error to
// the whole batch, also to calls that were answered before.
func (p *pouring) numbers() (numbers []int64, err error) {
	values, answered := p.answer.Val().([]any)
	if !answered {
		return nil, p.answer.Err()
	}
	for _, value := range values {
		number, _ := value.(int64)
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// chooseCalls makes up a batch and writes it down as asked for.
func (tally *tally) chooseCalls() []pouring {
	quantities := []int64{0, 1, 1, 1, 1, 1, 2, 3}
	calls := make([]pouring, workloadBatch)
	tally.mutex.Lock()
	defer tally.mutex.Unlock()
	for i := range calls {
		funnel := rand.IntN(len(tally.accounts))
		account := &tally.accounts[funnel]
		calls[i] = pouring{
			funnel: funnel, capacity: account.capacity, newestBefore: account.newest,
			quantity: quantities[rand.IntN(len(quantities))],
		}
		account.open += calls[i].quantity
	}
	return calls
}

// enter writes down what became of a batch. What stays open of it may or may not
// have been poured.
func (tally *tally) enter(calls []pouring, took time.Duration, confirmed bool) {
	tally.mutex.Lock()
	defer tally.mutex.Unlock()
	tally.figures.slowest = max(tally.figures.slowest, took)
	for _, call := range calls {
		account := &tally.accounts[call.funnel]
		numbers, err := call.numbers()
		switch {
		case err != nil && !isReply(err):
			tally.figures.unanswered++
			continue
		case err != nil:
			tally.violation(call, "is an error: %v", err)
			account.open -= call.quantity
			continue
		case len(numbers) != len(servertest.Reply{}):
			tally.violation(call, "is answered with %v", numbers)
			continue
		}

		reply := servertest.Reply(numbers)
		tally.checkReply(call, reply)
		tally.figures.calls++
		switch {
		case reply[0] != 0:
			tally.figures.limited++
		case call.quantity == 0:
			tally.figures.peeked++
		default:
			tally.figures.allowed++
			if !confirmed {
				tally.figures.unconfirmed++
				continue
			}
			tally.grant(call, reply)
		}
		account.open -= call.quantity
	}
}

// checkReply compares a reply with what its client knew before it called.
func (tally *tally) checkReply(call pouring, reply servertest.Reply) {
	newest := call.capacity - reply[2]
	before := newest
	if reply[0] == 0 {
		before -= call.quantity
	}
	switch {
	case reply[1] != call.capacity || reply[2] < 0 || before < 0:
		tally.violation(call, "contradicts itself: %v", reply)
	case reply[0] != 0 && newest+call.quantity <= call.capacity:
		tally.violation(call, "is limited though it fits: %v", reply)
	case before < call.newestBefore:
		tally.violation(call, "finds the funnel emptier than token %d left it: %v", call.newestBefore, reply)
	}
}

// grant writes down the tokens of an allowed call. No token is granted twice.
func (tally *tally) grant(call pouring, reply servertest.Reply) {
	account := &tally.accounts[call.funnel]
	newest := call.capacity - reply[2]
	for token := newest; token > newest-call.quantity && token > 0; token-- {
		if account.granted.Bit(int(token-1)) == 1 {
			tally.violation(call, "is granted token %d, which was granted before: %v", token, reply)
			continue
		}
		account.granted.SetBit(&account.granted, int(token-1), 1)
		account.count++
	}
	account.newest = max(account.newest, newest)
}

func (tally *tally) violation(call pouring, format string, arguments ...any) {
	tally.violations = append(tally.violations, fmt.Sprintf("a call of capacity %d and quantity %d on %s ",
		call.capacity, call.quantity, funnelKey(call.funnel))+fmt.Sprintf(format, arguments...))
}

func (tally *tally) requireNoViolations(t testing.TB) {
	t.Helper()
	tally.mutex.Lock()
	defer tally.mutex.Unlock()
	require.Empty(t, tally.violations[:min(len(tally.violations), 10)], "%d replies break a law, such as these", len(tally.violations))
}

// acknowledged is the newest token of each funnel that some client was told of.
func (tally *tally) acknowledged() (newest []int64) {
	tally.mutex.Lock()
	defer tally.mutex.Unlock()
	for i := range tally.accounts {
		newest = append(newest, tally.accounts[i].newest)
	}
	return newest
}

// answered is how many calls were answered so far.
func (tally *tally) answered() int64 {
	tally.mutex.Lock()
	defer tally.mutex.Unlock()
	return tally.figures.calls
}

// requireCounted requires that every funnel of a server holds at least the given
// tokens, and no more than clients ever asked for. No client may be pouring. The
// tally goes on from what the server holds, and the result is how many tokens
// the server has forgotten that a client was told of.
func (tally *tally) requireCounted(t testing.TB, client *redis.Client, atLeast []int64) (forgotten int64) {
	t.Helper()
	tally.requireNoViolations(t)
	poured := tally.poured(t, client)
	tally.mutex.Lock()
	defer tally.mutex.Unlock()

	var emptier, fuller []string
	for i := range tally.accounts {
		account := &tally.accounts[i]
		if poured[i] < atLeast[i] {
			emptier = append(emptier, fmt.Sprintf("%s holds %d tokens of %d", funnelKey(i), poured[i], atLeast[i]))
		}
		if most := min(account.count+account.open, account.capacity); poured[i] > most {
			fuller = append(fuller, fmt.Sprintf("%s holds %d tokens, where at most %d were asked for", funnelKey(i), poured[i], most))
		}
		forgotten += max(0, account.newest-poured[i])
		account.count, account.newest, account.open = poured[i], poured[i], 0
		account.granted.Lsh(big.NewInt(1), uint(poured[i]))
		account.granted.Sub(&account.granted, big.NewInt(1))
	}
	require.Empty(t, emptier[:min(len(emptier), 10)], "%d funnels came back emptier, such as these", len(emptier))
	require.Empty(t, fuller[:min(len(fuller), 10)], "%d funnels came back fuller, such as these", len(fuller))
	return forgotten
}

// poured reads the stored TATs as the newest token of each funnel.
func (tally *tally) poured(t testing.TB, client *redis.Client) (newest []int64) {
	t.Helper()
	for _, state := range tally.read(t, client) {
		if state.tat == "" {
			newest = append(newest, 0)
			continue
		}
		var tat int64
		_, err := fmt.Sscan(state.tat, &tat)
		require.NoError(t, err)
		newest = append(newest, (tat-tally.opened.UnixNano())/int64(timePerToken))
	}
	return newest
}

// A stored is what a server keeps of a funnel: value and expiry, as they come.
type stored struct {
	tat    string
	expiry int64
}

// read reads all funnels of a server, which holds nothing else.
func (tally *tally) read(t testing.TB, client *redis.Client) (states []stored) {
	t.Helper()
	ctx := context.Background()
	pipeline := client.Pipeline()
	var tats []*redis.StringCmd
	var expiries []*redis.Cmd
	for funnel := range tally.accounts {
		tats = append(tats, pipeline.Get(ctx, funnelKey(funnel)))
		expiries = append(expiries, pipeline.Do(ctx, servertest.ToAny(servertest.AskExpiry(t, funnelKey(funnel)))...))
	}
	size := pipeline.DBSize(ctx)
	_, err := pipeline.Exec(ctx)
	require.NoError(t, servertest.IgnoreNil(err))

	var present int64
	for funnel := range tally.accounts {
		require.NoError(t, servertest.IgnoreNil(tats[funnel].Err()))
		expiry, err := expiries[funnel].Int64()
		require.NoError(t, err)
		states = append(states, stored{tats[funnel].Val(), expiry})
		if tats[funnel].Err() == nil {
			present++
		}
	}
	require.Equal(t, size.Val(), present, "keys that are no funnels of this load")
	return states
}

// requireSame requires that two readings agree byte for byte.
func (tally *tally) requireSame(t testing.TB, want, got []stored, whose string) {
	t.Helper()
	require.Len(t, got, len(want))
	var differences []string
	for funnel := range want {
		if want[funnel] != got[funnel] {
			differences = append(differences, fmt.Sprintf("%s: %v, not %v", funnelKey(funnel), got[funnel], want[funnel]))
		}
	}
	require.Empty(t, strings.Join(differences[:min(len(differences), 10)], "\n"),
		"%d of %d funnels differ in %s, such as these", len(differences), len(want), whose)
}

// inUse is how many funnels hold anything.
func inUse(states []stored) (count int) {
	for _, state := range states {
		if state.tat != "" {
			count++
		}
	}
	return count
}
