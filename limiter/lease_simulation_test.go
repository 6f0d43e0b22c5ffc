package limiter_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// excess is the largest number of tokens that went beyond capacity + elapsed / T in a stretch
// of time, whose first and last instant are those of uses.
func (m *model) excess(limit limiter.Limit) float64 {
	slices.SortFunc(m.uses, byInstant)
	interval := int64(limit.Period) / int64(limit.Count)
	before, least, most := int64(0), int64(math.MaxInt64), int64(math.MinInt64)
	for _, use := range m.uses {
		at := use.at - m.uses[0].at
		least = min(least, before*interval-at)
		before += use.quantity
		most = max(most, before*interval-at-least)
	}
	return float64(most)/float64(interval) - float64(limit.Capacity)
}

// A phase is how all processes ask for some time: batches of calls, and gaps between these.
type phase struct {
	batch     int
	gap, last time.Duration
}

// phases are drawn. In most of them processes take tokens ahead, and use all at once when these
// are about to lapse.
func phases(random *rand.Rand, span time.Duration) (all []phase) {
	of := func(low, high float64) time.Duration {
		return 1 + time.Duration(float64(span)*(low+(high-low)*random.Float64()))
	}
	for range 3 {
		if random.IntN(4) > 0 {
			all = append(all, phase{20, span, of(0, 0.1)}, phase{[]int{1, 1, 1, 4}[random.IntN(4)], of(0.4, 0.95), of(1, 2.5)}, phase{0, span, of(0, 0.5)})
			continue
		}
		for range 3 {
			all = append(all, phase{[]int{0, 1, 1, 2, 5, 20}[random.IntN(6)], of(0.1, 0.5), of(0.2, 2)})
		}
	}
	return append(all, phase{20, span, of(0, 0.1)})
}

// simulate runs a random history, and returns the model, by how many tokens a stretch of time
// went beyond the bound, and how many tokens were used too late.
func simulate(seed uint64) (m *model, beyond float64, late int64, what string) {
	random := rand.New(rand.NewPCG(seed, 0))
	limit := limiter.Every(time.Millisecond << random.IntN(5)).Burst([]int{5, 20, 100, 100, 200}[random.IntN(5)])
	longest := time.Duration(float64(limit.Period) * float64(limit.Capacity) * []float64{0, 0.2, 0.6, 0.9, 2, 4}[random.IntN(6)])
	count := []int{1, 3, 20, 40, 60}[random.IntN(5)]
	m = newModel(seed, []float64{0, 0, 0.02, 0.2}[random.IntN(4)], max(longest/time.Duration([]int{2, 20, 200}[random.IntN(3)]), time.Microsecond))
	mixed, largest := random.IntN(3) == 0, []int{1, 1, limit.Capacity/10 + 2}[random.IntN(3)]
	script := phases(random, max(longest, limit.Period))

	var processes, callers sync.WaitGroup
	for i := range count {
		own := rand.New(rand.NewPCG(seed, uint64(i)+2))
		speed, span := []float64{1.01, 1 / 1.01}[own.IntN(2)], longest
		if mixed {
			span = longest * time.Duration(own.IntN(3)) / 2
		}
		options := []limiter.Option{limiter.WithTimeout(3 * max(longest, limit.Period)), limiter.WithModuleOnly()}
		p := start(m, speed, span, options...)
		processes.Go(func() {
			for _, phase := range script {
				if m.faults > 0 && own.IntN(20) == 0 {
					p = start(m, speed, span, options...) // those who are calling keep the old one
				}
				end := time.Now().Add(phase.last)
				if phase.batch < 5 {
					time.Sleep(min(phase.last, time.Duration(own.Float64()*float64(phase.gap))))
				}
				for time.Now().Before(end) {
					for range phase.batch {
						p, quantity, patience := p, 1+own.IntN(largest), own.IntN(10)
						callers.Go(func() {
							ctx, cancel := context.WithTimeout(context.Background(), max(longest, limit.Period)*time.Duration(1+patience)/3)
							defer cancel()
							p.allow(ctx, limit, quantity)
						})
					}
					time.Sleep(min(time.Until(end), phase.gap*time.Duration(80+own.IntN(40))/100))
				}
			}
		})
	}
	processes.Wait()
	callers.Wait()
	time.Sleep(time.Hour) // calls that were given up end
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, p := range m.processes {
		late += p.late()
	}
	what = fmt.Sprintf("seed %d: %v, d of %v, mixed %v, %d processes, faults %v, quantities to %d", seed, limit, longest, mixed, count, m.faults, largest)
	return m, m.excess(limit) - float64(longest)*1.01/float64(limit.Period), late, what
}

// In any stretch of time no more than capacity + (elapsed + d) / T tokens are handed out, over
// all processes, whatever becomes of calls, processes and clocks.
func TestLeasesAreBounded(t *testing.T) {
	first, count := uint64(1), uint64(40)
	if os.Getenv("FUNNEL_LONG") != "" {
		first, count = uint64(time.Now().UnixNano()), 2000
	}
	if seed := os.Getenv("FUNNEL_SEED"); seed != "" {
		first, _ = strconv.ParseUint(seed, 10, 64)
	}
	closest, ahead := math.Inf(-1), int64(0)
	for seed := first; seed < first+count; seed++ {
		synctest.Test(t, func(t *testing.T) {
			m, beyond, late, what := simulate(seed)
			ahead += m.leased
			closest = max(closest, beyond)
			if beyond > 0 || late > 0 {
				t.Errorf("%s: %.3f tokens beyond the bound, %d used after d", what, beyond, late)
			}
		})
	}
	require.Positive(t, ahead, "leases decide")
	t.Logf("%d histories, %d tokens by leases, closest to the bound: %.3f tokens", count, ahead, closest)
}
