package lease

import (
	"sync"
	"time"

	"funnel/limiter"
)

// A lease decides the calls for one key and limit.
type lease struct {
	*Leases
	id
	interval time.Duration // T

	mutex  sync.Mutex
	grants []grant   // oldest first
	queue  []*waiter // for the next call for tokens
	asking bool      // a call for tokens is under way
	alone  time.Time // until when callers ask alone, after an error

	// Demand is counted in windows of time, of d or until the next call.
	windowBegan, lastCall time.Time
	asked, askedBefore    int

	// The last reply, when that call was sent, and until when it limits calls.
	sent              time.Time
	remaining         int
	resetAfter        time.Duration
	limits, limitsAll time.Time // those whose tokens cannot fit yet, and all
}

// A grant is tokens ahead. The receipt is for those that are left and all before them.
type grant struct {
	left    int
	last    time.Time // at which they can be used
	receipt int64
}

// An outcome is what becomes of a caller.
type outcome struct {
	result limiter.Result
	err    error
	told   bool // to the Limiter's hooks
	alone  bool // the caller asks the Limiter
}

// decideNow decides a call at an instant, unless it has to wait for a reply. A reply, whose Path
// is not that of leases, decides all.
func (l *lease) decideNow(at time.Time, quantity int, path limiter.Path, got *outcome) (decided bool) {
	result := &got.result
	for i := range l.grants {
		if g := &l.grants[i]; g.left >= quantity && !at.After(g.last) {
			g.left -= quantity
			result.Allowed, result.RetryAfter = quantity, limiter.NoRetry
			result.Receipt = max(0, g.receipt-int64(g.left)*int64(l.interval))
			l.fill(at, quantity, path, got)
			return true
		}
	}
	if at.Before(l.alone) {
		return true
	}
	if wait := l.limitedFor(at, quantity); wait > 0 || path != limiter.PathLease {
		result.RetryAfter = max(wait, 1)
		l.fill(at, quantity, path, got)
		return true
	}
	return false
}

func (l *lease) fill(at time.Time, quantity int, path limiter.Path, got *outcome) {
	result := &got.result
	result.Key, result.Limit, result.Quantity, result.Path = l.key, l.limit, quantity, path
	result.Remaining = l.remaining + min(l.ahead(at), l.limit.Capacity-l.remaining)
	result.ResetAfter = max(0, l.resetAfter-at.Sub(l.sent))
	got.alone = false
}

// limitedFor is for how long a call is limited without Redis, or not above 0.
func (l *lease) limitedFor(at time.Time, quantity int) time.Duration {
	wait := l.limitsAll.Sub(at)
	if at.Before(l.limits) { // Redis decided after l.sent, so the tokens fit no sooner
		wait = max(wait, time.Duration(quantity-l.limit.Capacity)*l.interval+l.resetAfter-at.Sub(l.sent))
	}
	return wait
}

// ahead is how many tokens are ahead.
func (l *lease) ahead(at time.Time) (ahead int) {
	for _, g := range l.grants {
		if !at.After(g.last) {
			ahead += g.left
		}
	}
	return ahead
}

// count adds to the demand.
func (l *lease) count(now time.Time, quantity int) {
	switch {
	case now.Sub(l.lastCall) >= l.span:
		l.windowBegan, l.asked, l.askedBefore = now, 0, 0
	case now.Sub(l.windowBegan) >= l.span:
		l.windowBegan, l.asked, l.askedBefore = now, 0, l.asked
	}
	l.lastCall = now
	l.asked += quantity
}

func (l *lease) isIdle(now time.Time) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return !l.asking && now.Sub(l.lastCall)/2 > l.span && !now.Before(l.alone) && l.limitedFor(now, 1) <= 0
}
