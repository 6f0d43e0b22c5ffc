package local

import (
	"sync/atomic"
	"time"

	"funnel/gcra"
)

// A Funnel is a single funnel of a fixed rate. It is one number, so goroutines
// share it without a lock. Make one with [NewFunnel].
type Funnel struct {
	rate  gcra.Rate
	clock clock
	tat   atomic.Int64
}

// NewFunnel returns an empty funnel. The time comes from now, between 1970 and
// 2262; nil means time.Now.
func NewFunnel(rate gcra.Rate, now func() time.Time) *Funnel {
	return &Funnel{rate: rate, clock: startClock(now)}
}

// Watering pours quantity tokens, at least 0, where 0 peeks. All
// of them fit, or nothing is poured and the decision says Limited. The errors are
// those of [gcra.Rate.Decide]; they pour nothing either.
func (f *Funnel) Watering(quantity int64) (gcra.Decision, error) {
	for {
		tat := f.tat.Load()
		decision, err := f.rate.Decide(tat, f.clock.instant(), quantity)
		// If another call has poured meanwhile, the decision is out of date,
		// and the next round makes a new one.
		if err != nil || decision.TAT == tat || f.tat.CompareAndSwap(tat, decision.TAT) {
			return decision, err
		}
	}
}
