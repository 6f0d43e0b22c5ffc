package main

import (
	"context"
	"maps"
	"sync"
	"time"
)

// A process keeps the funnels of its users in memory, so it needs no server. But no other process
// knows of them: two processes let twice as many calls through, and a process that starts begins
// with empty funnels.
type process struct {
	limit
	mutex   sync.Mutex
	funnels map[string]funnel
	sweepAt int // the number of funnels at which empty ones are removed
}

// A funnel held so much water at an instant. Water is counted by the time that it takes to leak, so
// there are no fractions to round. The instant is read from the monotonic clock, which time.Now has
// beside the time of day, and which nobody sets.
type funnel struct {
	water time.Duration
	at    time.Time
}

// leak returns the funnel as it is at a later instant.
func (f funnel) leak(now time.Time) funnel { return funnel{max(0, f.water-now.Sub(f.at)), now} }

func newProcess(l limit) *process { return &process{limit: l, funnels: map[string]funnel{}} }

func (p *process) allow(_ context.Context, key string) (bool, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	f := p.funnels[key].leak(now)
	f.water += p.interval()
	if f.water > p.interval()*time.Duration(p.count) {
		return false, nil
	}
	p.funnels[key] = f
	p.sweep(now)
	return true, nil
}

// sweep removes empty funnels whenever the number of funnels has doubled: an empty funnel is the
// same as none.
func (p *process) sweep(now time.Time) {
	if len(p.funnels) < p.sweepAt {
		return
	}
	maps.DeleteFunc(p.funnels, func(_ string, f funnel) bool { return f.leak(now).water == 0 })
	p.sweepAt = 2*len(p.funnels) + 100
}
