package guard

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	failuresToOpen = 3           // calls in a row without an answer
	openFor        = time.Second // until one call tries again
)

// A breaker keeps calls away from a Redis that does not answer, because each of them would wait for its whole time-out.
// After some failures in a row the breaker is open: only one call per second, the probe, asks Redis, until an answer
// comes. Slots are renewed and given back even then. All methods may be called from any number of goroutines. Instants
// are times of a monotonic clock.
type breaker struct {
	failures atomic.Int32 // in a row

	mutex     sync.Mutex
	lastError error
	until     time.Duration // while the breaker is open, no probe asks before this instant
}

// isOpen reports whether only a probe may ask.
func (b *breaker) isOpen() bool { return b.failures.Load() >= failuresToOpen }

// admit makes a call the probe, or returns the error of the last call if it is too early for a probe. The breaker is
// open.
func (b *breaker) admit(now time.Duration) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if now < b.until {
		return b.lastError
	}
	b.until = now + openFor
	return nil
}

// failed records a call without an answer. A call that was under way when the breaker opened does not put off the
// probe.
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

// leaveProbe records that the caller of the probe gave up before an answer came: the next call is the probe.
func (b *breaker) leaveProbe() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.until = 0
}
