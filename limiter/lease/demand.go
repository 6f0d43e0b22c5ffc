package lease

import (
	"math"
	"sync/atomic"
	"time"
)

// A demand counts the tokens that callers ask for, in windows. A window lasts for the span d, and
// the next window begins with the first call after that. The zero demand has counted nothing.
//
// Callers count without a lock. While one caller begins a window, the call of another caller may be
// counted in either window.
type demand struct {
	windowBegan  atomic.Int64
	lastCall     atomic.Int64
	tokens       atomic.Int64 // in this window
	tokensBefore atomic.Int64 // in the window before
}

// add counts a call at an instant.
func (d *demand) add(at, span time.Duration, quantity int) {
	began := d.windowBegan.Load()
	if int64(at)-began >= int64(span) && d.windowBegan.CompareAndSwap(began, int64(at)) {
		d.tokensBefore.Store(d.tokens.Swap(0))
	}
	lastCall := d.lastCall.Swap(int64(at))
	if int64(at)-lastCall >= int64(span) {
		d.tokensBefore.Store(0)
	}
	if d.tokens.Add(int64(quantity)) < 0 { // overflow
		d.tokens.Store(math.MaxInt64)
	}
}

// inSpan returns how many tokens were asked for in the last window, or in this one if that is more.
func (d *demand) inSpan() int { return int(max(d.tokens.Load(), d.tokensBefore.Load(), 0)) }

// plus adds two numbers that are not negative. A sum that does not fit is the largest int.
func plus(a, b int) int { return a + min(b, math.MaxInt-a) }
