package limiter

import (
	"sync"
	"time"
)

const (
	// toOpen is how many calls in a row have to go without an answer before the
	// breaker opens.
	toOpen = 3

	// openFor is how long it stays open before one call tries again.
	openFor = time.Second
)

// A breaker keeps calls from a Redis that does not answer: each would wait for its
// whole timeout. After some failures in a row it is open, and only one call per second
// asks, until one is answered. All methods may be called from any number of
// goroutines.
type breaker struct {
	mutex    sync.Mutex
	failures int
	last     error     // of the failures
	until    time.Time // from when on one call may try, while it is open
}

// refuses returns why Redis is not to be asked now, or nil.
func (b *breaker) refuses(now time.Time) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.failures < toOpen {
		return nil
	}
	if now.Before(b.until) {
		return b.last
	}
	b.until = now.Add(openFor)
	return nil
}

// failed is told of a call without an answer.
func (b *breaker) failed(now time.Time, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.failures++
	b.last, b.until = err, now.Add(openFor)
}

// answered is told of an answer, which may be an error reply.
func (b *breaker) answered() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.failures = 0
}
