package guard

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
// one is answered. All methods may be called from any number of goroutines. Instants are
// times of a monotonic clock.
type breaker struct {
	failures atomic.Int32 // in a row

	mutex     sync.Mutex
	lastError error
	until     time.Duration // from when on a probe may ask, while the breaker is open
}

// isOpen reports whether only a probe may ask.
func (b *breaker) isOpen() bool { return b.failures.Load() >= failuresToOpen }

// admit makes a call the probe, or returns why Redis is not to be asked now. The breaker is open.
func (b *breaker) admit(now time.Duration) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if now < b.until {
		return b.lastError
	}
	b.until = now + openFor
	return nil
}

// failed records a call without an answer. Calls that were under way when the breaker opened
// do not put off the probe.
func (b *breaker) failed(now time.Duration, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.lastError = err
	if b.failures.Add(1) <= failuresToOpen {
		b.until = now + openFor
	}
}

// answered records an answer, which may be an error reply.
func (b *breaker) answered() {
	if b.failures.Load() > 0 {
		b.failures.Store(0)
	}
}

// leaveProbe records that the caller of the probe gave up before an answer: the next call probes.
func (b *breaker) leaveProbe() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.until = 0
}
