// Package grants keeps tokens that were taken ahead, each until its last instant.
//
// Callers take them without a lock, and no two get the same tokens: a caller subtracts by compare-and-swap.
package grants

import (
	"slices"
	"sync/atomic"
	"time"
)

// Grants are tokens ahead. Only the number of tokens in a grant changes. Instants are durations since some beginning.
type Grants struct {
	Interval time.Duration // the emission interval
	all      []*grant      // oldest first
}

// The receipt of a grant is for the tokens that are left and all before them.
type grant struct {
	left    atomic.Int64
	last    time.Duration // at which they can be used
	receipt int64
}

// Take takes tokens from the oldest grant that holds as many, and returns their receipt.
func (g *Grants) Take(at time.Duration, quantity int) (receipt int64, taken bool) {
	for _, from := range g.all {
		for left := from.left.Load(); left >= int64(quantity) && at <= from.last; left = from.left.Load() {
			if rest := left - int64(quantity); from.left.CompareAndSwap(left, rest) {
				return max(0, from.receipt-rest*int64(g.Interval)), true
			}
		}
	}
	return 0, false
}

// Ahead is how many tokens can be used at an instant.
func (g *Grants) Ahead(at time.Duration) (ahead int) {
	for _, from := range g.all {
		if at <= from.last {
			ahead += int(from.left.Load())
		}
	}
	return ahead
}

// Low says when it is time to ask ahead: from an instant on, where fewer tokens would last for the time Early.
type Low struct {
	From, Early time.Duration
	Tokens      int // as many as are asked for in Early, or 0 if nothing is asked ahead
}

// IsLow reports whether it is time to ask ahead.
func (g *Grants) IsLow(at time.Duration, low Low) bool {
	return low.Tokens > 0 && at >= low.From && g.Ahead(at+low.Early) < low.Tokens
}

// With returns these grants and a new one, without those that are used up or ended before an instant.
func (g *Grants) With(tokens int, receipt int64, from, last time.Duration) Grants {
	ended := func(g *grant) bool { return g.left.Load() == 0 || from > g.last }
	granted := &grant{last: last, receipt: receipt}
	granted.left.Store(int64(tokens))
	return Grants{g.Interval, append(slices.DeleteFunc(slices.Clone(g.all), ended), granted)}
}
