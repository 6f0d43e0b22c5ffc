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

// A demand is how processes ask for tokens: each has leases and connections of its own. So many
// callers of a process ask at once, and all processes together so often in a second.
type demand struct {
	title               string
	limit               limiter.Limit
	processes, together int
	perSecond           float64
}

const (
	leaseSpan      = 50 * time.Millisecond
	leaseRounds    = 20 // so many rounds long is the measurement of a demand
	sharedInterval = time.Second / 2000
)

// leases measures what processes get that share a key, and what it costs.
func (s *Setting) leases() Table {
	table := Table{Title: "Leases", Columns: []string{"calls per second", "processes", "granted of possible",
		"calls in d for each process", "callers who wait for Redis", "worst stretch", "bound"}}
	var demands []demand
	for _, times := range []float64{0.5, 0.9, 1.1, 2, 10} {
		demands = append(demands, demand{fmt.Sprintf("%v times the rate", times),
			limiter.Every(sharedInterval).Burst(400), 20, 1, times * float64(time.Second/sharedInterval)})
	}
	demands = append(demands, demand{"50,000, 64 at once", limiter.PerSecond(goRate).Burst(goBurst), 1, 64, 50_000})
	for _, d := range demands {
		s.Progress("%s", d.title)
		client := s.Start(s.Module, nil)
		table.Rows = append(table.Rows, client.meet(d))
		client.Close()
	}
	table.Note = fmt.Sprintf("%s, leases of %v. 20 processes share %d tokens a second, burst 400: leases, each with its own "+
		"client, of one program. Calls are made when they are due, and limited ones not again, for %v; those who wait are counted "+
		"after a fifth of it. Instants are read after a decision. Possible: the calls, or rate × time and one capacity, the lesser. Worst stretch: the most tokens of any "+
		"stretch of time, less those that leak in it.", s.server, leaseSpan, time.Second/sharedInterval, s.Round*leaseRounds)
	return table
}

// A waiting context counts callers who ask it for their end: those who wait.
type waiting struct {
	context.Context
	waits *bool
}

func (w waiting) Done() <-chan struct{} {
	*w.waits = true
	return w.Context.Done()
}

// meet has processes meet a demand, and returns the row.
func (c *Client) meet(d demand) []string {
	if c.failed(nil) {
		return nil
	}
	var mutex sync.Mutex
	var processes sync.WaitGroup
	var granted []int64
	var asked, settled, waited float64
	sent, begin, length := c.Info(limiterCalls), time.Now(), c.Round*leaseRounds
	for range d.processes {
		redis := c.server.NewClient()
		c.others = append(c.others, redis)
		leases, gap := lease.New(limiter.New(redis), leaseSpan), float64(d.processes*d.together)/d.perSecond*float64(time.Second)
		processes.Go(func() {
			var callers sync.WaitGroup
			defer callers.Wait()
			for due := rand.Float64() * gap; time.Duration(due) < length; due += gap * (0.8 + 0.4*rand.Float64()) {
				time.Sleep(time.Until(begin.Add(time.Duration(due))))
				for range d.together {
					callers.Go(func() {
						var waits bool
						result, err := leases.Allow(waiting{c.Ctx, &waits}, "shared", d.limit)
						at := int64(time.Since(begin))
						mutex.Lock()
						defer mutex.Unlock()
						c.failed(err)
						if asked++; result.Allowed > 0 {
							granted = append(granted, at)
						}
						if time.Duration(due) > length/5 {
							if settled++; waits {
								waited++
							}
						}
					})
				}
			}
		})
	}
	processes.Wait()
	took := float64(time.Since(begin))
	calls := (c.Info(limiterCalls) - sent) / float64(d.processes) / (took / float64(leaseSpan))
	rate, _ := d.limit.Rate()
	interval := rate.EmissionInterval()
	possible := min(asked, took/float64(interval)+float64(d.limit.Capacity))
	slices.Sort(granted)
	least, most := int64(math.MaxInt64), int64(0)
	for i, at := range granted {
		least = min(least, int64(i)*interval-at)
		most = max(most, int64(i+1)*interval-at-least)
	}
	return []string{d.title, fmt.Sprint(d.processes), fmt.Sprintf("%.3f", float64(len(granted))/possible),
		fmt.Sprintf("%.2f", calls), fmt.Sprintf("%.4f", waited/settled), thousands(float64(most) / float64(interval)),
		thousands(float64(d.limit.Capacity) + float64(leaseSpan)/float64(interval))}
}
