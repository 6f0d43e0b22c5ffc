package line

import (
	"math/rand/v2"
	"time"
)

// TestProcessesShare, with -v, tells what these numbers cost. Four processes have ten callers each,
// all of whom ask again as soon as they have given back, and a call takes half a millisecond.
const (
	// minPause is the shortest pause, without jitter. A shorter one costs more calls, a longer one
	// leaves slots free for longer. If a single slot is held for 2 ms, each time costs 2.4 calls,
	// and the slot is held for 62 % of the time. With 2 ms it would be 3.5 calls and 67 %, with 10
	// ms 1.6 calls and 55 %.
	minPause = 5 * time.Millisecond

	// maxPause is the longest pause, including its jitter. It bounds how long a slot stays free
	// that another process has given back, and how often a process asks while it waits: once or
	// twice a second, whatever the number of its callers. If a single slot is held for 5 s, each
	// time costs 24 calls of four processes, with a quarter of a second 96.
	maxPause = time.Second

	// The jitter of a pause is up to 1/jitter of it. Without it, processes that were refused
	// together would ask together from then on: in a burst, after which a slot that comes free
	// stays free for a whole pause. With a half, they ask at independent times after two or three
	// pauses. More would do so a little earlier, and make the longest pause longer.
	jitter = 2

	// After inARow callers of this process, callers of other processes go first. A process that
	// gives back a slot knows at once, and other processes only after a pause. Without this rule,
	// four processes got 57, 683, 238 and 2,022 of 3,000 slots of 5 seconds, and now get 696 to
	// 806. But a slot stays free while others go first: a single slot of 20 ms is held for 88 % of
	// the time, after each caller for 71 %, never for 95 %. With ten slots nothing is lost.
	inARow = 4
)

// A pace says when the first caller in a line asks. Pauses follow two estimates of the time between
// two things that come back: held is a mean of the times that this process has seen, and age a mean
// of the ages in replies.
type pace struct {
	held, age time.Duration

	next  time.Duration // when the first caller asks, unless something comes back earlier
	woken bool          // something has come back since the turn began

	served int           // how many callers in a row were served and left nothing free
	yields bool          // when something comes back the next time, other processes go first
	others time.Duration // until then other processes go first
}

// wait returns how long the first caller has to wait, or a number that is not above 0.
func (p *pace) wait(now time.Duration) time.Duration { return max(p.next, p.others) - now }

// pauseIf puts off the next turn by a pause if nothing is free, unless something has come back
// since.
func (p *pace) pauseIf(full bool, now time.Duration) {
	p.next = 0
	if full && !p.woken {
		p.next = now + p.pause()
	}
}

// countServed makes the process yield after some callers in a row, if more callers wait here.
func (p *pace) countServed(contended, moreWait bool) {
	p.served++
	if !contended {
		p.served = 0
	}
	if p.served >= inARow && moreWait {
		p.served, p.yields = 0, true
	}
}

// cameBack ends a pause, because something has come back. Other processes do not know that yet. If
// it is their turn, this process first gives them the time of a pause to ask. Apart is the time
// between two such events.
func (p *pace) cameBack(apart, now time.Duration) {
	if apart > 0 {
		learn(&p.held, apart)
	}
	p.next, p.woken = 0, true
	if p.yields {
		p.yields, p.others = false, now+p.pause()
	}
}

// pause returns the time to wait before asking again, with jitter.
func (p *pace) pause() time.Duration {
	const most = maxPause * jitter / (jitter + 1)
	least := min(max(p.held, p.age, minPause), most)
	return least + rand.N(least/jitter)
}

// learn moves a mean towards a time, by an eighth of the way: half of what it knows is of the last
// five times.
func learn(mean *time.Duration, d time.Duration) { *mean += (max(0, min(d, maxPause)) - *mean) / 8 }
