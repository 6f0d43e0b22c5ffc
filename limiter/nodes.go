package limiter

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
)

// A part is the rows of a call whose keys have one hash tag: one node of a cluster decides them, by one command. A call
// of several parts is allowed if each part allows it. If one limits it, the others give back what they took.
type part struct {
	query
	tag     string
	indexes []int // of its rows in the call
	asked   bool
	reply   backend.Reply
	err     error
}

// decideTogether decides a call of several rows, even if they are on several nodes, and fills in its results. Hooks get
// one decision on each row. Cause is why Redis has not decided on the first row, or nil.
func (l *Limiter) decideTogether(ctx context.Context, q *query) (cause, err error) {
	began, parts := l.now(), l.split(q)
	if parts == nil {
		reply, err := l.ask(ctx, l.backend, q)
		cause = causeOf(&reply, err)
		if redis.IsCrossSlot(err) {
			l.isCluster.Store(true)
			parts = l.split(q)
		}
		if parts == nil {
			l.callHooks(ctx, q, Event{Err: err, Cause: cause, Duration: l.now() - began})
			return cause, err
		}
	}
	err = l.decideParts(ctx, q.Operation, parts)
	var first error // why Redis has not decided on some part
	for _, p := range parts {
		failure := causeOf(&p.reply, p.err)
		first = cmp.Or(first, failure)
		for i, index := range p.indexes {
			q.results[index] = p.results[i]
			if index == 0 {
				cause = failure
			}
		}
	}
	if err != nil {
		q.fill(&backend.Reply{})
	}
	l.callHooks(ctx, q, Event{Err: err, Cause: first, Duration: l.now() - began})
	return cause, err
}

// split returns the parts of a call in the order of their hash tags, or nil if one command decides the call.
func (l *Limiter) split(q *query) (parts []*part) {
	elsewhere := func(row backend.Row) bool { return hashTag(row.Key) != hashTag(q.Rows[0].Key) }
	if q.invalid != nil || !l.isCluster.Load() || !slices.ContainsFunc(q.Rows, elsewhere) {
		return nil
	}
	for i, row := range q.Rows {
		tag := hashTag(row.Key)
		at, found := slices.BinarySearchFunc(parts, tag, func(p *part, tag string) int { return cmp.Compare(p.tag, tag) })
		if !found {
			p := &part{tag: tag}
			p.Call = backend.Call{Operation: q.Operation, Receipt: gcra.NoReceipt, IsPart: true}
			parts = slices.Insert(parts, at, p)
		}
		p := parts[at]
		p.Rows, p.results, p.indexes = append(p.Rows, row), append(p.results, q.results[i]), append(p.indexes, i)
		if row.Kind == call.Slots {
			p.Lost = q.Lost
		}
	}
	for _, p := range parts {
		p.reset()
	}
	return parts
}

// hashTag returns the text that selects the node of a key: between the first { and the next }, or else the whole key.
func hashTag(key string) string {
	_, behind, _ := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(behind, "}")
	if !closed || tag == "" {
		return key
	}
	return tag
}

// decideParts has each part decided. If the call is limited or fails, no part keeps what it took.
func (l *Limiter) decideParts(ctx context.Context, operation call.Operation, parts []*part) error {
	if operation == call.Peek {
		l.askParts(ctx, parts)
		return failureOf(parts)
	}
	// A caller that is over its own limit must not occupy the funnels of all callers.
	likely, others := l.refusals.separate(parts, l.wall())
	if len(likely) > 0 {
		seen := l.peekParts(ctx, others)
		l.askParts(ctx, likely)
		seen.Wait()
	}
	if !slices.ContainsFunc(likely, (*part).refused) {
		l.askParts(ctx, others)
	}
	if !slices.ContainsFunc(parts, (*part).refused) {
		return nil
	}
	isContested := slices.ContainsFunc(parts, (*part).took) && !slices.ContainsFunc(parts, (*part).isFinal)
	isOver := l.giveBack(ctx, parts)
	if !isContested || !isOver {
		return failureOf(parts)
	}
	return l.askInOrder(ctx, parts)
}

// maxLooks is how often a caller looks whether a part has come free that limited its call for long.
const maxLooks = 2

// askInOrder asks for a call once more, part by part. If two callers each hold what the other needs, both are refused,
// and their waits mean nothing once both have given back. If both ask in the same order, one of them comes first.
//
// A part may still limit the call because another caller has yet to give back. If the wait is long, this caller looks
// soon after, and holds nothing meanwhile. If callers refuse each other, the last one to look finds its tokens free.
func (l *Limiter) askInOrder(ctx context.Context, parts []*part) error {
	refusing, isFinal := l.askEach(ctx, parts)
	for look := 0; look < maxLooks && !isFinal && refusing.limitsForLong(); look++ {
		if sleep(ctx, 2*time.Millisecond+rand.N(4*time.Millisecond)) != nil {
			break
		}
		if _, fits := l.peek(ctx, refusing); fits {
			refusing, isFinal = l.askEach(ctx, parts)
		}
	}
	return failureOf(parts)
}

// askEach asks for one part after the other. If one refuses the call, those before it give back. IsFinal is true if the
// call was allowed, or must not be asked again.
func (l *Limiter) askEach(ctx context.Context, parts []*part) (refusing *part, isFinal bool) {
	for _, p := range parts {
		p.reset()
	}
	for i, p := range parts {
		l.askParts(ctx, parts[i:i+1])
		if p.refused() {
			isOver := l.giveBack(ctx, parts[:i])
			return p, !isOver || slices.ContainsFunc(parts, (*part).isFinal)
		}
	}
	return nil, true
}

// askParts asks for all parts at once, and fills in their results.
func (l *Limiter) askParts(ctx context.Context, parts []*part) {
	var group sync.WaitGroup
	for _, p := range parts {
		group.Go(func() {
			p.asked = true
			p.reply, p.err = l.ask(ctx, l.backend, &p.query)
			if p.Operation != call.Peek && ctx.Err() == nil { // otherwise the error is the cause of ctx
				l.refusals.note(p)
			}
		})
	}
	group.Wait()
}

// peekParts starts peeks at parts that are perhaps never asked, to fill in their Remaining and ResetAfter.
func (l *Limiter) peekParts(ctx context.Context, parts []*part) *sync.WaitGroup {
	var group sync.WaitGroup
	for _, p := range parts {
		group.Go(func() {
			results, _ := l.peek(ctx, p)
			for i, seen := range results {
				result := &p.results[i]
				result.Remaining, result.ResetAfter, result.Source = seen.Remaining, seen.ResetAfter, seen.Source
			}
		})
	}
	return &group
}

// peek answers as the part would, and takes nothing.
func (l *Limiter) peek(ctx context.Context, p *part) (results []Result, fits bool) {
	peek := query{Call: p.Call, results: slices.Clone(p.results)}
	peek.Operation, peek.Lost = call.Peek, nil
	reply, err := l.ask(ctx, l.backend, &peek)
	return peek.results, err == nil && !reply.Limited
}

// refused reports whether the part has been asked, and does not allow the call.
func (p *part) refused() bool { return p.asked && (p.err != nil || p.reply.Limited) }

// took reports whether the part holds what the call asked it for.
func (p *part) took() bool { return p.asked && p.err == nil && !p.reply.Limited }

// isFinal reports whether the part must not be asked again: Redis refuses it for ever, or has not decided it. What Redis
// may have taken then is given back in the background, which would also end a slot that a second call takes.
func (p *part) isFinal() bool {
	never := func(r Result) bool { return r.RetryAfter == NoRetry }
	return p.asked && (p.err != nil || p.reply.Cause != nil || slices.ContainsFunc(p.results, never))
}

// limitsForLong reports whether the part lacks tokens for more than a second. The wait for a slot says little: slots
// are mostly released before they end.
func (p *part) limitsForLong() bool {
	return slices.ContainsFunc(p.results, func(r Result) bool { return r.Slots.Max == 0 && r.RetryAfter > time.Second })
}

// reset marks a part as not asked yet: its rows do not limit the call.
func (p *part) reset() {
	p.asked = false
	for i := range p.results {
		result := &p.results[i]
		result.OK, result.RetryAfter = true, 0
	}
}

// failureOf is the error of the first part that has one.
func failureOf(parts []*part) error {
	for _, p := range parts {
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// giveBack gives back what parts of a call took, even if its caller has given up. It waits no longer than [WithTimeout]
// allows. The results then tell what remains. IsOver is false if the slot is still being given back in the background:
// that may also end a slot that the same holder takes later.
func (l *Limiter) giveBack(ctx context.Context, parts []*part) (isOver bool) {
	ctx = context.WithoutCancel(ctx)
	var group sync.WaitGroup
	var unanswered atomic.Bool
	for _, p := range parts {
		for i := range p.results {
			if p.took() {
				group.Go(func() {
					err := l.giveBackRow(ctx, &p.Rows[i], &p.results[i])
					if p.Rows[i].Kind == call.Slots && !isDecided(err) {
						unanswered.Store(true)
					}
				})
			}
		}
	}
	group.Wait()
	return !unanswered.Load()
}

// giveBackRow gives back the tokens or the slot of a row.
func (l *Limiter) giveBackRow(ctx context.Context, row *backend.Row, result *Result) (err error) {
	after := *result
	switch {
	case result.Source == FromOpen: // nobody counts it
	case row.Kind == call.Slots:
		h := hold{limiter: l, key: result.Key, slots: result.Slots, holder: row.Holder, taken: time.Now()}
		after, err = h.end(ctx, result.Source)
	default:
		after, err = l.Settle(ctx, result, 0)
	}
	if err == nil {
		result.Remaining, result.ResetAfter = after.Remaining, after.ResetAfter
	}
	result.Allowed, result.Receipt = 0, 0
	return err
}
