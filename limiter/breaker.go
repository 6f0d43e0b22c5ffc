package limiter

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// failuresToOpen is how many calls in a row have to go without an answer before the
	// breaker opens.
	failuresToOpen = 3

	// openFor is how long it stays open before one call tries again.
	openFor = time.Second
)

// A breaker keeps calls from a Redis that does not answer: each would wait for its
// whole timeout. After some failures in a row it is open, and only one call per second,
// the probe, asks, until one is answered. All methods may be called from any number of
// goroutines.
type breaker struct {
	failures atomic.Int32 // in a row: calls take the lock only if there are some

	mutex sync.Mutex
	last  error     // of the failures
	until time.Time // from when on a probe may ask, while the breaker is open
}

// admit returns why Redis is not to be asked now, or nil, and whether the call is the probe.
func (b *breaker) admit(now time.Time) (isProbe bool, cause error) {
	if b.failures.Load() < failuresToOpen {
		return false, nil
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if now.Before(b.until) {
		return false, b.last
	}
	b.until = now.Add(openFor)
	return true, nil
}

// failed is told of a call without an answer. The calls that were under way when the breaker opened
// do not put off the probe.
func (b *breaker) failed(now time.Time, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.last = err
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
