// Package funnels keeps funnels and slots in the memory of the process, for package limiter if it
// decides without Redis. A funnel takes a key and a TAT, and is removed some time after it has
// drained.
package funnels

import (
	"cmp"
	"maps"
	"strings"
	"sync"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/idle"
	"funnel/slots"
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

// Apply decides a call over rows atomically, as [call.Operation.Apply] describes: rows has the
// request for each of the keys, which differ, and gets state and decision. Slots are the holder's.
// An error changes nothing.
func (s *Set) Apply(operation call.Operation, keys []string, holder string, rows []call.Row,
	maxWait, receipt int64) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := s.instant() // under the lock: no call has an earlier time than the last
	for i, key := range keys {
		if row := &rows[i]; row.Kind == call.Slots {
			row.Slots.State = s.readSlots(key, holder, now/1e6)
		} else {
			row.Funnel.TAT = s.tats.Get(key)
		}
	}
	if _, err := operation.Apply(rows, now, maxWait, receipt); err != nil {
		return err
	}
	for i, key := range keys {
		switch row := &rows[i]; {
		case !row.Changes():
		case row.Kind == call.Funnel:
			s.keep(key, row.Funnel.Decision.TAT, now)
		case row.Slots.Decision.End == 0:
			delete(s.slots[key], holder)
		default:
			if s.slots[key] == nil {
				s.slots[strings.Clone(key)] = map[string]int64{}
			}
			s.slots[key][holder] = row.Slots.Decision.End
		}
		if len(s.slots[key]) == 0 {
			delete(s.slots, key)
		}
	}
	return nil
}

// readSlots describes the slots that run to one holder. It removes slots that have ended.
func (s *Set) readSlots(key, holder string, now int64) slots.State {
	ends := s.slots[key]
	maps.DeleteFunc(ends, func(_ string, end int64) bool { return end <= now })
	state := slots.State{Own: ends[holder], Running: int64(len(ends))}
	for other, end := range ends {
		if other != holder {
			state.First = min(end, cmp.Or(state.First, end))
			state.Last = max(end, state.Last)
		}
	}
	return state
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
