package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/montanaflynn/stats"
	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/lease"
)

const leaseSpan = 50 * time.Millisecond

// The limit of calls from Go is so large that no call is limited.
const goRate, goBurst = 100_000_000, 50_000_000

// A goClient is a way to limit a rate from Go. Its call returns an error unless it is allowed.
type goClient struct {
	title        string
	call         func(ctx context.Context, key string) error
	decidesAlone bool // a call is one command
}

// goClients measures calls from this process on one key, and on many keys in Zipf's proportion.
func (s *Setting) goClients() Table {
	table := Table{Title: "Calls from Go", Columns: []string{"client", "keys", "decisions per second",
		"ratio to redis_rate", "calls to Redis per second", "p50 µs", "p99 µs", "CPU µs per decision",
		"allocations per decision"}}
	for _, count := range []int{1, zipfKeys} {
		drawn := keys("", count)
		server := s.Start(s.Module, nil)
		var all []*contestant
		for _, c := range server.goClients() {
			all = append(all, &contestant{round: func() round { return server.goRound(c, drawn) }, title: c.title})
		}
		turns := s.takeTurns(fmt.Sprintf("clients, keys: %d", count), all)
		server.Close()
		if !turns {
			break
		}
		for _, c := range all {
			table.Rows = append(table.Rows, []string{c.title, thousands(float64(count)), thousands(c.median(rate)),
				c.ratio(all[len(all)-1], rate), thousands(c.median(asked)), fmt.Sprintf("%.1f", c.median(p50)),
				fmt.Sprintf("%.1f", c.median(p99)), fmt.Sprintf("%.2f", c.median(cpu)),
				fmt.Sprintf("%.2f", c.median(allocations))})
		}
	}
	table.Note = fmt.Sprintf("%s, %d goroutines, all calls allowed; 1,000 keys are asked about in Zipf's proportion. "+
		"Medians of %d rounds of %v, the clients in turn; in brackets the quartiles of the rounds. "+
		"Of %d calls one is timed. Client and server share the machine.",
		s.server, goroutines, s.Rounds, s.Round, timedCalls)
	return table
}

// goClients returns all ways to limit a rate from Go, each with a connection for each goroutine.
// The last way is the reference.
func (c *Client) goClients() (clients []goClient) {
	if c.failed(nil) {
		return nil
	}
	connect := func(pipeline *redis.AutoPipelineOptions) *redis.Client {
		client := c.server.NewClient(func(options *redis.Options) {
			options.PoolSize, options.ContextTimeoutEnabled = goroutines, true
			options.AutoPipelineOptions = pipeline
		})
		c.others = append(c.others, client)
		return client
	}
	// FullDuplex sends a command at once. Without it, commands wait for others to share a round trip.
	pipeline := func(fullDuplex bool) *redis.AutoPipeliner {
		client := connect(&redis.AutoPipelineOptions{FullDuplex: fullDuplex})
		pipelining, err := client.AutoPipeline()
		c.failed(err)
		return pipelining
	}
	limit := limiter.PerSecond(goRate).WithCapacity(goBurst)
	add := func(title string, l limiter.Allower, decidesAlone bool) {
		clients = append(clients, goClient{title, func(ctx context.Context, key string) error {
			result, err := l.AllowN(ctx, key, limit, 1)
			return allowed(err, !result.Limited())
		}, decidesAlone})
	}
	direct := connect(nil)
	clients = append(clients, goClient{"go-redis's own Do of the command", func(ctx context.Context, key string) error {
		within, cancel := context.WithTimeout(ctx, time.Second) // as Allow does
		defer cancel()
		reply, err := direct.Do(within, "cl.reserve", key, goBurst, goRate, "1", 1).Slice()
		return allowed(err, err == nil && reply[0] == int64(0))
	}, true})
	plain, pipelining, duplex := limiter.New(connect(nil)), limiter.New(pipeline(false)), limiter.New(pipeline(true))
	add("Allow", plain, true)
	add("Allow, AutoPipeline", pipelining, true)
	add("Allow, FullDuplex", duplex, true)
	settle := func(title string, l *limiter.Limiter) {
		clients = append(clients, goClient{title, func(ctx context.Context, key string) error {
			result, err := l.AllowN(ctx, key, limit, 2)
			if err == nil && result.OK {
				_, err = l.Settle(ctx, &result, 1)
			}
			return allowed(err, !result.Limited())
		}, false})
	}
	settle("AllowN and Settle", plain)
	settle("AllowN and Settle, AutoPipeline", pipelining)
	settle("AllowN and Settle, FullDuplex", duplex)
	for _, span := range []time.Duration{0, leaseSpan} {
		add(fmt.Sprintf("leases of %v", span), lease.New(plain, span), false)
	}
	add(fmt.Sprintf("leases of %v, FullDuplex", leaseSpan), lease.New(duplex, leaseSpan), false)
	rates := redis_rate.NewLimiter(connect(nil))
	return append(clients, goClient{"redis_rate v10, go-redis", func(ctx context.Context, key string) error {
		result, err := rates.Allow(ctx, key, redis_rate.Limit{Rate: goRate, Burst: goBurst, Period: time.Second})
		return allowed(err, result != nil && result.Allowed == 1)
	}, true})
}

func allowed(err error, is bool) error {
	if err == nil && !is {
		return errors.New("a call was limited")
	}
	return err
}

const (
	goroutines = 64
	timedCalls = 64 // one call in 64 is timed
	zipfKeys   = 1000
	drawnKeys  = 1 << 12 // of each goroutine, which then begins anew
)

// goRound lets goroutines call for one round. They call the first keys most often.
func (c *Client) goRound(client goClient, keys []string) (result round) {
	latencies, calls, errs := make([][]float64, goroutines), make([]int, goroutines), make([]error, goroutines)
	var over atomic.Bool
	var callers sync.WaitGroup
	sent := c.Info(limiterCalls)
	objects := allocated()
	used := usedCPU()
	begin := time.Now()
	time.AfterFunc(c.Round, func() { over.Store(true) })
	for i := range goroutines {
		drawn := draw(keys, i)
		callers.Go(func() {
			for ; errs[i] == nil && (calls[i] == 0 || !over.Load()); calls[i]++ {
				key := drawn[calls[i]%len(drawn)]
				if calls[i]%timedCalls > 0 {
					errs[i] = client.call(c.Ctx, key)
					continue
				}
				sent := time.Now()
				errs[i] = client.call(c.Ctx, key)
				latencies[i] = append(latencies[i], time.Since(sent).Seconds()*1e6)
			}
		})
	}
	callers.Wait()
	took, objects, used := time.Since(begin).Seconds(), allocated()-objects, usedCPU()-used
	err := errors.Join(errs...)
	if err != nil {
		c.failed(fmt.Errorf("%s: %w", client.title, err))
	}
	all := slices.Concat(latencies...)
	total := 0.0
	for _, some := range calls {
		total += float64(some)
	}
	result[rate] = total / took
	result[asked] = (c.Info(limiterCalls) - sent) / took
	result[allocations] = objects / total
	result[cpu] = used.Seconds() * 1e6 / total
	result[p50], _ = stats.Percentile(all, 50) // an error is for no values
	result[p99], _ = stats.Percentile(all, 99)
	return result
}

// draw returns the keys that a goroutine asks about, one after the other.
func draw(keys []string, goroutine int) (drawn [drawnKeys]string) {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, uint64(goroutine))), 1.01, 1, uint64(len(keys)-1))
	for i := range drawn {
		drawn[i] = keys[zipf.Uint64()]
	}
	return drawn
}

// limiterCalls matches the server's counts of calls of our commands and of scripts.
const limiterCalls = `cmdstat_(?:cl\.\w+|eval\w*):calls`

// allocated returns how many objects this process has allocated.
func allocated() float64 {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return float64(memory.Mallocs)
}

// usedCPU returns the CPU time that this process has used.
func usedCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // fails for no process that is its own
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
