// Package funnels keeps funnels in the memory of the process, for package limiter where it
// decides without Redis. A funnel takes a key and a TAT, and is removed some time after it has
// drained.
package funnels

import (
	"strings"
	"sync"
	"time"

	"funnel/gcra"
	"funnel/internal/idle"
)

// A Set is funnels, each under its key. Make one with [New]; all methods may be called from
// any number of goroutines.
type Set struct {
	now   func() time.Time
	start time.Time

	mutex sync.Mutex
	tats  idle.Map[string, int64]
}

// New returns an empty set. The time comes from now, between 1970 and 2262.
func New(now func() time.Time) *Set { return &Set{now: now, start: now()} }

// Decide has an operation decide a call over the funnels of different keys as one, as
// [gcra.Operation.Decide] describes: items has the request for each key, and gets TAT and
// Decision. An error changes nothing.
func (s *Set) Decide(operation gcra.Operation, keys []string, items []gcra.Item, maxWait, receipt int64) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := s.instant() // under the lock: no call has an earlier time than the last
	for i, key := range keys {
		items[i].TAT = s.tats.Get(key)
	}
	if _, err := operation.Decide(items, now, maxWait, receipt); err != nil {
		return err
	}
	for i, key := range keys {
		if tat := items[i].Decision.TAT; tat != items[i].TAT {
			s.keep(key, tat, now)
		}
	}
	return nil
}

// instant is the time in nanoseconds since the Unix epoch. It adds the time since the start,
// which time.Now measures with a monotonic clock: a wall clock that is set back by an hour
// would limit every call for that hour.
func (s *Set) instant() int64 { return s.start.UnixNano() + int64(s.now().Sub(s.start)) }

func (s *Set) keep(key string, tat, now int64) {
	if s.tats.Has(key) {
		s.tats.Set(key, tat)
		return
	}
	// A key that is part of a larger string must not keep all of that in memory.
	s.tats.Add(strings.Clone(key), tat, func(_ string, tat int64) bool { return tat <= now })
}

// Empty empties the funnel of that key.
func (s *Set) Empty(key string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.tats.Has(key) {
		s.tats.Set(key, gcra.Empty)
	}
}

// Len returns how many funnels are kept, some of which may have drained.
func (s *Set) Len() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.tats.Len()
}
