package undo

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
)

const (
	// notAnswered is how long a slot is asked back while no answer comes. A command that lies in a
	// socket is executed no later: TCP gives up after a quarter of an hour, and nobody waits for a
	// server that stands still for longer.
	notAnswered = time.Hour

	// minRetry is the shortest time from a refund without an answer to the next one. Slots with a
	// TTL of some milliseconds would otherwise make a new connection each millisecond.
	minRetry = 100 * time.Millisecond

	// maxEntries bounds the memory of a queue: an entry takes less than 1 KB, so a queue takes less
	// than 10 MB.
	maxEntries = 10_000

	// tries is how often a slot is asked back within its TTL. A slot is of no use to anybody
	// meanwhile, so a tenth of its TTL is lost at most; and ten calls cost less than the call that
	// took the slot and the calls that renewed it.
	tries = 10
)

// A queue has the slots of one node that are to be given back. One goroutine asks for one slot
// after another, so that a node that hangs holds up one connection, however many slots wait.
type queue struct {
	entries entries
	added   chan struct{} // gets a value when an entry is added
	dropped int           // entries for which there was no room
}

// An entry is a slot that is to be given back.
type entry struct {
	ctx    context.Context
	refund backend.Call
	ttl    time.Duration

	// ended says that the call that took the slot can no longer run. One refund that Redis decides,
	// or the end of the TTL, settles the entry.
	//
	// Otherwise a refund that finds no slot proves nothing: the call may still run after it. The
	// slot is asked back until a refund finds it, or until a TTL after Redis has answered a refund:
	// by then the call has been executed, and the slot has ended.
	ended bool
	added time.Time
	began time.Time // for the TTL: when the entry was added, or when Redis answered its first refund

	due   time.Time
	pause time.Duration // before the next refund, if this process could not send the last one
	task  task          // until Redis has answered a refund
	heard bool          // Redis has answered a refund, so the task has ended
	index int           // in the queue
}

func newEntry(ctx context.Context, row backend.AskedRow, ended bool, due time.Time) *entry {
	r := newRefund()
	r.call.Rows = []backend.AskedRow{row}
	now := time.Now()
	e := &entry{ctx: ctx, refund: r.call, ttl: row.TTL, ended: ended, added: now, due: due}
	if ended {
		e.began = now
	}
	return e
}

// enqueue adds an entry to the queue of its node.
func (u *Undo) enqueue(e *entry) {
	node := u.node(e.refund.Rows[0].Key)
	u.mutex.Lock()
	defer u.mutex.Unlock()
	q := u.queues[node]
	if q == nil {
		q = &queue{added: make(chan struct{}, 1)}
		u.queues[node] = q
		go u.run(node, q)
	}
	if len(q.entries) >= maxEntries {
		q.dropped++
		return
	}
	e.ctx, e.task = u.tasks.begin(e.ctx)
	heap.Push(&q.entries, e)
	select {
	case q.added <- struct{}{}:
	default:
	}
}

// run gives the slots of a queue back, until the queue is empty.
func (u *Undo) run(node string, q *queue) {
	for {
		e := u.first(node, q)
		if e == nil {
			return
		}
		wait := time.Until(e.due)
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-q.added: // perhaps an entry that is due earlier
			}
			timer.Stop()
			continue
		}
		reply, err := u.send(e.ctx, &e.refund)
		u.afterRefund(q, e, &reply, err)
	}
}

// first returns the entry that is due first, or nil if the queue is empty and has ended.
func (u *Undo) first(node string, q *queue) *entry {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if len(q.entries) == 0 {
		delete(u.queues, node)
		return nil
	}
	return q.entries[0]
}

// afterRefund removes an entry after a refund, or puts it off.
func (u *Undo) afterRefund(q *queue, e *entry, reply *backend.Reply, err error) {
	isClosed := errors.Is(err, redis.ErrClosed)
	isOfShard := e.refund.Rows[0].Shard != nil // which may be removed from its ring, while others go on
	if isClosed && !isOfShard {
		u.abandon(q, e.ctx, err)
		return
	}
	now := time.Now()
	isAnswered := redis.IsAnswered(err)
	isSettled := isClosed || e.isSettled(reply, err, now)
	u.mutex.Lock()
	if !e.heard && (isSettled || isAnswered) {
		e.heard = true
		e.task.end()
	}
	if isSettled {
		heap.Remove(&q.entries, e.index)
	} else {
		retry := e.ttl / tries
		if !isAnswered {
			retry = max(retry, minRetry)
		}
		if isUnsent(err) {
			e.pause = max(minRetry, 2*e.pause)
			retry = min(retry, e.pause)
		}
		e.due = now.Add(max(retry, time.Millisecond))
		heap.Fix(&q.entries, e.index)
	}
	dropped := 0
	if len(q.entries) < maxEntries {
		dropped, q.dropped = q.dropped, 0
	}
	u.mutex.Unlock() // before it logs: the logger may block, or call the Limiter
	if isSettled && !isDecided(err) {
		u.logger.WarnContext(e.ctx, "a slot was not given back: it ends with its TTL",
			"key", e.refund.Rows[0].Key, "ttl", e.ttl, "error", err)
	}
	if dropped > 0 {
		u.logger.WarnContext(e.ctx, "slots were not given back, because too many were waiting: they end with their TTL",
			"slots", dropped)
	}
}

// abandon leaves all slots of a queue to their TTL, because the client is closed for good.
func (u *Undo) abandon(q *queue, ctx context.Context, err error) {
	u.mutex.Lock()
	abandoned := len(q.entries) + q.dropped
	for _, e := range q.entries {
		if !e.heard {
			e.task.end()
		}
	}
	q.entries, q.dropped = nil, 0
	u.mutex.Unlock() // before it logs
	u.logger.WarnContext(ctx, "slots were not given back: they end with their TTL", "slots", abandoned, "error", err)
}

// isSettled reports whether the slot need not be asked back any more, after a refund at the instant
// now.
func (e *entry) isSettled(reply *backend.Reply, err error, now time.Time) bool {
	switch {
	case err == nil && reply.First.Held:
		return true
	case now.Sub(e.added) >= max(notAnswered, e.ttl) && !e.heard:
		return true
	case e.ended:
		return isDecided(err) || now.Sub(e.began) >= e.ttl
	case !redis.IsAnswered(err):
		return false
	case e.began.IsZero():
		e.began = now
	}
	return now.Sub(e.began) >= e.ttl
}

// uncertain returns how many slots are still asked back, or were left to their TTL and not logged
// yet. It removes the tasks of these slots from numbers: each slot counts once, and its task does
// not count again.
func (u *Undo) uncertain(numbers map[uint64]bool) (slots int) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	for _, q := range u.queues {
		slots += q.dropped
		for _, e := range q.entries {
			slots++
			delete(numbers, e.task.number)
		}
	}
	return slots
}

// entries are a heap, in the order in which they are due.
type entries []*entry

func (e entries) Len() int { return len(e) }

func (e entries) Less(i, j int) bool { return e[i].due.Before(e[j].due) }

func (e entries) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

// Push adds an entry at the end, for package heap.
func (e *entries) Push(x any) {
	added := x.(*entry)
	added.index = len(*e)
	*e = append(*e, added)
}

// Pop removes the last entry, for package heap.
func (e *entries) Pop() any {
	last := len(*e) - 1
	removed := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return removed
}
