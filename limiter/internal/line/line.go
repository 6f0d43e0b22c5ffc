// Package line makes callers ask in the order in which they came. Only the first caller in a line asks. If it is
// refused, it asks again after a pause, or when something has come back. The package does not know what callers ask
// for: in package limiter, they ask Redis for a slot.
package line

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"funnel/internal/idle"
)

const (
	forgetAfter = time.Minute          // a line in which nobody waits is kept for this time
	minPause    = 5 * time.Millisecond // the shortest pause, without jitter
	maxPause    = time.Second          // the longest pause, including a jitter of up to a half
	inARow      = 4                    // after so many callers of this process, callers of other processes go first
)

// Lines have a line for each key. All methods, and the methods of places, may be called from any number of goroutines.
type Lines[Key comparable] struct {
	now   func() time.Duration
	mutex sync.Mutex // for all lines, so that none is forgotten while a caller joins it
	lines idle.Map[Key, *line]
}

// New returns lines that use a monotonic clock.
func New[Key comparable](now func() time.Duration) *Lines[Key] { return &Lines[Key]{now: now} }

// Join adds a caller to the end of a line, or returns nil if maxWaiting callers wait in it already. Wants says what the
// caller asks for, see [Place.Away]. The caller must leave the line in the end.
func (l *Lines[Key]) Join(key Key, maxWaiting int, wants any) *Place {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now, joined := l.now(), l.lines.Get(key)
	if joined == nil {
		joined = &line{mutex: &l.mutex, now: l.now}
		l.lines.Add(key, joined, func(_ Key, old *line) bool { return old.waiting == 0 && now-old.left >= forgetAfter })
	}
	if joined.waiting >= maxWaiting {
		return nil
	}
	joined.waiting++
	joined.last++
	p := &Place{line: joined, number: joined.last, joined: now, wants: wants, poked: make(chan struct{}, 1)}
	joined.inLine = append(joined.inLine, p)
	return p
}

// Woken makes the first caller in a line ask at once, because something has come back.
func (l *Lines[Key]) Woken(key Key) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	at := l.lines.Get(key)
	if at != nil {
		at.next, at.woken = 0, true
		at.advance(nil)
	}
}

// Held tells a line how far apart two things come back, on average.
func (l *Lines[Key]) Held(key Key, apart time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	at := l.lines.Get(key)
	if at != nil {
		learn(&at.held, apart)
	}
}

// A line is a FIFO of callers.
type line struct {
	mutex *sync.Mutex
	now   func() time.Duration

	waiting int           // the number of callers, including callers that are away
	last    uint64        // the number of the last caller that has joined
	inLine  []*Place      // in the order of their numbers, without the caller that asks
	asks    *Place        // the caller that asks, or nil
	left    time.Duration // when the last caller left

	lacks      func(wants any) bool // reports whether a caller with such wants would be refused, too
	lacksUntil time.Duration
	failure    error // the answer to all callers up to the number failedUpTo, or nil
	failedUpTo uint64
	pace
}

// A Place is the place of one caller. Its number never changes.
type Place struct {
	line   *line
	number uint64
	joined time.Duration
	due    time.Duration // when the caller comes back to the line, or 0 if it is not away
	wants  any
	poked  chan struct{} // gets a value when the caller becomes the first
}

// A Turn says that a caller should ask.
type Turn struct {
	Waited  time.Duration // since the caller joined
	Behind  int           // the number of callers behind it in the line, without callers that are away
	Failure error         // if not nil, an earlier caller got it, and it is the answer to this caller, too: do not ask
}

// Await waits for the caller's turn, or returns the cause of ctx. After its turn, the caller calls another method to
// say how it ended.
func (p *Place) Await(ctx context.Context) (Turn, error) {
	left := time.Duration(math.MaxInt64)
	for {
		if deadline, ok := ctx.Deadline(); ok {
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

// take takes the turn if it is the caller's, and otherwise returns how long the caller has to wait, unless it is poked
// earlier. Left is the time that the caller can wait.
func (p *Place) take(left time.Duration) (Turn, time.Duration) {
	l := p.line
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.now()
	turn := Turn{Waited: now - p.joined}
	if p.due > now {
		return turn, p.due - now
	}
	if p.due > 0 {
		p.due = 0
		l.insert(p)
	}
	if l.asks != nil || l.inLine[0] != p {
		return turn, math.MaxInt64
	}
	turn.Failure = l.failure
	if l.failure == nil {
		if lacks := l.lacksUntil - now; lacks > 0 && lacks <= left && l.lacks(p.wants) {
			l.remove(p)
			p.due = l.lacksUntil
			l.advance(nil)
			return turn, lacks
		}
		if wait := max(l.next, l.yields) - now; wait > 0 {
			return turn, wait
		}
	}
	l.remove(p)
	l.asks, l.woken = p, false
	turn.Behind = len(l.inLine)
	return turn, 0
}

// Served says that the caller was served. It must leave then, which ends its turn. If full, nothing is free any more,
// and the next caller asks after a pause. If shared, other processes may wait, too, and get their share.
func (p *Place) Served(full, shared bool) {
	l := p.line
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.pauseIf(full, l.now())
	l.countServed(full && shared, l.waiting > 1, l.now())
}

// Limited ends the turn of a caller that stays the first, because nothing is free. Age is the time since any caller of
// any process was served. An earlier failure is not the answer to the callers behind this one.
func (p *Place) Limited(age time.Duration) {
	l := p.line
	l.mutex.Lock()
	defer l.mutex.Unlock()
	learn(&l.age, age)
	l.pauseIf(true, l.now())
	l.failure = nil
	l.insert(p)
	l.advance(p)
}

// Away ends the turn of a caller that leaves the line for a time, because its wants cannot be met earlier. Callers with
// wants for which lacks reports true leave the line, too, without a turn. If full, nothing is free either, and the next
// caller asks after a pause.
func (p *Place) Away(during time.Duration, full bool, lacks func(wants any) bool) {
	l := p.line
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.now()
	p.due = now + during
	l.lacks, l.lacksUntil = lacks, p.due
	l.pauseIf(full, now)
	l.advance(p)
}

// Failed makes a failure the answer to all callers in the line. The turn goes on.
func (p *Place) Failed(failure error) {
	p.line.mutex.Lock()
	defer p.line.mutex.Unlock()
	p.line.failure, p.line.failedUpTo = failure, p.line.last
}

// Leave removes the caller from the line, and ends its turn if it has one.
func (p *Place) Leave() {
	l := p.line
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.remove(p)
	l.waiting--
	if l.waiting == 0 {
		l.left, l.next = l.now(), 0
	}
	l.advance(p)
}

// advance ends the turn of a caller, if it has one, and makes the first caller in the line check for its turn.
func (l *line) advance(ended *Place) {
	if l.asks == ended {
		l.asks = nil
	}
	if l.asks != nil {
		return
	}
	if len(l.inLine) == 0 || l.inLine[0].number > l.failedUpTo {
		l.failure = nil
	}
	if len(l.inLine) > 0 {
		select {
		case l.inLine[0].poked <- struct{}{}:
		default:
		}
	}
}

// insert inserts a place by its number.
func (l *line) insert(p *Place) {
	at, _ := slices.BinarySearchFunc(l.inLine, p, byNumber)
	l.inLine = slices.Insert(l.inLine, at, p)
}

// remove removes a place, if it is in the line.
func (l *line) remove(p *Place) {
	if at, found := slices.BinarySearchFunc(l.inLine, p, byNumber); found {
		l.inLine = slices.Delete(l.inLine, at, at+1)
	}
}

func byNumber(a, b *Place) int { return cmp.Compare(a.number, b.number) }

// A pace says when the first caller in a line asks. Pauses follow two estimates of the time between two things that
// come back: held is a mean of the times that this process has seen, and age a mean of the ages in replies.
type pace struct {
	held, age time.Duration

	next   time.Duration // when the first caller asks, unless something comes back earlier
	woken  bool          // something has come back since the turn began
	yields time.Duration // until then other processes go first
	served int           // how many callers in a row were served and left nothing free
}

// pauseIf puts off the next turn by a pause if nothing is free, unless something has come back since.
func (p *pace) pauseIf(full bool, now time.Duration) {
	p.next = 0
	if full && !p.woken {
		p.next = now + p.pause()
	}
}

// countServed lets other processes go first after some callers in a row, if more callers wait here.
func (p *pace) countServed(contended, moreWait bool, now time.Duration) {
	p.served++
	if !contended {
		p.served = 0
	}
	if p.served >= inARow && moreWait {
		p.served, p.yields = 0, now+p.pause()
	}
}

// pause returns the time to wait before asking again, with jitter.
func (p *pace) pause() time.Duration {
	least := min(max(p.held, p.age, minPause), maxPause*2/3)
	return least + rand.N(least/2)
}

// learn moves a mean towards a time.
func learn(mean *time.Duration, d time.Duration) { *mean += (max(0, min(d, maxPause)) - *mean) / 8 }
