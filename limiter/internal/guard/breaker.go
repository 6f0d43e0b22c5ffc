package guard

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"funnel/limiter/internal/backend"
)

const (
	// failuresToOpen is how many calls in a row have no answer before the breaker opens. One or two
	// may be the end of a connection, or a failover that is over by the next call.
	failuresToOpen = 3

	// openFor is the time until one call tries again. One call a second is no load for a server
	// that recovers, and calls go back to Redis within a second of its recovery.
	openFor = time.Second
)

// A breaker keeps calls away from a Redis that does not answer, because each of them would wait for
// its whole time-out. After some failures in a row the breaker is open: only one call per second,
// the probe, asks Redis, until an answer comes. Slots are renewed and given back even then. All
// methods may be called from any number of goroutines. Instants are times of a monotonic clock.
type breaker struct {
	failures   atomic.Int32 // in a row
	lastAnswer atomic.Int64 // when it came, plus 1; 0 before the first

	mutex     sync.Mutex
	lastError error
	since     time.Duration // when the first of the failures was recorded
	until     time.Duration // while the breaker is open, no probe asks before this instant
}

// isOpen reports whether only a probe may ask.
func (b *breaker) isOpen() bool { return b.failures.Load() >= failuresToOpen }

// admit makes a call the probe, or returns why the call is not sent if it is too early for a probe.
// The breaker is open.
func (b *breaker) admit(now time.Duration) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if now < b.until {
		return backend.Classify(backend.ErrNotAsked, fmt.Errorf("Redis is not asked, because it has not answered for %v: %w",
			(now-b.since).Round(time.Millisecond), b.lastError))
	}
	b.until = now + openFor
	return nil
}

// failed records a call without an answer. Calls that were already under way when the breaker
// opened may fail later; they do not postpone the probe.
func (b *breaker) failed(now time.Duration, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.lastError = err
	failures := b.failures.Add(1)
	if failures == 1 {
		b.since = now
	}
	if failures <= failuresToOpen {
		b.until = now + openFor
	}
}

// answered records an answer, which may be an error reply.
func (b *breaker) answered(now time.Duration) {
	b.lastAnswer.Store(int64(now) + 1)
	if b.failures.Load() > 0 {
		b.failures.Store(0)
	}
}

// hasAnsweredSince reports whether an answer has come after an instant.
func (b *breaker) hasAnsweredSince(at time.Duration) bool {
	last := b.lastAnswer.Load()
	return last > 0 && last-1 > int64(at)
}
