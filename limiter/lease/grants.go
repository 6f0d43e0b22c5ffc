package lease

import (
	"slices"
	"sync/atomic"
	"time"
)

// Grants are tokens that were taken ahead. Each grant can be used until its last instant.
//
// Callers take tokens without a lock. No two callers get the same tokens, because a caller
// subtracts its tokens by compare-and-swap. Nothing else in a grant changes.
type grants struct {
	interval time.Duration // the emission interval
	all      []*grant      // oldest first
}

type grant struct {
	left    atomic.Int64  // tokens
	last    time.Duration // the last instant at which tokens can be used
	receipt int64         // of all the tokens that were granted
}

// take takes tokens from the oldest grant that holds enough, and returns their receipt.
func (g *grants) take(at time.Duration, quantity int) (receipt int64, taken bool) {
	for _, from := range g.all {
		for left := from.left.Load(); left >= int64(quantity) && at <= from.last; left = from.left.Load() {
			rest := left - int64(quantity)
			if from.left.CompareAndSwap(left, rest) {
				return max(0, from.receipt-rest*int64(g.interval)), true
			}
		}
	}
	return 0, false
}

// ahead returns how many tokens can be used at an instant.
func (g *grants) ahead(at time.Duration) (tokens int) {
	for _, from := range g.all {
		if at <= from.last {
			tokens = plus(tokens, int(from.left.Load()))
		}
	}
	return tokens
}

// with returns these grants and a new one. It drops grants that are used up, or that ended before
// the instant from.
func (g *grants) with(tokens int, receipt int64, from, last time.Duration) grants {
	isSpent := func(g *grant) bool { return g.left.Load() == 0 || g.last < from }
	granted := &grant{last: last, receipt: receipt}
	granted.left.Store(int64(tokens))
	return grants{g.interval, append(slices.DeleteFunc(slices.Clone(g.all), isSpent), granted)}
}

// A refill says when to ask ahead: after the instant from, as soon as the tokens that will be
// usable after the time early are fewer than tokens. The zero refill never asks ahead.
type refill struct {
	from   time.Duration
	early  time.Duration // a little longer than a call for tokens takes
	tokens int           // the number that callers ask for within early
}

// isDue reports whether it is time to ask ahead.
func (r *refill) isDue(at time.Duration, g *grants) bool {
	return r.tokens > 0 && at >= r.from && g.ahead(at+r.early) < r.tokens
}
