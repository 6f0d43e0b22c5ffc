package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"funnel/limiter"
	"funnel/limiter/lease"
)

// hotKey measures calls from this process on one key, which allows all of them.
func (s *Setting) hotKey() Table {
	table := Table{Name: "hot-key", Title: "One hot key",
		Columns: []string{"client", "goroutines", "decisions per second", "ratio to redis_rate", "calls to Redis per second", "p50 µs", "p99 µs", "allocations per decision"}}
	load := loadAverage()
	for _, goroutines := range []int{1, 64, 512} {
		server := s.Start(s.Module, nil)
		clients := server.hotClients(goroutines)
		turns := s.takeTurns(fmt.Sprintf("hot key, %d goroutines", goroutines), clients, func(c *goClient) round { return server.goRound(c, goroutines, 0, 64) })
		server.Close()
		if !turns {
			return table
		}
		reference := clients[len(clients)-1]
		for _, c := range clients {
			table.Rows = append(table.Rows, []string{c.Title, fmt.Sprint(goroutines), thousands(c.median(rate)), ratio(&c.run, &reference.run, rate),
				thousands(c.median(commands)), fmt.Sprintf("%.1f", c.median(p50)), fmt.Sprintf("%.1f", c.median(p99)), fmt.Sprintf("%.2f", c.median(allocations))})
		}
	}
	table.Note = fmt.Sprintf("%s, one key, all calls allowed. Medians of %d rounds of %v, the clients in turn; in brackets the quartiles of the rounds. Of 64 calls one is timed. Client and server share the machine; its load was %s before and %s after.",
		s.server, s.Rounds, s.goRoundLength(), load, loadAverage())
	return table
}

// hotClients connects all ways to decide on one key, redis_rate last. The limit is so large
// that a round never reaches it.
func (c *Client) hotClients(goroutines int) (clients []*goClient) {
	if c.failed(nil) {
		return nil
	}
	const perSecond, burst = 100_000_000, 50_000_000
	limit := limiter.PerSecond(perSecond).Burst(burst)
	connect := func() *redis.Client {
		return c.server.NewClient(func(options *redis.Options) { options.PoolSize = goroutines })
	}
	add := func(title string, call func(ctx context.Context, key string) error) {
		clients = append(clients, &goClient{run{Case: Case{Alternative: Alternative{Title: title}}}, call})
	}
	add("Allow", allowBy(limit, connect()))
	pipelining, err := connect().AutoPipeline()
	c.failed(err)
	add("Allow, AutoPipeline", allowBy(limit, pipelining))
	for _, span := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond} {
		add(fmt.Sprintf("leases of %v", span), allowOf(lease.New(limiter.New(connect()), span), limit))
	}
	rates := redis_rate.NewLimiter(connect())
	add(redisRateTitle, func(ctx context.Context, key string) error {
		result, err := rates.Allow(ctx, key, redis_rate.Limit{Rate: perSecond, Burst: burst, Period: time.Second})
		return allowed(err, result != nil && result.Allowed == 1)
	})
	return clients
}
