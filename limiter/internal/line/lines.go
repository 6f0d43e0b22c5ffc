package line

import (
	"sync"
	"time"
)

// A line is kept for one to two times forgetAfter after its last caller has left it, because a line
// that knows its pace asks less often than a new one. A minute is much longer than the longest
// pause, a second, in which a new line learns. It also bounds the memory: a program that makes up
// keys keeps some 260 bytes for each key of the last two minutes.
const forgetAfter = time.Minute

// Lines have a line for each key. Wants are what a caller asks for, see [Place.Away]. All methods,
// and the methods of places, may be called from any number of goroutines.
type Lines[Key comparable, Wants any] struct {
	now func() time.Duration

	mutex  sync.Mutex                // for all lines, so that none is forgotten while a caller joins it
	inUse  map[Key]*line[Key, Wants] // lines that callers are in
	kept   map[Key]*line[Key, Wants] // lines that all callers have left since forget last ran
	before map[Key]*line[Key, Wants] // lines that all callers had left before that
}

// New returns lines that use a monotonic clock.
func New[Key comparable, Wants any](now func() time.Duration) *Lines[Key, Wants] {
	return &Lines[Key, Wants]{now: now}
}

// Join adds a caller to the end of a line, or returns nil if maxWaiting callers wait in it already.
// The caller must leave the line in the end.
func (l *Lines[Key, Wants]) Join(key Key, maxWaiting int, wants Wants) *Place[Key, Wants] {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	joined := l.get(key)
	if joined == nil {
		joined = &line[Key, Wants]{lines: l, key: key}
	}
	if joined.waiting >= maxWaiting {
		return nil
	}
	l.use(joined)
	joined.waiting++
	joined.last++
	p := &Place[Key, Wants]{line: joined, number: joined.last, joined: l.now(), wants: wants}
	p.poked = make(chan struct{}, 1)
	joined.callers = append(joined.callers, p)
	return p
}

// Released makes the first caller in a line ask at once, because something has come back. Apart is
// an estimate of the time between two such events, or 0 if there is none.
func (l *Lines[Key, Wants]) Released(key Key, apart time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	at := l.get(key)
	if at != nil {
		at.cameBack(apart, l.now())
		at.advance(nil)
	}
}

// get returns the line of a key, or nil.
func (l *Lines[Key, Wants]) get(key Key) *line[Key, Wants] {
	for _, lines := range []map[Key]*line[Key, Wants]{l.inUse, l.kept, l.before} {
		found := lines[key]
		if found != nil {
			return found
		}
	}
	return nil
}

// use keeps a line as long as callers are in it.
func (l *Lines[Key, Wants]) use(joined *line[Key, Wants]) {
	if l.inUse == nil {
		l.inUse = map[Key]*line[Key, Wants]{}
	}
	l.inUse[joined.key] = joined
	delete(l.kept, joined.key)
	delete(l.before, joined.key)
}

// keep keeps a line that its last caller has left, until the second next time that forget runs.
func (l *Lines[Key, Wants]) keep(left *line[Key, Wants]) {
	delete(l.inUse, left.key)
	if l.kept == nil && l.before == nil {
		time.AfterFunc(forgetAfter, l.forget)
	}
	if l.kept == nil {
		l.kept = map[Key]*line[Key, Wants]{}
	}
	l.kept[left.key] = left
}

// forget runs once a minute for as long as lines are kept. Maps of Go never shrink, so whole maps
// go: that also takes no longer for a million lines than for one.
func (l *Lines[Key, Wants]) forget() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.before, l.kept = l.kept, nil
	if len(l.inUse) == 0 {
		l.inUse = nil
	}
	if l.before != nil {
		time.AfterFunc(forgetAfter, l.forget)
	}
}
