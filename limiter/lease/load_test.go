// Leases grant nearly what Redis would, and cost a few calls within d for each process.

package lease_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// What processes get of what is possible, and what it costs. Tokens too few for any of the callers of many are
// not taken.
func TestLeasesGrantWhatIsPossible(t *testing.T) {
	fast, small := limiter.PerSecond(2000).Burst(400), limiter.PerSecond(1000).Burst(20)
	for _, c := range []struct {
		name      string
		demand    float64 // of the rate
		processes int
		batch     int // of calls at once
		quantity  int // of each call
		limit     limiter.Limit
		d, length time.Duration
		share     float64 // at least
		calls     float64 // within d, for each process, at most
	}{
		{"half of the rate", 0.5, 20, 1, 1, fast, 50 * time.Millisecond, 2 * time.Second, 0.99, 2.5},
		{"double the rate", 2, 20, 1, 1, fast, 50 * time.Millisecond, 2 * time.Second, 0.96, 2.5},
		{"batches for a small capacity", 0.9, 5, 5, 1, small, 50 * time.Millisecond, 6 * time.Second, 0.82, 8}, // without the tenth 0.80
		{"many tokens that leak slowly", 60, 1, 1, 10, limiter.PerMinute(100), time.Second, 5 * time.Minute, 0.95, 3},
		{"many tokens for many processes", 10, 20, 1, 10, fast, 50 * time.Millisecond, 2 * time.Second, 0.65, 3},
	} {
		tell(t, c.name, c.limit, c.d, func(s *story) {
			network, m := rand.New(rand.NewPCG(1, 1)), s.server
			m.way = func() time.Duration { return 1 + time.Duration(network.Int64N(int64(time.Millisecond))) }
			perSecond := float64(c.limit.Count) / c.limit.Period.Seconds()
			gap := float64(c.processes*c.batch*c.quantity) / (c.demand * perSecond) // in seconds
			var callers sync.WaitGroup
			for i := range c.processes {
				random, p := rand.New(rand.NewPCG(uint64(i), 0)), start(m, 1, c.d)
				callers.Go(func() {
					for begin := time.Now(); time.Since(begin) < c.length; {
						time.Sleep(time.Duration(random.ExpFloat64() * gap * 1e9))
						for range c.batch {
							callers.Go(func() { p.allow(ctx, c.limit, c.quantity) })
						}
					}
				})
			}
			callers.Wait()
			possible := min(float64(m.asked), perSecond*c.length.Seconds()+float64(c.limit.Capacity))
			require.GreaterOrEqual(s, float64(c.quantity*len(m.uses))/possible, c.share)
			require.LessOrEqual(s, float64(len(m.sent))/float64(c.processes)/float64(c.length/c.d), c.calls, "calls within d")
		})
	}
}
