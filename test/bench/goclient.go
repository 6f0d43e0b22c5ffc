package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"funnel/limiter"
)

// A goClient is one way to limit a rate from Go. Its call is allowed, or an error.
type goClient struct {
	run
	call func(ctx context.Context, key string) error
}

// goroutines call at the same time, each on keys of its own.
const goroutines, keysOfEach = 64, 16

// goClients measures calls from this process, by several clients.
func (s *Setting) goClients() Table {
	table := Table{Title: "Calls from Go",
		Columns: []string{"client", "calls per second", "ratio to redis_rate", "p50 µs", "p99 µs", "client µs per call", "server µs per call", "allocations per call"}}
	server := s.Start(s.Module, nil)
	defer server.Close()
	clients, closeAll := server.goClients()
	defer closeAll()
	load := loadAverage()
	if !s.takeTurns("clients", clients, func(c *goClient) round { return server.goRound(c, goroutines, keysOfEach, 1) }) {
		return table
	}
	reference := clients[slices.IndexFunc(clients, func(c *goClient) bool { return c.Title == redisRateTitle })]
	for _, c := range clients {
		of := func(figure, digits int) string { return fmt.Sprintf("%.*f", digits, c.median(figure)) }
		table.Rows = append(table.Rows, []string{c.Title, thousands(c.median(rate)), ratio(&c.run, &reference.run, rate),
			thousands(c.median(p50)), thousands(c.median(p99)), of(ofClient, 1), of(processor, 1), of(allocations, 0)})
	}
	table.Note = fmt.Sprintf("%s, %d goroutines that wait for each answer, %d keys each, all calls allowed. Medians of %d rounds of %v, the clients in turn; in brackets the quartiles of the rounds. µs per call are processor time, user and system. Clients have their default options, except that retries are off. A cancellable context is like that of a net/http request. Client and server share the machine; its load was %s before and %s after.",
		s.server, goroutines, keysOfEach, s.Rounds, s.goRoundLength(), load, loadAverage())
	return table
}

const redisRateTitle = "redis_rate v10, go-redis"

// takeTurns measures rounds of clients, in another order each time, as in measure. The first
// round connects.
func (s *Setting) takeTurns(part string, clients []*goClient, measure func(*goClient) round) bool {
	random := rand.New(rand.NewPCG(1, 1))
	for turn := range 1 + s.Rounds {
		s.Progress("%s: round %d of %d", part, turn, s.Rounds)
		for _, i := range random.Perm(len(clients)) {
			result := measure(clients[i])
			if s.failed(nil) {
				return false
			}
			if turn > 0 {
				clients[i].rounds = append(clients[i].rounds, result)
			}
		}
	}
	return true
}

// goClients connects all ways, each with connections of its own.
func (c *Client) goClients() (clients []*goClient, closeAll func()) {
	if c.failed(nil) {
		return nil, func() {}
	}
	var ends []func()
	connect := func() *redis.Client {
		rdb := c.server.NewClient()
		ends = append(ends, func() { rdb.Close() })
		return rdb
	}
	pipelining := func() *redis.AutoPipeliner {
		pipeliner, err := connect().AutoPipeline() // closed with its client
		c.failed(err)
		return pipeliner
	}
	rueidisClient, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{c.server.Addr()}})
	if c.failed(err) {
		return nil, func() {}
	}
	ends = append(ends, rueidisClient.Close)

	add := func(title string, call func(ctx context.Context, key string) error) {
		clients = append(clients, &goClient{run{Case: Case{Alternative: Alternative{Title: title}}}, call})
	}
	rdb, reserve := connect(), func(ctx context.Context, key string) *redis.Cmd {
		return redis.NewCmd(ctx, "cl.reserve", key, Roomy.Capacity, Roomy.Count, Roomy.Period, 1)
	}
	auto := pipelining()
	add("the bare command, go-redis", func(ctx context.Context, key string) error { return rdb.Process(ctx, reserve(ctx, key)) })
	add("the bare command, AutoPipeline", func(ctx context.Context, key string) error { return auto.Process(ctx, reserve(ctx, key)) })
	add("limiter, go-redis", allow(connect()))
	add("limiter, go-redis, cancellable context", cancellable(allow(connect())))
	add("limiter, AutoPipeline", allow(pipelining()))
	add("limiter, AutoPipeline, cancellable context", cancellable(allow(pipelining())))
	add("limiter by script, go-redis", allow(connect(), limiter.WithPath(limiter.PathScript)))
	add("limiter by script, AutoPipeline", allow(pipelining(), limiter.WithPath(limiter.PathScript)))
	rates := redis_rate.NewLimiter(connect())
	add(redisRateTitle, func(ctx context.Context, key string) error {
		result, err := rates.Allow(ctx, key, redis_rate.Limit{Rate: int(Roomy.Count), Burst: int(Roomy.Capacity), Period: time.Duration(Roomy.Period) * time.Second})
		return allowed(err, result != nil && result.Allowed == 1)
	})
	add("CL.THROTTLE by rueidis's builder", func(ctx context.Context, key string) error {
		command := rueidisClient.B().ClThrottle().Key(key).MaxBurst(Roomy.Capacity).CountPerPeriod(Roomy.Count).Period(Roomy.Period).Build()
		reply, err := rueidisClient.Do(ctx, command).AsIntSlice()
		return allowed(err, len(reply) == 5 && reply[0] == 0)
	})
	return clients, func() {
		for _, end := range ends {
			end()
		}
	}
}

// allow calls package limiter.
func allow(rdb limiter.Client, options ...limiter.Option) func(context.Context, string) error {
	return allowBy(limiter.Per(int(Roomy.Count), time.Duration(Roomy.Period)*time.Second).Burst(int(Roomy.Capacity)), rdb, options...)
}

func allowBy(limit limiter.Limit, rdb limiter.Client, options ...limiter.Option) func(context.Context, string) error {
	return allowOf(limiter.New(rdb, options...), limit)
}

// allowOf calls a Limiter, or Leases.
func allowOf(l interface {
	Allow(context.Context, string, limiter.Limit) (limiter.Result, error)
}, limit limiter.Limit) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		result, err := l.Allow(ctx, key, limit)
		return allowed(err, !result.Limited())
	}
}

func allowed(err error, is bool) error {
	if err == nil && !is {
		err = fmt.Errorf("a call was limited")
	}
	return err
}

// cancellable gives each call its own context, as a server does for each request.
func cancellable(call func(context.Context, string) error) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return call(ctx, key)
	}
}

// goRoundLength leaves time for many rounds.
func (s *Setting) goRoundLength() time.Duration { return s.Window / 10 }

// goRound lets goroutines call for some time, each on its own keys, or all on one if keysOfEach
// is 0. Of every so many calls one is timed.
func (c *Client) goRound(client *goClient, goroutines, keysOfEach, every int) (result round) {
	if c.failed(nil) {
		return result
	}
	latencies, calls, errs := make([][]float64, goroutines), make([]float64, goroutines), make([]error, goroutines)
	var over atomic.Bool
	var callers sync.WaitGroup
	names := slices.Collect(slices.Chunk(keys(client.Title, goroutines*max(keysOfEach, 1)), max(keysOfEach, 1)))
	sent, cpu := c.limiterCalls(), c.Info("used_cpu_user", "used_cpu_sys")
	own, objects, begin := processorTime(), allocated(), time.Now()
	time.AfterFunc(c.goRoundLength(), func() { over.Store(true) })
	for i, some := range names {
		if keysOfEach == 0 {
			some = names[0]
		}
		callers.Go(func() {
			for n := 0; errs[i] == nil && !over.Load(); n++ {
				if calls[i]++; n%every > 0 {
					errs[i] = client.call(context.Background(), some[n%len(some)])
					continue
				}
				sent := time.Now()
				errs[i] = client.call(context.Background(), some[n%len(some)])
				latencies[i] = append(latencies[i], time.Since(sent).Seconds()*1e6)
			}
		})
	}
	callers.Wait()
	took := time.Since(begin).Seconds()
	own, objects = processorTime()-own, allocated()-objects
	for _, err := range errs {
		if err != nil {
			c.failed(fmt.Errorf("%s: %w", client.Title, err))
		}
	}
	all, total := slices.Concat(latencies...), 0.0
	for _, some := range calls {
		total += some
	}
	result[rate], result[p50], result[p99] = total/took, percentile(all, 50), percentile(all, 99)
	result[ofClient], result[allocations] = own*1e6/total, objects/total
	result[processor] = (c.Info("used_cpu_user", "used_cpu_sys") - cpu) * 1e6 / total
	result[commands] = (c.limiterCalls() - sent) / took
	return result
}

// processorTime returns the processor time of this process, user and system, in seconds.
func processorTime() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // fails for other arguments
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// allocated returns how many objects this process has allocated.
func allocated() float64 {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return float64(memory.Mallocs)
}
