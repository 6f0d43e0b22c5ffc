package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"funnel/limiter"
	"funnel/limiter/lease"
)

const (
	leaseSpan   = 50 * time.Millisecond
	leaseRounds = 20 // so many rounds long is the measurement of a row
)

// leases measures what processes get that share a key, and what it costs.
func (s *Setting) leases() Table {
	table := Table{Title: "Leases", Columns: []string{"calls per second", "processes", "granted of possible",
		"calls in d for each process", "callers who wait for Redis", "worst stretch", "bound"}}
	shared, hot := limiter.PerSecond(2000).WithCapacity(400), limiter.PerSecond(goRate).WithCapacity(goBurst)
	for _, times := range []float64{0.5, 0.9, 1.1, 2, 10} {
		table.Rows = append(table.Rows, s.meet(fmt.Sprintf("%v times the rate", times), shared, 20, 1, times*2000))
	}
	table.Rows = append(table.Rows, s.meet("50,000, 64 at once", hot, 1, 64, 50_000))
	table.Note = fmt.Sprintf("%s, leases of %v. 20 processes share 2,000 tokens a second, capacity 400; they are leases of "+
		"one program, each with its own client. Calls are made when they are due, for %v, and limited ones not again. "+
		"Possible: the calls, or rate × time and one capacity, the lesser. Those who wait are counted after a fifth of the "+
		"time. Worst stretch: the most tokens of any stretch of time, less those that leak in it, by clocks that are read "+
		"after each decision.", s.server, leaseSpan, s.Round*leaseRounds)
	return table
}

// A waiting context notices a caller that waits: such a caller asks when the context is done.
type waiting struct {
	context.Context
	waits *bool
}

func (w waiting) Done() <-chan struct{} {
	*w.waits = true
	return w.Context.Done()
}

// meet returns the row of a demand. So many callers of a process ask together, all so often in a second.
func (s *Setting) meet(title string, limit limiter.Limit, count, together int, perSecond float64) []string {
	s.Progress("%s", title)
	c := s.Start(s.Module, nil)
	defer c.Close()
	if s.failed(nil) {
		return nil
	}
	var mutex sync.Mutex
	var processes sync.WaitGroup
	var granted []int64
	var asked, waited float64
	sent, begin, length := c.Info(limiterCalls), time.Now(), c.Round*leaseRounds
	for range count {
		redis := c.server.NewClient()
		c.others = append(c.others, redis)
		leases, gap := lease.New(limiter.New(redis), leaseSpan), float64(count*together)/perSecond*float64(time.Second)
		processes.Go(func() {
			var callers sync.WaitGroup
			defer callers.Wait()
			for i := 0.0; i*gap < float64(length); i++ {
				due := (i + rand.Float64()) * gap
				time.Sleep(time.Until(begin.Add(time.Duration(due))))
				for range together {
					callers.Go(func() {
						var waits bool
						result, err := leases.Allow(waiting{c.Ctx, &waits}, "shared", limit)
						at := int64(time.Since(begin))
						mutex.Lock()
						defer mutex.Unlock()
						c.failed(err)
						asked++
						if result.Allowed > 0 {
							granted = append(granted, at)
						}
						if waits && time.Duration(due) > length/5 {
							waited++
						}
					})
				}
			}
		})
	}
	processes.Wait()
	took, calls := float64(time.Since(begin)), c.Info(limiterCalls)-sent
	interval := int64(limit.Period) / int64(limit.Count)
	possible := min(asked, took/float64(interval)+float64(limit.Capacity))
	slices.Sort(granted)
	least, most := int64(math.MaxInt64), int64(0)
	for i, at := range granted {
		least = min(least, int64(i)*interval-at)
		most = max(most, int64(i+1)*interval-at-least)
	}
	bound := float64(limit.Capacity) + float64(leaseSpan)/float64(interval)
	return []string{title, fmt.Sprint(count), fmt.Sprintf("%.3f", float64(len(granted))/possible),
		fmt.Sprintf("%.2f", calls/float64(count)/(took/float64(leaseSpan))), fmt.Sprintf("%.4f", waited/(asked*4/5)),
		thousands(float64(most) / float64(interval)), thousands(bound)}
}
