package nodes

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"funnel/internal/call"
	"funnel/internal/decision"
	"funnel/limiter/internal/backend"
)

// A part is the rows of a call whose keys have one hash tag: one node decides them, by one command.
type part struct {
	tag     string
	call    backend.Call
	indexes []int // of its rows in the whole call
	asked   bool
	reply   backend.Reply // has room for all rows
	err     error
}

// spansTags reports whether the keys of a call have several hash tags.
func spansTags(c *backend.Call) bool {
	if len(c.Rows) == 1 {
		return false
	}
	first := hashTag(c.Rows[0].Key)
	return slices.ContainsFunc(c.Rows[1:], func(row backend.AskedRow) bool { return hashTag(row.Key) != first })
}

// hashTag returns the text that selects the node of a key: between the first { and the next }, or
// else the whole key.
func hashTag(key string) string {
	_, behind, _ := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(behind, "}")
	if !closed || tag == "" {
		return key
	}
	return tag
}

// split returns the parts of a call in the order of their hash tags, which is the same for all
// callers.
func split(c *backend.Call) (parts []*part) {
	for i, row := range c.Rows {
		tag := hashTag(row.Key)
		at, found := slices.BinarySearchFunc(parts, tag, func(p *part, tag string) int { return cmp.Compare(p.tag, tag) })
		if !found {
			p := &part{tag: tag, call: *c}
			p.call.Rows, p.call.IsPart = nil, true
			parts = slices.Insert(parts, at, p)
		}
		p := parts[at]
		p.call.Rows, p.indexes = append(p.call.Rows, row), append(p.indexes, i)
	}
	for _, p := range parts {
		p.reply.Grow(len(p.call.Rows))
		if !p.hasSlots() {
			p.call.Failure = nil // callers in one line know of a failure of the nodes that have their slots
		}
	}
	return parts
}

func (p *part) hasSlots() bool {
	return slices.ContainsFunc(p.call.Rows, func(row backend.AskedRow) bool { return row.Kind == call.Slots })
}

// combine returns the reply to a call from the replies to its parts, and the errors of the parts
// that have one.
func combine(c *backend.Call, parts []*part) (reply backend.Reply, err error) {
	reply.Grow(len(c.Rows))
	var errs []error
	for _, p := range parts {
		for i, index := range p.indexes {
			*reply.Row(index) = *p.reply.Row(i)
			if p.err != nil {
				reply.Row(index).Cause = p.err
			}
		}
		reply.Limited = reply.Limited || p.reply.Limited
		reply.Refused = reply.Refused || p.reply.Refused
		reply.Sent = reply.Sent || p.reply.Sent
		if p.err != nil {
			errs = append(errs, p.err)
		}
	}
	if len(errs) == 1 {
		return reply, errs[0]
	}
	return reply, errors.Join(errs...)
}

// maxContestedWait is what a contested refusal says to wait at most. Its own wait may be that of a
// caller that holds the tokens for some milliseconds: an hour, if the limit is one per hour.
const maxContestedWait = time.Second

// shortenWaits makes the rows that limit a contested call say to ask again soon.
func shortenWaits(reply *backend.Reply) {
	for i := range 1 + len(reply.Others) {
		row := reply.Row(i)
		if row.Limited && row.Wait != time.Duration(decision.Never) {
			row.Wait = min(row.Wait, maxContestedWait)
		}
	}
}

// refused reports whether the part has been asked, and does not allow the call.
func (p *part) refused() bool { return p.asked && (p.err != nil || p.reply.Limited) }

// took reports whether the part holds what the call asked it for.
func (p *part) took() bool { return p.asked && p.err == nil && !p.reply.Limited }

// isFinal reports whether the part must not be asked again.
//
// Redis may refuse it for ever. Or Redis has not decided: the background refund of the first
// attempt would end the slot that the second attempt takes.
func (p *part) isFinal() bool {
	return p.asked && (p.err != nil || p.anyRow(func(_ *backend.AskedRow, row *backend.RowReply) bool {
		return row.Cause != nil || row.Limited && row.Wait == time.Duration(decision.Never)
	}))
}

// limitsForLong reports whether the part lacks tokens for more than a second. The wait for a slot
// says little: slots are mostly released before they end.
func (p *part) limitsForLong() bool {
	return p.anyRow(func(asked *backend.AskedRow, row *backend.RowReply) bool {
		return asked.Kind != call.Slots && row.Limited && row.Wait > maxContestedWait
	})
}

func (p *part) anyRow(is func(asked *backend.AskedRow, row *backend.RowReply) bool) bool {
	for i := range p.call.Rows {
		if is(&p.call.Rows[i], p.reply.Row(i)) {
			return true
		}
	}
	return false
}

// reset marks a part as not asked yet. Its rows go on telling what remains.
func (p *part) reset() {
	p.asked, p.err = false, nil
	p.reply.Limited, p.reply.Refused = false, false
	for i := range p.call.Rows {
		row := p.reply.Row(i)
		*row = backend.RowReply{Source: row.Source, Remaining: row.Remaining, ResetAfter: row.ResetAfter}
	}
}

// forget removes the receipts of a part that gives back: its tokens no longer count.
func (p *part) forget() {
	for i := range p.call.Rows {
		row := p.reply.Row(i)
		row.Taken, row.Receipt = 0, 0
	}
}

// show copies what remains from a reply, without what the reply decides.
func (p *part) show(reply *backend.Reply) {
	for i := range p.call.Rows {
		row, seen := p.reply.Row(i), reply.Row(i)
		row.Source, row.Remaining, row.ResetAfter = seen.Source, seen.Remaining, seen.ResetAfter
	}
}
