// Package funnels keeps funnels and slots in the memory of the process, for package limiter where
// it decides without Redis. A funnel takes a key and a TAT, and is removed some time after it has
// drained.
package funnels

import (
	"cmp"
	"maps"
	"strings"
	"sync"
	"time"

	"funnel/gcra"
	"funnel/internal/idle"
)

// A Set is funnels and slots, each under its key. Make one with [New]; all methods may be called from
// any number of goroutines.
type Set struct {
	now   func() time.Time
	start time.Time

	mutex sync.Mutex
	tats  idle.Map[string, int64]
	slots map[string]map[string]int64 // by key and holder, when the slot ends, in milliseconds
}

// New returns an empty set. The time comes from now, between 1970 and 2262.
func New(now func() time.Time) *Set {
	return &Set{now: now, start: now(), slots: map[string]map[string]int64{}}
}

// Decide has an operation decide a call over the funnels of different keys as one, as
// [gcra.Operation.Decide] describes: items has the request for each key, and gets TAT and
// Decision. An error changes nothing. Items of slots are the holder's.
func (s *Set) Decide(operation gcra.Operation, keys []string, holder string, items []gcra.Item, maxWait, receipt int64) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := s.instant() // under the lock: no call has an earlier time than the last
	for i, key := range keys {
		if item := &items[i]; item.Request.IsSlots() {
			s.readSlots(key, holder, item, now/1e6)
		} else {
			item.TAT = s.tats.Get(key)
		}
	}
	if _, err := operation.Decide(items, now, maxWait, receipt); err != nil {
		return err
	}
	for i, key := range keys {
		switch tat := items[i].Decision.TAT; {
		case tat == items[i].TAT:
		case !items[i].Request.IsSlots():
			s.keep(key, tat, now)
		case tat == 0:
			delete(s.slots[key], holder)
		default:
			if s.slots[key] == nil {
				s.slots[strings.Clone(key)] = map[string]int64{}
			}
			s.slots[key][holder] = tat
		}
		if len(s.slots[key]) == 0 {
			delete(s.slots, key)
		}
	}
	return nil
}

// readSlots tells an item of the slots that run, and removes those that have ended.
func (s *Set) readSlots(key, holder string, item *gcra.Item, now int64) {
	slots := s.slots[key]
	maps.DeleteFunc(slots, func(_ string, end int64) bool { return end <= now })
	item.TAT, item.Running = slots[holder], int64(len(slots))
	for other, end := range slots {
		if other != holder {
			item.First, item.Last = min(end, cmp.Or(item.First, end)), max(end, item.Last)
		}
	}
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

// Empty empties the funnel of that key, and ends its slots.
func (s *Set) Empty(key string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.slots, key)
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
