package local

import (
	"sync/atomic"
	"time"

	"funnel/gcra"
	"funnel/internal/funnels"
)

// A Funnel is a single funnel of a fixed rate. It is one number, so goroutines
// share it without a lock. Make one with [NewFunnel].
type Funnel struct {
	rate  gcra.Rate
	clock funnels.Clock
	tat   atomic.Int64
}

// NewFunnel returns an empty funnel. The time comes from now, between 1970 and
// 2262; nil means time.Now.
func NewFunnel(rate gcra.Rate, now func() time.Time) *Funnel {
	return &Funnel{rate: rate, clock: funnels.StartClock(now)}
}

// Take takes quantity tokens, at least 0, where 0 peeks: all of them, or none if they do not
// fit, and the decision says Limited. The errors are those of [gcra.Rate.Decide]; they change
// nothing.
func (f *Funnel) Take(quantity int64) (gcra.Decision, error) {
	for {
		tat := f.tat.Load()
		decision, err := f.rate.Decide(tat, f.clock.Instant(), quantity)
		// If another call has taken tokens meanwhile, the decision is out of date,
		// and the next round makes a new one.
		if err != nil || decision.TAT == tat || f.tat.CompareAndSwap(tat, decision.TAT) {
			return decision, err
		}
	}
}
