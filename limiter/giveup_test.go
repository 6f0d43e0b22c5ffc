// Callers that give up leave nothing behind: no slot, no token that no caller knows of, and no
// closed connection. A program that ends waits for calls that are still under way.

package limiter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// hasty are callers of one Limiter who mostly do not wait for the answer.
type hasty struct {
	limiter *limiter.Limiter
	rows    func() []limiter.Row
	told    atomic.Int64 // tokens that callers know of
	gaveUp  atomic.Int64
}

// run lets 16 callers make that many calls. Each gives up within 4 ms, by a deadline or by a
// cancellation, or after 60 ms.
func (h *hasty) run(t *testing.T, calls int) {
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range calls / 16 {
				within := rand.N(4 * time.Millisecond)
				if rand.IntN(4) == 0 {
					within = rand.N(60 * time.Millisecond)
				}
				ctx, cancel := context.WithTimeout(context.Background(), within)
				if rand.IntN(2) == 0 {
					cancel()
					ctx, cancel = context.WithCancel(context.Background())
					time.AfterFunc(within, cancel)
				}
				h.call(t, ctx)
				cancel()
			}
		})
	}
	group.Wait()
}

// call takes a slot and tokens, and gives the slot back.
func (h *hasty) call(t *testing.T, ctx context.Context) {
	got, err := h.limiter.TryAcquire(ctx, h.rows()...)
	switch {
	case err != nil && ctx.Err() == nil:
		t.Errorf("no decision, although the caller waits: %v", err)
	case err != nil:
		h.gaveUp.Add(1)
	case !got.Limited():
		h.told.Add(1)
		_ = got.Release(ctx)
	}
}

// manyFor5s are slots of which some are free at each call, and all are used at times.
var manyFor5s = limiter.Slots{Max: 10, TTL: 5 * time.Second}

// Whether rows are on one server or on three nodes, the slots, the funnel and the quota hold what
// the callers know of, and no more.
func TestCallersWhoGiveUpLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	calls := servertest.QuickOrLong(800, 5000)
	for _, honors := range []bool{false, true} {
		t.Run(fmt.Sprintf("one server, ContextTimeoutEnabled %v", honors), func(t *testing.T) {
			threads := servertest.Options{Module: servertest.Module(t), Config: []string{"--io-threads", "4"}}
			client := servertest.Start(t, threads).Client(t, func(options *redis.Options) {
				options.ContextTimeoutEnabled, options.PoolSize = honors, 64
			})
			testHasty(t, client, calls)
		})
		t.Run(fmt.Sprintf("a cluster, ContextTimeoutEnabled %v", honors), func(t *testing.T) {
			cluster := servertest.StartCluster(t, 3, 5*time.Second, servertest.Options{Module: servertest.Module(t)})
			client := cluster.Client(t, func(options *redis.ClusterOptions) {
				options.ContextTimeoutEnabled, options.PoolSize = honors, 64
			})
			testHasty(t, client, calls)
		})
	}
}

func testHasty(t *testing.T, client redis.UniversalClient, calls int) {
	ctx := t.Context()
	quota := limiter.Until(1_000_000, time.Now().Add(time.Hour))
	funnel := limiter.Per(1, time.Hour).WithCapacity(100_000)
	h := hasty{limiter: limiter.New(client, limiter.WithTimeout(servertest.Patience)), rows: func() []limiter.Row {
		return []limiter.Row{manyFor5s.At("{a}slots"), limiter.Request{Key: "{b}funnel", Limit: funnel, Quantity: 1},
			limiter.Request{Key: "{c}quota", Limit: quota, Quantity: 1}}
	}}
	warm(t, h.limiter, h.rows)
	h.told.Store(0)
	closed := closedBy(t, client)
	h.run(t, calls)
	servertest.Eventually(t, "a caller is served in time", func() bool { // on a busy machine, perhaps none was
		if h.told.Load() == 0 {
			h.run(t, calls)
		}
		return h.told.Load() > 0
	})
	left, err := h.limiter.Drain(ctx)
	require.NoError(t, err)
	require.Zero(t, left, "every answer has come")
	t.Logf("%d callers gave up; %d were allowed", h.gaveUp.Load(), h.told.Load())
	require.Positive(t, h.gaveUp.Load())
	require.Positive(t, h.told.Load())
	require.Zero(t, client.ZCard(ctx, "{a}slots").Val(), "slots that nobody holds")
	text, err := client.Get(ctx, "{c}quota").Result()
	require.NoError(t, err)
	used, err := strconv.ParseInt(strings.TrimPrefix(text, "used:"), 10, 64)
	require.NoError(t, err)
	require.Equal(t, h.told.Load()+warmed, used, "tokens of the quota that callers know of")
	peeked, err := h.limiter.Peek(ctx, "{b}funnel", funnel)
	require.NoError(t, err)
	require.EqualValues(t, funnel.Capacity-int(h.told.Load())-warmed, peeked.Remaining, "tokens of the funnel")
	require.Equal(t, closed, closedBy(t, client), "a caller that gives up closes no connection")
}

// warmed is how many calls warm makes.
const warmed = 100

// warm fills the pool of connections: go-redis makes one for each call that finds none.
func warm(t *testing.T, l *limiter.Limiter, rows func() []limiter.Row) {
	var group sync.WaitGroup
	for range warmed {
		group.Go(func() {
			rows := rows()
			rows[0] = limiter.Slots{Max: warmed, TTL: time.Minute}.At("{a}slots")
			got, err := l.TryAcquire(context.Background(), rows...)
			if err != nil || got.Limited() || got.Release(context.Background()) != nil {
				t.Errorf("a caller that waits is not served: %+v, %v", got, err)
			}
		})
	}
	group.Wait()
}

// closedBy returns how many connections of a client its servers have accepted that the client does
// not have any more.
func closedBy(t *testing.T, client redis.UniversalClient) (closed int64) {
	var accepted atomic.Int64
	count := func(_ context.Context, node *redis.Client) error {
		accepted.Add(servertest.InfoField(t, node, "stats", "total_connections_received"))
		return nil
	}
	cluster, is := client.(*redis.ClusterClient)
	if is {
		require.NoError(t, cluster.ForEachMaster(t.Context(), count)) // the bus of the cluster has other connections
	} else {
		_ = count(t.Context(), client.(*redis.Client))
	}
	return accepted.Load() - int64(client.PoolStats().TotalConns)
}

// While a server hangs, callers with short deadlines leave a bounded number of goroutines behind.
// Once the server is back, it decides again, and all slots are given back.
func TestServerThatHangsUnderHastyCallers(t *testing.T) {
	ctx, server := context.Background(), servertest.StartModule(t)
	client := server.Client(t, func(options *redis.Options) { options.ContextTimeoutEnabled = true })
	l := limiter.New(client)
	require.NoError(t, client.Ping(ctx).Err())
	before := runtime.NumGoroutine()
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
	var group sync.WaitGroup
	most := 0
	for range servertest.QuickOrLong(3, 60) * 1000 {
		group.Go(func() {
			within, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			defer cancel()
			got, err := l.TryAcquire(within, manyFor5s.At("slots"))
			if err == nil {
				_ = got.Release(ctx)
			}
		})
		time.Sleep(time.Millisecond)
		most = max(most, runtime.NumGoroutine()-before)
	}
	group.Wait()
	t.Logf("%d goroutines at most", most)
	require.Less(t, most, 1000+500, "1,000 calls without a caller, and callers that still wait")
	require.NoError(t, server.Signal(syscall.SIGCONT))
	servertest.Eventually(t, "Redis decides again", func() bool {
		_, err := l.Allow(ctx, "key", fifteenPerDay)
		return err == nil
	})
	servertest.Eventually(t, "all slots are given back", func() bool { return client.ZCard(ctx, "slots").Val() == 0 })
	servertest.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() < before+50 })
}

// slowRefunds is a hook of go-redis that sends refunds only after a time.
type slowRefunds time.Duration

func (s slowRefunds) DialHook(next redis.DialHook) redis.DialHook { return next }
func (s slowRefunds) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s slowRefunds) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == "cl.refund" {
			time.Sleep(time.Duration(s))
		}
		return next(ctx, command)
	}
}

// A program that drains before it ends leaves no slot behind, however many requests are under way.
func TestShutdownsLeaveNoSlots(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	client := server.Client(t)
	slots := limiter.Slots{Max: 8, TTL: time.Minute}
	for round := range 20 {
		rdb := server.Client(t, func(options *redis.Options) { options.ContextTimeoutEnabled = true })
		rdb.AddHook(slowRefunds(20 * time.Millisecond))
		l := limiter.New(rdb)
		limit := httplimit.New(l, "work", limiter.PerSecond(1_000_000), httplimit.WithSlots(slots))
		service := &http.Server{Handler: limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(rand.N(2 * time.Millisecond))
		}))}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() { _ = service.Serve(listener) }()
		var group sync.WaitGroup
		stop := make(chan struct{})
		for range 16 {
			group.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(context.Background(), rand.N(5*time.Millisecond))
					request, _ := http.NewRequestWithContext(ctx, "GET", "http://"+listener.Addr().String(), nil)
					response, err := http.DefaultClient.Do(request)
					if err == nil {
						response.Body.Close()
					}
					cancel()
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, service.Shutdown(t.Context()))
		left, err := l.Drain(t.Context())
		require.NoError(t, err)
		require.Zero(t, left, "round %d", round)
		require.Empty(t, client.Keys(t.Context(), "*slots").Val(), "round %d: slots that are left", round)
		close(stop)
		group.Wait()
	}
}

// While Redis stands still, more callers give up than may be under way, and go on when it answers
// again. Tokens are given back once or never, so each refund has to be sent, however many callers
// are refused beside it.
func TestTokensAfterAStandStill(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	client := server.Client(t, func(options *redis.Options) { options.PoolSize = 64 })
	l := limiter.New(client, limiter.WithTimeout(servertest.Patience))
	funnel := limiter.Per(1, time.Hour).WithCapacity(1_000_000)
	running, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var told, refused atomic.Int64
	for range 100 {
		group.Go(func() {
			for running.Err() == nil {
				ctx, cancel := servertest.LeavingContext(running)
				result, err := l.Allow(ctx, "funnel", funnel)
				cancel()
				switch {
				case err == nil && result.OK:
					told.Add(1)
				case err != nil && strings.Contains(err.Error(), "calls are under way"):
					refused.Add(1)
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for range 3 {
		require.NoError(t, server.Signal(syscall.SIGSTOP))
		before := refused.Load()
		servertest.Eventually(t, "too many calls are under way", func() bool { return refused.Load() > before })
		require.NoError(t, server.Signal(syscall.SIGCONT))
		before = told.Load()
		servertest.Eventually(t, "a caller is answered in time", func() bool { return told.Load() > before })
	}
	stop()
	group.Wait()
	left, err := l.Drain(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)
	result, err := l.Peek(t.Context(), "funnel", funnel)
	require.NoError(t, err)
	require.EqualValues(t, told.Load(), funnel.Capacity-result.Remaining, "tokens that are taken")
}
