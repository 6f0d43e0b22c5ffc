// Package line has callers ask in the order in which they came. Only the first in a line asks. It asks again after a
// pause, or when something has come back. Nothing here knows what callers ask for, or whom.
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
	forgetAfter = time.Minute          // how long a line is remembered in which nobody waits
	shortest    = 5 * time.Millisecond // pause
	longest     = time.Second          // pause, including a jitter of up to a half
	inARow      = 4                    // how many times callers of a process are served before others go first
)

// Lines are lines by a key. All methods, and the methods of their places, may be called from any number of goroutines.
type Lines[Key comparable] struct {
	now   func() time.Duration
	mutex sync.Mutex // for all lines, so that none is forgotten while a caller joins it
	lines idle.Map[Key, *line]
}

// New returns lines that go by a monotonic clock.
func New[Key comparable](now func() time.Duration) *Lines[Key] { return &Lines[Key]{now: now} }

// Join joins the end of a line, or returns nil if most callers wait there. Wants says what the caller wants beside its
// turn, see [Place.Away]. It must leave in the end.
func (l *Lines[Key]) Join(key Key, most int, wants any) *Place {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now, joined := l.now(), l.lines.Get(key)
	if joined == nil {
		joined = &line{mutex: &l.mutex, now: l.now}
		l.lines.Add(key, joined, func(_ Key, old *line) bool { return old.waiting == 0 && now-old.left >= forgetAfter })
	}
	if joined.waiting >= most {
		return nil
	}
	joined.waiting++
	joined.last++
	p := &Place{line: joined, number: joined.last, joined: now, wants: wants, poked: make(chan struct{}, 1)}
	joined.inLine = append(joined.inLine, p)
	return p
}

// Released has the first in a line ask at once, because something has come back. Apart is how far apart in time things
// come back, by what is known of this one.
func (l *Lines[Key]) Released(key Key, apart time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if at := l.lines.Get(key); at != nil {
		learn(&at.held, apart)
		at.next, at.woken = 0, true
		at.advance(nil)
	}
}

// A line is a FIFO of callers.
type line struct {
	mutex *sync.Mutex
	now   func() time.Duration

	waiting int // how many callers, including callers that are away
	last    uint64
	inLine  []*Place // in the order of their numbers, without the caller that asks
	asks    *Place   // or nil
	left    time.Duration

	lacks      func(wants any) bool // whether a caller that wants that is refused, too
	lacksUntil time.Duration
	failure    error  // the answer to callers up to a number, or nil
	failedUpTo uint64 // that number
	pace
}

// A Place is the place of one caller, with a number that it keeps.
type Place struct {
	line   *line
	number uint64
	joined time.Duration
	due    time.Duration // when the caller is back in the line, or 0 if it has not left
	wants  any
	poked  chan struct{} // that it is the first now
}

// A Turn is when a caller is to ask.
type Turn struct {
	Waited  time.Duration // since it joined
	Behind  int           // how many callers stand in the line behind it; callers that are away do not
	Failure error         // if not nil, the answer to an earlier caller, which answers this one, too: do not ask
}

// Await waits for the caller's turn, or returns the cause of ctx. After a turn, another method says what came of it.
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

// take takes the turn of a caller that can wait for some time, or returns for how long it is not its turn, unless it is
// poked before.
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

// Served says that the caller has got what it waits for, and will leave. If nothing is free after that, the next one
// asks after a pause. If other processes want it, too, they get their share.
func (p *Place) Served(full, shared bool) {
	l := p.line
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.pauseIf(full, l.now())
	l.countServed(full && shared, l.waiting > 1, l.now())
}

// Limited ends the turn of a caller that remains the first, because nothing is free. Age is how long ago anybody has
// last got something. A failure answers no more callers: they stand behind this one.
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

// Away ends the turn of a caller that leaves the line for a time, because what it wants is not there. Callers
// for which lacks is true leave it, too, without a turn. If nothing is free either, the next one asks after a pause.
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

// Failed has a failure answer all who stand in the line. The turn goes on.
func (p *Place) Failed(failure error) {
	p.line.mutex.Lock()
	defer p.line.mutex.Unlock()
	p.line.failure, p.line.failedUpTo = failure, p.line.last
}

// Leave ends the turn, if it is the caller's, and the place.
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

// advance ends the turn of a caller, if it has one, and has the first in the line look whether it is its turn.
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

// A pace says when the first in a line asks. Its pauses follow how far apart in time things come back, as far as this
// process knows: held by what it has held, and age by what it was told.
type pace struct {
	held, age time.Duration

	next   time.Duration // when the first asks, unless something comes back before
	woken  bool          // something has come back since the turn began
	yields time.Duration // until then others go first
	served int           // in a row, with nothing free after it
}

// pauseIf puts off the next ask by a pause if nothing is free, and nothing has come back since.
func (p *pace) pauseIf(full bool, now time.Duration) {
	p.next = 0
	if full && !p.woken {
		p.next = now + p.pause()
	}
}

// countServed lets others go first after some times in a row, if more callers wait here.
func (p *pace) countServed(contended, moreWait bool, now time.Duration) {
	p.served++
	if !contended {
		p.served = 0
	}
	if p.served >= inARow && moreWait {
		p.served, p.yields = 0, now+p.pause()
	}
}

// pause is how long to wait before asking again.
func (p *pace) pause() time.Duration {
	least := min(max(p.held, p.age, shortest), longest*2/3)
	return least + rand.N(least/2)
}

// learn moves a mean towards a time.
func learn(mean *time.Duration, d time.Duration) { *mean += (max(0, min(d, longest)) - *mean) / 8 }
