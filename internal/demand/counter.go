// Package demand counts how many tokens callers ask for in a span of time.
//
// Callers count without a lock. A call that is counted while another begins a window may count in either.
package demand

import (
	"sync/atomic"
	"time"
)

// A Counter counts in windows, each as long as the span or until the next call. The zero Counter has
// counted nothing. Instants are durations since some beginning.
type Counter struct {
	window, lastCall, asked, askedBefore atomic.Int64
}

// Add counts a call at an instant.
func (c *Counter) Add(at, span time.Duration, quantity int) {
	window := c.window.Load()
	if int64(at)-window >= int64(span) && c.window.CompareAndSwap(window, int64(at)) {
		c.askedBefore.Store(c.asked.Swap(0))
	}
	if int64(at)-c.lastCall.Swap(int64(at)) >= int64(span) {
		c.askedBefore.Store(0)
	}
	c.asked.Add(int64(quantity))
}

// Tokens is how many tokens were asked for in the last window, or in this one if that is more.
func (c *Counter) Tokens() int { return int(max(c.asked.Load(), c.askedBefore.Load())) }

// LastCall is the instant of the last call.
func (c *Counter) LastCall() time.Duration { return time.Duration(c.lastCall.Load()) }
