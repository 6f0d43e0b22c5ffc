package limiter

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
)

// Leases let the callers of this process share calls for one key and limit, and take tokens
// ahead for those that will come: [WithLease] has the promise. Each key and limit has a
// lease, which holds tokens or knows who waits for them.
type leases struct {
	enabled bool
	span    time.Duration // how long tokens ahead can be used: d

	// off is until when leases are not used, in Unix nanoseconds: the server has no CL.TAKE.
	off    atomic.Int64
	logged sync.Once

	mutex sync.RWMutex
	byKey map[string][]*lease // without the prefix; mostly one for each key
	peak  int                 // the most keys since byKey was made
	// A ring of all leases, in the order in which they were last seen to: its own next is the
	// one that was not for the longest time.
	ring lease
}

// A lease is that of one key and limit. Whoever holds the mutex of leases takes that of a lease
// by TryLock only. Whoever holds that of a lease does not take that of leases.
type lease struct {
	key            string
	limit          Limit
	interval       time.Duration // the emission interval
	previous, next *lease        // of the ring, guarded by leases.mutex

	mutex     sync.Mutex
	removed   bool
	grants    []grant // oldest first
	asking    bool
	givenBack bool      // tokens were given back while a call was under way
	queue     []*waiter // for the next call
	gone      int       // of the queue, how many have gone, at most
	demand    demand
	backOff   time.Time // until when callers are limited

	// The last reply, at the instant at.
	at         time.Time
	remaining  int64
	resetAfter time.Duration
	oneMore    time.Duration // until another token fits
}

// A grant is tokens that were taken ahead.
type grant struct {
	left    int64
	end     time.Time
	receipt int64 // for all that are left, and those before; or 0
}

// take takes tokens of those that are left, and returns the receipt for them.
func (g *grant) take(quantity int64, interval time.Duration) (receipt int64) {
	if g.left -= quantity; g.receipt == 0 {
		return 0
	}
	return g.receipt - g.left*int64(interval)
}

// mostGrants bounds how many grants a lease looks through. More are left over only where many
// callers want more than they hold. The oldest then lapses.
const mostGrants = 64

// A waiter is a caller that waits for tokens.
type waiter struct {
	quantity int64
	done     chan handing // of one element
	gone     bool
}

// A handing is what a waiter gets: a decision, whose TAT is the receipt, or why there is none.
type handing struct {
	decision gcra.Decision
	path     Path
	cause    error
	alone    bool // the caller asks by itself
}

// Demand is how much was asked for in this window of time and in the one before.
type demand struct {
	begin, last            time.Time
	asked, askedBefore     int64
	callers, callersBefore int64
}

func (d *demand) add(now time.Time, span time.Duration, quantity int64) {
	switch {
	case now.Sub(d.last) >= span: // nobody asked within the last span
		*d = demand{begin: now}
	case now.Sub(d.begin) >= span:
		*d = demand{begin: now, askedBefore: d.asked, callersBefore: d.callers}
	}
	d.last = now
	d.asked += quantity
	d.callers++
}

// ahead is how many tokens to take beyond those that callers want: these and they are half of
// what a window asked for.
func (d *demand) ahead(wanted int64) int64 {
	if d.callers+d.callersBefore < 2 {
		return 0
	}
	return max(0, max(d.asked, d.askedBefore)/2-wanted)
}

// shares says that the call is one for which callers share calls.
func (s *leases) shares(c *call, now time.Time) bool {
	return c.mayShare && s.enabled && now.UnixNano() >= s.off.Load() && s.fits(c.funnels[0].limit, c.funnels[0].quantity)
}

func (s *leases) fits(limit Limit, quantity int) bool {
	most := 1
	if s.span > 0 {
		most = max(1, limit.Capacity/10)
	}
	return quantity > 0 && quantity <= most
}

// find returns the lease of a key and limit, or nil. The caller holds the mutex.
func (s *leases) find(key string, limit Limit) *lease {
	for _, f := range s.byKey[key] {
		if f.limit == limit {
			return f
		}
	}
	return nil
}

// see returns the lease of a key and a funnel's limit, locked. It makes one if there is none,
// and removes others that are idle.
func (s *leases) see(key string, of *funnel, now time.Time) *lease {
	for {
		s.mutex.Lock()
		f := s.find(key, of.limit)
		if f == nil {
			f = s.add(key, of, now)
		}
		s.moveToEnd(f)
		for removals := 0; removals < mostRemovals && s.ring.next != f && s.removeIdle(now); {
			removals++
		}
		s.mutex.Unlock()
		f.mutex.Lock()
		if !f.removed {
			return f
		}
		f.mutex.Unlock()
	}
}

func (s *leases) add(key string, of *funnel, now time.Time) *lease {
	if s.byKey == nil {
		s.byKey = map[string][]*lease{}
		s.ring.next, s.ring.previous = &s.ring, &s.ring
	}
	f := &lease{key: key, limit: of.limit, interval: time.Duration(of.shape.rate.EmissionInterval()), demand: demand{last: now}}
	s.byKey[key] = append(s.byKey[key], f)
	s.peak = max(s.peak, len(s.byKey))
	return f
}

func (s *leases) moveToEnd(f *lease) {
	s.unlink(f)
	f.previous, f.next = s.ring.previous, &s.ring
	f.previous.next, f.next.previous = f, f
}

func (s *leases) unlink(f *lease) {
	if f.next != nil {
		f.previous.next, f.next.previous = f.next, f.previous
	}
	f.previous, f.next = nil, nil
}

// mostRemovals is how many idle leases a call removes at most: more than the one that a call can
// add, and bounded, because many may become idle at the same time.
const mostRemovals = 100

// removeIdle removes the lease that was not seen to for the longest time, if it is idle.
func (s *leases) removeIdle(now time.Time) (removed bool) {
	f := s.ring.next
	if f == &s.ring || !f.mutex.TryLock() {
		return false
	}
	defer f.mutex.Unlock()
	if f.asking || now.Before(f.backOff) { // for how long, others do not wait
		s.moveToEnd(f)
		return false
	}
	if now.Sub(f.demand.last) <= 2*s.span {
		return false
	}
	f.removed = true
	s.unlink(f)
	left := slices.DeleteFunc(s.byKey[f.key], func(other *lease) bool { return other == f })
	if s.byKey[f.key] = left; len(left) > 0 {
		return true
	}
	delete(s.byKey, f.key)
	if s.peak >= shrinkFrom && len(s.byKey) <= s.peak/shrinkBy { // a map keeps its memory
		s.byKey, s.peak = maps.Collect(maps.All(s.byKey)), len(s.byKey)
	}
	return true
}

// The map of leases is made anew when it has held at least shrinkFrom keys and no more than
// one in shrinkBy is left.
const (
	shrinkFrom = 1024
	shrinkBy   = 8
)

// endBackOff has callers of a key ask again: tokens were given back.
func (s *leases) endBackOff(key string) {
	s.mutex.RLock()
	ofKey := slices.Clone(s.byKey[key])
	s.mutex.RUnlock()
	for _, f := range ofKey {
		f.mutex.Lock()
		f.backOff, f.givenBack = time.Time{}, true
		f.mutex.Unlock()
	}
}

// handOut decides a call without Redis: by tokens that were taken ahead, or as limited while
// the lease backs off. The clock has to be read under the lock: no token may be handed out at
// an instant before it was taken.
func (f *lease) handOut(now time.Time, quantity int64) (handing, bool) {
	ended := 0
	for ended < len(f.grants) && !now.Before(f.grants[ended].end) {
		ended++
	}
	f.grants = slices.Delete(f.grants, 0, ended)
	for i := range f.grants {
		g := &f.grants[i]
		if g.left < quantity {
			continue
		}
		receipt := g.take(quantity, f.interval)
		if g.left == 0 {
			f.grants = slices.Delete(f.grants, i, i+1)
		}
		return handing{decision: f.allowed(now, receipt), path: PathLease}, true
	}
	if now.Before(f.backOff) {
		return handing{decision: f.limited(now, quantity), path: PathLease}, true
	}
	return handing{}, false
}

// allowed is the decision on a call that got its tokens.
func (f *lease) allowed(now time.Time, receipt int64) gcra.Decision {
	held := f.remaining
	for i := range f.grants {
		if now.Before(f.grants[i].end) {
			held += f.grants[i].left
		}
	}
	return gcra.Decision{Limit: int64(f.limit.Capacity), Remaining: min(held, int64(f.limit.Capacity)),
		ResetAfter: int64(max(0, f.resetAfter-now.Sub(f.at))), TAT: receipt}
}

// limited is the decision on a call that got none: it waits until the lease asks again, and
// until the tokens fit.
func (f *lease) limited(now time.Time, quantity int64) gcra.Decision {
	decision := f.allowed(now, 0)
	fits := f.oneMore + time.Duration(quantity-1)*f.interval - now.Sub(f.at)
	decision.Limited, decision.Wait = true, int64(max(fits, f.backOff.Sub(now), 1))
	return decision
}

// leased decides a call that a lease can decide without Redis, and allocates nothing.
func (l *Limiter) leased(ctx context.Context, key string, limit Limit, quantity int) (result Result, ok bool) {
	s := &l.leases
	if s.span <= 0 || !s.fits(limit, quantity) || ctx.Err() != nil {
		return result, false
	}
	s.mutex.RLock()
	f := s.find(key, limit)
	s.mutex.RUnlock()
	if f == nil {
		return result, false
	}
	f.mutex.Lock()
	now := l.now()
	got, ok := f.handOut(now, int64(quantity))
	if ok {
		f.demand.add(now, s.span, int64(quantity))
	}
	f.mutex.Unlock()
	if !ok {
		return result, false
	}
	result = Result{Limit: limit, Quantity: quantity, Remaining: int(got.decision.Remaining), RetryAfter: NoRetry,
		ResetAfter: time.Duration(got.decision.ResetAfter), Path: PathLease, claim: claim{l, key, got.decision.TAT, false}}
	if got.decision.Limited {
		result.RetryAfter = time.Duration(got.decision.Wait)
	} else {
		result.Allowed = quantity
	}
	if len(l.hooks) > 0 {
		event := Event{Command: names[gcra.Reserve].text, Key: l.prefix + key, Result: result, Duration: l.now().Sub(now)}
		for _, hook := range l.hooks {
			hook(ctx, event)
		}
	}
	return result, true
}

// share decides a call by one that all callers of its key and limit share. It returns false
// if the call has to be made alone. The context has the caller's time-out.
func (l *Limiter) share(ctx context.Context, c *call) bool {
	if err := context.Cause(ctx); err != nil {
		c.cause = err
		return true
	}
	quantity := int64(c.funnels[0].quantity)
	f := l.leases.see(c.funnels[0].key[len(l.prefix):], &c.funnels[0], l.now())
	now := l.now()
	f.demand.add(now, l.leases.span, quantity)
	got, decided := f.handOut(now, quantity)
	if !decided {
		w := &waiter{quantity: quantity, done: make(chan handing, 1)}
		f.queue = append(f.queue, w)
		l.askForAll(f)
		f.mutex.Unlock()
		got = f.await(ctx, w)
	} else {
		f.mutex.Unlock()
	}
	if got.alone {
		return false
	}
	c.path, c.cause, c.parts[0].Decision = got.path, got.cause, got.decision
	return true
}

// await waits for what a waiter gets. One that gives up gets nothing, and leaves its tokens to
// the next.
func (f *lease) await(ctx context.Context, w *waiter) handing {
	select {
	case got := <-w.done:
		return got
	case <-ctx.Done():
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	select {
	case got := <-w.done:
		return got
	default:
		w.gone = true
		if f.gone++; 2*f.gone > len(f.queue) { // while a call takes long, many may come and go
			f.queue, f.gone = slices.DeleteFunc(f.queue, func(w *waiter) bool { return w.gone }), 0
		}
		return handing{cause: context.Cause(ctx)}
	}
}

// askForAll asks Redis for the tokens of all who wait, unless a call is under way. The call
// belongs to nobody: no caller's context ends it.
func (l *Limiter) askForAll(f *lease) {
	if f.asking || len(f.queue) == 0 {
		return
	}
	f.asking = true
	go func() {
		f.mutex.Lock()
		waiters := f.queue
		f.queue, f.gone, f.givenBack = nil, 0, false
		sent := l.now()
		calls := []call{l.callForAll(f, waiters)}
		f.mutex.Unlock()

		c := &calls[0]
		if c.pending {
			l.ask(context.Background(), calls)
			if c.asked && len(l.hooks) > 0 {
				c.err = c.cause
				l.callHooks(context.Background(), c, sent)
			}
		}

		lacksTake := l.lacksTake(c)

		f.mutex.Lock()
		defer f.mutex.Unlock()
		l.handAround(f, waiters, c, sent, lacksTake)
		f.asking = false
		l.startOver(f)
	}()
}

// callForAll is the call for the tokens of waiters that have not gone, and for some ahead. One
// for a single waiter is the call that it would make alone.
func (l *Limiter) callForAll(f *lease, waiters []*waiter) call {
	wanted, count := int64(0), 0
	for _, w := range waiters {
		if !w.gone {
			wanted = min(wanted+w.quantity, math.MaxInt64/2) // a quantity is at most a tenth of the capacity
			count++
		}
	}
	ahead := min(f.demand.ahead(wanted), int64(f.limit.Capacity)/10, int64(l.leases.span/f.interval))
	c := call{operation: gcra.Take, shared: true, pending: count > 0, parts: make([]gcra.Item, 1),
		funnels: []funnel{{key: l.prefix + f.key, limit: f.limit, quantity: int(wanted + ahead)}}}
	if count == 1 && ahead == 0 {
		c.operation = gcra.Reserve
	}
	c.cause = c.check(&l.shapes)
	c.pending = c.pending && c.cause == nil
	return c
}

// lacksTake says that the server has no CL.TAKE, or denies it. Leases are not used then.
func (l *Limiter) lacksTake(c *call) bool {
	reason := c.cause
	switch {
	case reason == nil && c.by == byThrottle:
		reason = errors.New("the server has CL.THROTTLE alone")
	case c.operation != gcra.Take || !isMissing(reason) && !redis.IsPermissionError(reason):
		return false
	}
	l.leases.off.Store(l.now().Add(askAgain).UnixNano())
	l.leases.logged.Do(func() {
		l.failure.logger.Warn("leases are not used: they need CL.TAKE", "error", reason)
	})
	return true
}

// handAround gives what a call got to its waiters, in order, and keeps the rest.
func (l *Limiter) handAround(f *lease, waiters []*waiter, c *call, sent time.Time, lacksTake bool) {
	span, now, decision := l.leases.span, l.now(), &c.parts[0].Decision
	got := int64(0)
	switch {
	case c.cause != nil || !c.pending:
	case c.operation == gcra.Take:
		got = c.parts[0].Taken
	case !decision.Limited:
		got = int64(c.funnels[0].quantity)
	}
	if c.pending && c.cause == nil {
		f.at, f.remaining, f.resetAfter = now, decision.Remaining, time.Duration(decision.ResetAfter)
		f.oneMore = time.Duration(decision.Wait)
		if c.operation == gcra.Take && got < int64(c.funnels[0].quantity) && span > 0 && !f.givenBack {
			f.backOff = sent.Add(span)
			if due := now.Add(f.oneMore); due.After(f.backOff) {
				f.backOff = due
			}
			if latest := sent.Add(span + time.Second); latest.Before(f.backOff) {
				f.backOff = latest
			}
		}
	}
	f.grants = append(f.grants, grant{got, sent.Add(span), decision.TAT})
	rest := &f.grants[len(f.grants)-1]
	for _, w := range waiters {
		if w.gone {
			continue
		}
		handed := handing{path: c.path, cause: c.cause}
		switch {
		case c.cause != nil && lacksTake:
			handed.alone = true
		case c.cause != nil:
		case rest.left >= w.quantity:
			receipt := rest.take(w.quantity, f.interval)
			handed.decision = f.allowed(now, receipt)
		case c.operation == gcra.Reserve:
			handed.decision = *decision
		default:
			handed.decision = f.limited(now, w.quantity)
		}
		w.done <- handed
	}
	if rest.left == 0 || !now.Before(rest.end) {
		f.grants = f.grants[:len(f.grants)-1]
	}
	if len(f.grants) > mostGrants {
		f.grants = slices.Delete(f.grants, 0, 1)
	}
}

// startOver decides those who came while a call was under way, or has the next call made for
// them.
func (l *Limiter) startOver(f *lease) {
	if len(f.queue) == 0 {
		return
	}
	now, waiting := l.now(), f.queue[:0]
	for _, w := range f.queue {
		if w.gone {
			continue
		}
		if got, ok := f.handOut(now, w.quantity); ok {
			w.done <- got
		} else {
			waiting = append(waiting, w)
		}
	}
	clear(f.queue[len(waiting):])
	f.queue, f.gone = waiting, 0
	l.askForAll(f)
}
