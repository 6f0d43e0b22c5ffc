package limiter

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	failuresToOpen = 3           // calls in a row without an answer
	openFor        = time.Second // before one call tries again
)

// A breaker keeps calls from a Redis that does not answer: each would wait for its whole time-out.
// After some failures in a row it is open, and only one call per second, the probe, asks, until
// one is answered. All methods may be called from any number of goroutines.
type breaker struct {
	failures atomic.Int32 // in a row

	mutex     sync.Mutex
	lastError error
	until     time.Time // from when on a probe may ask, while the breaker is open
}

// admit makes a call the probe, or returns why Redis is not to be asked now. The breaker is open.
func (b *breaker) admit(now time.Time) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if now.Before(b.until) {
		return b.lastError
	}
	b.until = now.Add(openFor)
	return nil
}

// failed is told of a call without an answer. The calls that were under way when the breaker opened
// do not put off the probe.
func (b *breaker) failed(now time.Time, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.lastError = err
	if b.failures.Add(1) <= failuresToOpen {
		b.until = now.Add(openFor)
	}
}

// answered is told of an answer, which may be an error reply.
func (b *breaker) answered() { b.failures.Store(0) }

// leaveProbe is told of a probe whose caller gave up before an answer: the next call probes.
func (b *breaker) leaveProbe() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.until = time.Time{}
}
