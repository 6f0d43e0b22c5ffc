package textbook

import (
	"context"
	"sync"
	"time"

	"funnel/internal/idle"
)

// Local is a set of funnels inside this process, one for each key. Make it with [NewLocal].
//
// The book has an object with the water and the time, and a dictionary of such objects. Its bugs:
//
//   - Two threads pour into one funnel at once, and both get the last token. Here a call holds a
//     lock.
//   - The dictionary only grows. Here each new key removes some funnels that have drained: a
//     drained funnel is the same as an unused one.
//   - The version in Java drops the fraction of a token at each leak, and leaks too slowly. Here
//     the water is a floating point number.
//   - The version in Python adds floating point numbers up and compares them exactly: some calls
//     that come just in time are limited. Here they may be a millionth of a token early.
//   - A clock that is set back empties the funnel in Java. Here nothing leaks until the clock is
//     where it was. time.Now does not go back when somebody sets the system's clock.
//   - Any number is accepted. A capacity of 0 never allows, a rate of 0 never leaks. Here they are
//     errors.
type Local struct {
	// Now replaces time.Now, for tests. Set it before the first call.
	Now func() time.Time

	capacity, leakingRate float64

	mutex   sync.Mutex
	funnels idle.Map[string, funnel]
}

// A funnel held this much water, in tokens, at lastTime.
type funnel struct {
	water    float64
	lastTime time.Time
}

// tolerance is the part of a token by which a call may be early. It is far more than the rounding
// errors of the water, and far less than anybody would notice.
const tolerance = 1e-6

// NewLocal returns funnels that hold capacity tokens, from 1 to 1e6, and leak leakingRate tokens
// per second, from 1e-9 to 1e6. Other numbers are errors.
func NewLocal(capacity int, leakingRate float64) (*Local, error) {
	if err := checkFunnel(capacity, leakingRate); err != nil {
		return nil, err
	}
	return &Local{Now: time.Now, capacity: float64(capacity), leakingRate: leakingRate}, nil
}

// Allow takes one token from the funnel of a key, and reports whether it fitted. It does not wait,
// ignores the context, and returns no error: it has the form of [Hash.Allow] and [Window.Allow].
func (l *Local) Allow(_ context.Context, key string) (bool, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.Now()
	f := l.leak(l.funnels.Get(key), now)
	if f.water+1 > l.capacity+tolerance {
		return false, nil
	}
	f.water++
	if l.funnels.Has(key) {
		l.funnels.Set(key, f)
	} else {
		l.funnels.Add(key, f, func(_ string, other funnel) bool { return l.leak(other, now).water == 0 })
	}
	return true, nil
}

// leak returns a funnel as it is now.
func (l *Local) leak(f funnel, now time.Time) funnel {
	if now.After(f.lastTime) {
		f.water = max(0, f.water-now.Sub(f.lastTime).Seconds()*l.leakingRate)
		f.lastTime = now
	}
	return f
}
