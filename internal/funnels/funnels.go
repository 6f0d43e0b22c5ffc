// Package funnels keeps funnels in memory: those of package gcra/local, and those that
// package limiter has beside Redis. The comment of gcra/local tells what they take.
package funnels

import (
	"slices"
	"strings"
	"sync"
	"time"

	"funnel/gcra"
)

const (
	// removalsPerCall is how many drained funnels one call removes at most: more than the
	// one that a call can add, or they would pile up, and bounded, because many may drain
	// at the same time.
	removalsPerCall = 100

	// The tables shrink when they have held at least shrinkFrom funnels and no
	// more than one in shrinkBy is left. Shrinking copies what is left, after
	// seven times as many have been removed.
	shrinkFrom = 1024
	shrinkBy   = 8
)

// A Set is funnels, each under its key. Make one with [New]; all
// methods may be called from any number of goroutines.
type Set struct {
	clock Clock

	mutex sync.Mutex
	// tats has the TAT of every funnel that may not be empty.
	tats map[string]int64
	// drains has exactly one entry for each key of tats, due no later than the TAT,
	// unless Empty or a refund has lowered it. Taking tokens only raises a TAT, and leaves
	// the entry as it is; forget corrects it when it is due.
	drains drains
	// peak is the largest number of funnels since the tables were last made.
	peak int
}

// New returns an empty set. The time comes from now, between 1970 and 2262; nil
// means time.Now.
func New(now func() time.Time) *Set {
	return &Set{clock: StartClock(now), tats: map[string]int64{}}
}

// begin locks the set, for the caller to unlock, and removes funnels that have drained. It
// reads the clock under the lock, so no call has an earlier time than the last.
func (f *Set) begin() (now int64) {
	f.mutex.Lock()
	now = f.clock.Instant()
	f.forget(now)
	return now
}

// Take is Take of gcra/local.Funnels.
func (f *Set) Take(key string, rate gcra.Rate, quantity int64) (gcra.Decision, error) {
	now := f.begin()
	defer f.mutex.Unlock()
	tat := f.tats[key]
	decision, err := rate.Decide(tat, now, quantity)
	if err == nil && decision.TAT != tat {
		f.keep(key, decision.TAT)
	}
	return decision, err
}

// Peek decides as Take would, and takes nothing.
func (f *Set) Peek(key string, rate gcra.Rate, quantity int64) (gcra.Decision, error) {
	now := f.begin()
	defer f.mutex.Unlock()
	return rate.Decide(f.tats[key], now, quantity)
}

// Decide has an operation decide a call over the funnels of different keys as one, as
// [gcra.Operation.Decide] describes: parts has the request for each key, and gets TAT and
// Decision. An error changes nothing.
func (f *Set) Decide(operation gcra.Operation, keys []string, parts []gcra.Item, lastWord int64) error {
	now := f.begin()
	defer f.mutex.Unlock()
	for i, key := range keys {
		parts[i].TAT = f.tats[key]
	}
	if _, err := operation.Decide(parts, now, lastWord, lastWord); err != nil {
		return err
	}
	for i, key := range keys {
		if parts[i].Decision.TAT != parts[i].TAT {
			f.keep(key, parts[i].Decision.TAT)
		}
	}
	return nil
}

// Raise makes the funnel of that key as full as one that is empty at the instant
// tat, unless it is fuller: for levels that are known from elsewhere, such as a
// server.
func (f *Set) Raise(key string, tat time.Time) {
	now := f.begin()
	defer f.mutex.Unlock()
	if tat := f.clock.at(tat); tat > max(now, f.tats[key]) {
		f.keep(key, tat)
	}
}

// Empty empties the funnel of that key.
func (f *Set) Empty(key string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if _, known := f.tats[key]; known {
		f.tats[key] = gcra.Empty
	}
}

// Len returns how many funnels are kept: those that were not empty at the last call,
// and those that have drained and not been removed yet.
func (f *Set) Len() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return len(f.tats)
}

// keep stores the TAT of a funnel that is not empty.
func (f *Set) keep(key string, tat int64) {
	if _, known := f.tats[key]; !known {
		// A key that is part of a larger string must not keep all of that in memory.
		key = strings.Clone(key)
		f.drains.add(drain{tat, key})
	}
	f.tats[key] = tat
	f.peak = max(f.peak, len(f.tats))
}

// forget removes funnels that have drained by now, up to removalsPerCall.
func (f *Set) forget(now int64) {
	for range removalsPerCall {
		if len(f.drains) == 0 || f.drains[0].at > now {
			break
		}
		key := f.drains[0].key
		if tat := f.tats[key]; tat > now {
			f.drains.replaceFirst(drain{tat, key})
			continue
		}
		delete(f.tats, key)
		f.drains.removeFirst()
	}
	if f.peak >= shrinkFrom && len(f.tats) <= f.peak/shrinkBy {
		f.shrink()
	}
}

// shrink copies the tables into new ones of the size that is needed now: maps and
// slices keep the size that they once had, and so would maps.Clone.
func (f *Set) shrink() {
	tats := make(map[string]int64, len(f.tats))
	for key, tat := range f.tats {
		tats[key] = tat
	}
	f.tats = tats
	f.drains = slices.Clone(f.drains)
	f.peak = len(f.tats)
}
