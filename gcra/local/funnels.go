package local

import (
	"slices"
	"strings"
	"sync"
	"time"

	"funnel/gcra"
)

const (
	// removalsPerCall is how many drained funnels one call removes at most. It is
	// more than the one that a call can add, so that they do not pile up, and
	// bounded, so that a call is quick when many drain at the same time.
	removalsPerCall = 100

	// The tables shrink when they have held at least shrinkFrom funnels and no
	// more than one in shrinkBy is left. Shrinking copies what is left, after
	// seven times as many have been removed.
	shrinkFrom = 1024
	shrinkBy   = 8
)

// Funnels is a set of funnels, each under its key. Make one with [New]; all
// methods may be called from any number of goroutines.
type Funnels struct {
	clock clock

	mutex sync.Mutex
	// tats has the TAT of every funnel that may not be empty.
	tats map[string]int64
	// drains has exactly one entry for each key of tats, due no later than the
	// TAT, unless Empty or a refund has lowered it. Pouring only raises a TAT and leaves the entry
	// as it is; forget corrects it when it is due.
	drains drains
	// peak is the largest number of funnels since the tables were last made.
	peak int
}

// New returns an empty set. The time comes from now, between 1970 and 2262; nil
// means time.Now.
func New(now func() time.Time) *Funnels {
	return &Funnels{clock: startClock(now), tats: map[string]int64{}}
}

// Water pours quantity tokens, at least 0, into the funnel of that key, where 0
// peeks. All of them fit, or nothing is poured and the decision
// says Limited. A key that is not there is an empty funnel; the rate may
// differ from call to call, as [gcra.Rate.Decide] describes. The errors are those of Decide;
// they pour nothing either.
func (f *Funnels) Water(key string, rate gcra.Rate, quantity int64) (gcra.Decision, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	// Read under the lock, so that no call has an earlier time than the last.
	now := f.clock.instant()
	f.forget(now)

	tat := f.tats[key]
	decision, err := rate.Decide(tat, now, quantity)
	if err == nil && decision.TAT != tat {
		f.keep(key, decision.TAT)
	}
	return decision, err
}

// Peek returns what Water would, and pours nothing.
func (f *Funnels) Peek(key string, rate gcra.Rate, quantity int64) (gcra.Decision, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.clock.instant()
	f.forget(now)
	return rate.Decide(f.tats[key], now, quantity)
}

// Ask has an operation decide calls of the funnels of these keys, as one: it gets an Ask
// for each key, in which TAT is set, at the instant now, and what it leaves in
// Decision.TAT is kept. An error of the operation, which Ask returns, changes nothing.
func (f *Funnels) Ask(keys []string, asks []gcra.Ask, operation func(asks []gcra.Ask, now int64) error) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.clock.instant()
	f.forget(now)
	for i, key := range keys {
		asks[i].TAT = f.tats[key]
	}
	if err := operation(asks, now); err != nil {
		return err
	}
	for i, key := range keys {
		if asks[i].Decision.TAT != asks[i].TAT {
			f.keep(key, asks[i].Decision.TAT)
		}
	}
	return nil
}

// Raise makes the funnel of that key as full as one that is empty at the instant
// tat, unless it is fuller: for levels that are known from elsewhere, such as a
// server.
func (f *Funnels) Raise(key string, tat time.Time) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.clock.instant()
	f.forget(now)
	if tat := f.clock.at(tat); tat > max(now, f.tats[key]) {
		f.keep(key, tat)
	}
}

// Empty empties the funnel of that key.
func (f *Funnels) Empty(key string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if _, known := f.tats[key]; known {
		f.tats[key] = gcra.Empty
	}
}

// IsActionAllowed pours one token into the funnel of [Key](user, action), which
// holds capacity tokens and leaks leakingRate tokens per second, and reports
// whether it fitted. The errors are those of [NewRate] and of [gcra.Rate.Decide]; beside
// an error the answer is false.
func (f *Funnels) IsActionAllowed(user, action string, capacity int64, leakingRate float64) (bool, error) {
	rate, err := NewRate(capacity, leakingRate)
	if err != nil {
		return false, err
	}
	decision, err := f.Water(Key(user, action), rate, 1)
	return err == nil && !decision.Limited, err
}

// Len returns how many funnels are kept: those that were not empty at the last call,
// and those that have drained and not been removed yet.
func (f *Funnels) Len() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return len(f.tats)
}

// keep stores the TAT of a funnel that is not empty.
func (f *Funnels) keep(key string, tat int64) {
	if _, known := f.tats[key]; !known {
		// A key that is part of a larger string must not keep all of that in memory.
		key = strings.Clone(key)
		f.drains.add(drain{tat, key})
	}
	f.tats[key] = tat
	f.peak = max(f.peak, len(f.tats))
}

// forget removes funnels that have drained by now, up to removalsPerCall.
func (f *Funnels) forget(now int64) {
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
func (f *Funnels) shrink() {
	tats := make(map[string]int64, len(f.tats))
	for key, tat := range f.tats {
		tats[key] = tat
	}
	f.tats = tats
	f.drains = slices.Clone(f.drains)
	f.peak = len(f.tats)
}
