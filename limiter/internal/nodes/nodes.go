// Package nodes has the backend that decides calls whose rows are on several nodes: of a cluster,
// or of a ring. One command goes to one node, so such a call is several commands, and they are made
// to look like one: all rows are taken or none.
//
// # The idea
//
// Rows whose keys have the same hash tag are a part, and one command. All parts are asked at once.
// If each allows, that is the decision, after one round trip. If one refuses, the others give back
// what they took.
//
// Two callers can refuse each other in that way, although one of them would fit: each took what the
// other needs. So a call that one part refused and another allowed is asked once more, part by part
// in the order of hash tags: of two callers who ask in the same order, one comes first.
//
// A caller that is over its own limit would again and again take the tokens of everybody for a
// moment. So a part that has just refused is asked first, and the others only if it allows.
package nodes

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/undo"
	"funnel/limiter/internal/wait"
)

// Nodes decide calls of any number of parts. Make them with [New].
type Nodes struct {
	each     backend.Backend // decides parts
	undo     *undo.Undo
	wall     func() time.Time
	isSpread atomic.Bool // the keys of a call may be on several nodes
	refusals refusals
	looks    int // maxLooks, but for tests
}

// New returns a backend that sends each part of a call through each, and refunds through undo.
// IsSpread says that keys may be on several nodes; otherwise an answer CROSSSLOT tells. Now is a
// monotonic clock, and wall tells which period of a quota runs.
func New(each backend.Backend, undo *undo.Undo, isSpread bool, now func() time.Duration, wall func() time.Time) *Nodes {
	n := &Nodes{each: each, undo: undo, wall: wall, refusals: refusals{now: now}, looks: maxLooks}
	n.isSpread.Store(isSpread)
	return n
}

// Reset deletes a key.
func (n *Nodes) Reset(ctx context.Context, key string) error { return n.each.Reset(ctx, key) }

// Ask decides a call.
//
// If a node fails, that is the error of the call. What other nodes have decided is in the reply all
// the same, unless it has been given back: this concerns charges, refunds, renewals and peeks.
func (n *Nodes) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	if !n.isSpread.Load() {
		reply, err := n.each.Ask(ctx, c)
		if !errors.Is(err, backend.ErrCrossSlot) {
			return reply, err
		}
		n.isSpread.Store(true)
	}
	if !spansTags(c) {
		return n.each.Ask(ctx, c)
	}
	parts := split(c)
	if !c.MayBeUndone() {
		n.sendAll(ctx, parts)
		return combine(c, parts)
	}
	contested := n.reserve(ctx, parts)
	reply, err := combine(c, parts)
	switch {
	case err != nil:
		reply.Void()
	case contested:
		shortenWaits(&reply)
	}
	return reply, err
}

// reserve has each part decided. If one refuses, no part keeps what it took. Contested is true if a
// part may have refused only because another caller held its tokens for a moment: perhaps that
// caller was refused by another node, and gives back.
func (n *Nodes) reserve(ctx context.Context, parts []*part) (contested bool) {
	isKnown := n.firstRound(ctx, parts)
	if !slices.ContainsFunc(parts, (*part).refused) {
		return false
	}
	// Asking again helps only if another caller may need what this one took.
	mayAskAgain := slices.ContainsFunc(parts, (*part).took) && !slices.ContainsFunc(parts, (*part).isFinal)
	decided := n.giveBack(ctx, parts)
	if mayAskAgain && decided && ctx.Err() == nil {
		n.secondRound(ctx, parts)
	}
	return !isKnown && slices.ContainsFunc(parts, (*part).refused)
}

// firstRound asks all parts at once, unless some parts have just refused such a call. It asks these
// parts first, and the others only if these allow. IsKnown is true if such a part has refused again
// until the same instant: then nobody gave back meanwhile, and the caller gets its wait
// unshortened.
func (n *Nodes) firstRound(ctx context.Context, parts []*part) (isKnown bool) {
	likely, others := n.refusals.separate(parts, n.wall())
	if len(likely) == 0 {
		n.sendAll(ctx, others)
		return false
	}
	seen := n.look(ctx, others)
	isKnown = n.sendAll(ctx, likely)
	seen.Wait()
	if !slices.ContainsFunc(likely, (*part).refused) {
		n.sendAll(ctx, others)
	}
	return isKnown
}

const (
	// maxLooks is how many times a caller peeks at a part that refused with a long wait, to see if
	// it has room now.
	maxLooks = 2

	// A caller looks after 2 to 6 ms: another caller needs about that time to be refused by a node
	// and to give back. The jitter keeps callers that refused each other from looking at the same
	// time.
	minLook, lookJitter = 2 * time.Millisecond, 4 * time.Millisecond
)

// secondRound asks for a call once more, part by part.
//
// Two callers that each took half of what the other needs refuse each other, although one of them
// would fit. Both have given back now. Asking part by part, in the order of hash tags, lets one of
// them through.
//
// A part may still refuse because another caller has yet to give back. If it says to wait for long,
// this caller looks soon after, and holds nothing meanwhile. If callers refuse each other, the last
// one to look finds its tokens free.
func (n *Nodes) secondRound(ctx context.Context, parts []*part) {
	refusing := n.sendInTurn(ctx, parts)
	for look := 0; look < n.looks && refusing != nil && refusing.limitsForLong(); look++ {
		err := wait.Sleep(ctx, minLook+rand.N(lookJitter))
		if err != nil {
			return
		}
		if n.fits(ctx, refusing) {
			refusing = n.sendInTurn(ctx, parts)
		}
	}
}

// sendInTurn asks one part after the other. If a part refuses, the parts before it give back. It
// returns the part that refused if the call may be asked again.
func (n *Nodes) sendInTurn(ctx context.Context, parts []*part) (refusing *part) {
	for _, p := range parts {
		p.reset()
	}
	for i, p := range parts {
		n.sendAll(ctx, parts[i:i+1])
		if !p.refused() {
			continue
		}
		decided := n.giveBack(ctx, parts[:i])
		if decided && !p.isFinal() && ctx.Err() == nil {
			refusing = p
		}
		return refusing
	}
	return nil
}

// sendAll asks all of these parts at once. IsKnown is true if one has refused as it had before.
func (n *Nodes) sendAll(ctx context.Context, parts []*part) (isKnown bool) {
	var group sync.WaitGroup
	var known atomic.Bool
	for _, p := range parts {
		group.Go(func() {
			p.asked = true
			p.reply, p.err = n.each.Ask(ctx, &p.call)
			p.reply.Grow(len(p.call.Rows))
			if p.call.MayBeUndone() && (p.err == nil || ctx.Err() == nil) { // otherwise the error is the cause of ctx
				if n.refusals.note(p) {
					known.Store(true)
				}
			}
		})
	}
	group.Wait()
	return known.Load()
}

// look starts to peek at parts that may not be asked, so that their Results still show what
// remains.
func (n *Nodes) look(ctx context.Context, parts []*part) *sync.WaitGroup {
	var group sync.WaitGroup
	for _, p := range parts {
		group.Go(func() {
			reply, err := n.peek(ctx, p)
			if err != nil {
				p.reply.Blame(len(p.call.Rows), err)
				return
			}
			p.show(&reply)
		})
	}
	return &group
}

// fits reports whether a part would allow the call now.
func (n *Nodes) fits(ctx context.Context, p *part) bool {
	reply, err := n.peek(ctx, p)
	return err == nil && !reply.Limited
}

func (n *Nodes) peek(ctx context.Context, p *part) (backend.Reply, error) {
	peek := p.call
	peek.Operation = call.Peek
	return n.each.Ask(ctx, &peek)
}

// giveBack gives back what parts of a call took. If the caller leaves meanwhile, that goes on in
// the background. Decided is false if the refund of a slot is pending: it would also end a slot
// that the same holder takes now. Of tokens it says nothing: they are given back once.
func (n *Nodes) giveBack(ctx context.Context, parts []*part) (decided bool) {
	type undone struct {
		part    *part
		reply   backend.Reply
		decided <-chan bool
	}
	var all []*undone
	for _, p := range parts {
		if p.took() {
			u := &undone{part: p, reply: p.reply.Clone()}
			u.decided = n.undo.Undo(ctx, &p.call, &u.reply)
			p.forget()
			all = append(all, u)
		}
	}
	decided = true
	for _, u := range all {
		select {
		case ok := <-u.decided:
			u.part.show(&u.reply)
			decided = decided && ok
		case <-ctx.Done():
			return false
		}
	}
	return decided
}
