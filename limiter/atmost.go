package limiter

import (
	"errors"
	"fmt"
	"time"
)

// AtMost returns a rate that lets never more than n tokens through in any stretch of time shorter
// than d, burst of them at once. N is at least 1, burst is from 1 to n, and d is at most 100 years.
// "5 logins in 15 minutes" is AtMost(5, 15*time.Minute, 3): 3 at once, then one each 5 minutes.
//
// The price is the steady rate, n - burst + 1 tokens per d: the larger the burst, the slower is
// what follows.
//
//	AtMost(n, d, burst)          at once   then one each   steady rate
//	AtMost(5, 15 minutes, 1)           1   3 minutes       5 per 15 minutes
//	AtMost(5, 15 minutes, 3)           3   5 minutes       3 per 15 minutes
//	AtMost(5, 15 minutes, 5)           5   15 minutes      1 per 15 minutes
//	AtMost(100, minute, 10)           10   660 ms          91 per minute
//	AtMost(100, minute, 50)           50   1.2 s           51 per minute
//	AtMost(100, minute, 100)         100   a minute        1 per minute
//	AtMost(100, hour, 1)               1   36 s            100 per hour
//
// A call for more than burst tokens never fits. One token leaks in d / (n - burst + 1), rounded up
// to a nanosecond, so n tokens are reached unless (n - burst)² is about d in nanoseconds or more.
//
// "Never" means what Redis decides for callers that go ahead at their turn. It does not hold for
// tokens that package lease hands out, for [FailLocal], where each process has the limit once more,
// for tokens that are given back late and without a receipt, for a key that was deleted, evicted or
// lost in a failover, and if calls for one key differ in their limit.
//
// [Limit.WithCapacity] is not for this limit: burst is its capacity.
func AtMost(n int, d time.Duration, burst int) Limit {
	l := Limit{Capacity: burst, bound: bound{isSet: true, n: n, within: d, burst: burst}}
	if l.bound.check() == nil {
		l.Count = n - burst + 1
		interval := (int64(d)-1)/int64(l.Count) + 1 // rounded up
		l.Period = time.Duration(interval * int64(l.Count))
	}
	return l
}

// A bound is what [AtMost] was asked for. Other limits have the zero bound.
type bound struct {
	isSet       bool
	n, burst    int
	within      time.Duration
	hasCapacity bool // of WithCapacity, which is not for AtMost
}

// longestBound keeps the emission interval of a bound within what package gcra computes with.
const longestBound = 100 * 365 * 24 * time.Hour

// errChanged is the error of a limit that AtMost did not return as it is.
var errChanged = errors.New("a limit of AtMost must stay as it is: use its third argument, not WithCapacity")

// checkBound returns an error that says why a limit is not what AtMost has returned, or nil.
func (l Limit) checkBound() error {
	b := l.bound
	err := b.check()
	if err == nil && b.isSet && l != AtMost(b.n, b.within, b.burst) {
		return errChanged
	}
	return err
}

// check returns an error that says why the bound is not valid, or nil.
func (b bound) check() error {
	switch {
	case !b.isSet:
		return nil
	case b.n < 1:
		return fmt.Errorf("n must be at least 1, not %d", b.n)
	case b.burst < 1 || b.burst > b.n:
		return fmt.Errorf("burst, the capacity, must be from 1 to %d, not %d", b.n, b.burst)
	case b.within < 1 || b.within > longestBound:
		return fmt.Errorf("d must be from 1ns to %v, not %v", longestBound, b.within)
	}
	return nil
}

// String describes the bound: "at most 5 in any 15m0s, 3 at once".
func (b bound) String() string {
	return fmt.Sprintf("at most %d in any %v, %d at once", b.n, b.within, b.burst)
}

// Max returns the number of tokens by which users know the limit: n of [AtMost], or the capacity of
// another rate, or the limit of a quota.
func (l Limit) Max() int {
	if l.bound.isSet {
		return l.bound.n
	}
	return l.Capacity
}
