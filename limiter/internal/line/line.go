// Package line makes callers ask in the order in which they came. Only the first caller in a line
// asks. If it is refused, it asks again after a pause, or when something has come back. The package
// does not know what callers ask for: in package limiter, they ask Redis for a slot.
package line

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// A line is a FIFO of callers.
type line[Key comparable, Wants any] struct {
	lines *Lines[Key, Wants]
	key   Key

	callers []*Place[Key, Wants] // in the order of their numbers, without the caller that asks
	asks    *Place[Key, Wants]   // the caller that asks, or nil
	waiting int                  // the number of callers, including the caller that asks
	away    int                  // the number of callers that are away
	last    uint64               // the number of the last caller that has joined

	lacks      func(Wants) bool // reports whether a caller with such wants would be refused, too
	lacksUntil time.Duration
	failure    error // the answer to all callers up to the number failedUpTo, or nil
	failedUpTo uint64
	pace
}

// A Place is the place of one caller. Its number never changes.
type Place[Key comparable, Wants any] struct {
	line   *line[Key, Wants]
	number uint64
	joined time.Duration
	due    time.Duration // when the caller comes back, or 0 if it is not away
	wants  Wants
	poked  chan struct{} // gets a value when the caller becomes the first
}

// A Turn says that a caller should ask.
type Turn struct {
	Waited  time.Duration // since the caller joined
	Behind  int           // the number of callers behind it in the line, without callers that are away
	Failure error         // if not nil, the answer that an earlier caller got is also the answer to this one: do not ask
}

// Await waits for the caller's turn, or returns the cause of ctx. After its turn, the caller calls
// another method to say how it ended.
func (p *Place[Key, Wants]) Await(ctx context.Context) (Turn, error) {
	left := time.Duration(math.MaxInt64)
	for {
		deadline, has := ctx.Deadline()
		if has {
			left = time.Until(deadline)
		}
		turn, wait := p.take(left)
		switch {
		case wait <= 0:
			return turn, nil
		case ctx.Err() != nil:
			return turn, context.Cause(ctx)
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.poked:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// take takes the turn if it is the caller's, and otherwise returns how long the caller has to wait,
// unless it is poked earlier. Left is the time that the caller can wait.
func (p *Place[Key, Wants]) take(left time.Duration) (Turn, time.Duration) {
	l := p.line
	l.lines.mutex.Lock()
	defer l.lines.mutex.Unlock()
	now := l.lines.now()
	turn := Turn{Waited: now - p.joined}
	if p.due > now {
		return turn, p.due - now
	}
	if p.due > 0 {
		p.due = 0
		l.away--
	}
	if l.asks != nil || l.first(now) != p {
		return turn, math.MaxInt64
	}
	turn.Failure = l.failure
	if l.failure == nil {
		lacks := l.lacksUntil - now
		if lacks > 0 && lacks <= left && l.lacks(p.wants) {
			l.sendAway(p, l.lacksUntil)
			l.advance(nil)
			return turn, lacks
		}
		wait := l.wait(now)
		if wait > 0 {
			return turn, wait
		}
	}
	l.remove(p)
	l.asks, l.woken = p, false
	turn.Behind = len(l.callers) - l.away
	return turn, 0
}

// Served says that the caller was served. It must leave then, which ends its turn. If full, nothing
// is free any more, and the next caller asks after a pause. If shared, other processes may wait,
// too, and get their share.
func (p *Place[Key, Wants]) Served(full, shared bool) {
	l := p.line
	l.lines.mutex.Lock()
	defer l.lines.mutex.Unlock()
	l.pauseIf(full, l.lines.now())
	l.countServed(full && shared, l.waiting > 1)
}

// Limited ends the turn of a caller because nothing is free. The caller keeps the first place, and
// has its next turn after a pause. Age is the time since any caller of any process was served.
//
// A failure that came before this answer is no longer the answer to the callers behind.
func (p *Place[Key, Wants]) Limited(age time.Duration) {
	l := p.line
	l.lines.mutex.Lock()
	defer l.lines.mutex.Unlock()
	learn(&l.age, age)
	l.pauseIf(true, l.lines.now())
	l.failure = nil
	l.insert(p)
	l.advance(p)
}

// Away ends the turn of a caller that leaves the line for a time, because its wants cannot be met
// earlier. Callers with wants for which lacks reports true leave the line, too, without a turn. If
// full, nothing is free either, and the next caller asks after a pause.
func (p *Place[Key, Wants]) Away(during time.Duration, full bool, lacks func(Wants) bool) {
	l := p.line
	l.lines.mutex.Lock()
	defer l.lines.mutex.Unlock()
	now := l.lines.now()
	l.lacks, l.lacksUntil = lacks, now+during
	l.insert(p)
	l.sendAway(p, l.lacksUntil)
	l.pauseIf(full, now)
	l.advance(p)
}

// Failed makes a failure the answer to all callers in the line. The turn goes on.
func (p *Place[Key, Wants]) Failed(failure error) {
	l := p.line
	l.lines.mutex.Lock()
	defer l.lines.mutex.Unlock()
	l.failure, l.failedUpTo = failure, l.last
}

// Leave removes the caller from the line, and ends its turn if it has one.
func (p *Place[Key, Wants]) Leave() {
	l := p.line
	l.lines.mutex.Lock()
	defer l.lines.mutex.Unlock()
	l.remove(p)
	if p.due > 0 {
		l.away--
	}
	l.waiting--
	if l.waiting == 0 {
		l.next = 0
		l.lines.keep(l)
	}
	l.advance(p)
}

// advance ends the turn of a caller, if it has one, and makes the first caller in the line check
// for its turn.
func (l *line[Key, Wants]) advance(ended *Place[Key, Wants]) {
	if l.asks == ended {
		l.asks = nil
	}
	if l.asks != nil {
		return
	}
	first := l.first(l.lines.now())
	if first == nil || first.number > l.failedUpTo {
		l.failure = nil
	}
	if first != nil {
		select {
		case first.poked <- struct{}{}:
		default:
		}
	}
}

// first returns the first caller in the line that is not away, or nil. A caller that comes back is
// the first as soon as it is due: a caller behind it that is due at the same instant, and wakes up
// earlier, does not overtake it.
func (l *line[Key, Wants]) first(now time.Duration) *Place[Key, Wants] {
	for _, p := range l.callers {
		if p.due <= now {
			return p
		}
	}
	return nil
}

// sendAway makes a caller leave the line until it is due. It keeps its place.
func (l *line[Key, Wants]) sendAway(p *Place[Key, Wants], due time.Duration) {
	p.due = due
	l.away++
}

// insert inserts a place by its number.
func (l *line[Key, Wants]) insert(p *Place[Key, Wants]) {
	at, _ := l.find(p)
	l.callers = slices.Insert(l.callers, at, p)
}

// remove removes a place, if it is in the line.
func (l *line[Key, Wants]) remove(p *Place[Key, Wants]) {
	at, found := l.find(p)
	if found {
		l.callers = slices.Delete(l.callers, at, at+1)
	}
}

// find returns where in the line a place is, or would be.
func (l *line[Key, Wants]) find(p *Place[Key, Wants]) (at int, found bool) {
	return slices.BinarySearchFunc(l.callers, p, func(a, b *Place[Key, Wants]) int {
		return cmp.Compare(a.number, b.number)
	})
}
