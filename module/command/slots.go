package command

import (
	"funnel/internal/errortext"
	"funnel/slots"
)

// The words of slots after their key.
const (
	limitWord = iota + 1
	_         // SLOTS
	ttlWord
	holderWord
)

const (
	minTTL    = 1_000_000 // nanoseconds: a slot ends at a whole millisecond
	maxHolder = 255       // bytes
)

// parseSlots makes the request for a slot: key, limit, SLOTS, ttl and holder.
//
//go:nosplit
func (c *Call) parseSlots(row *Row, s *slots.Slots) (ok bool) {
	words := &row.Words
	limit, ok := parseInteger(words[limitWord])
	if !ok {
		return c.failArgument(errortext.Limit, words[limitWord])
	}
	ttl, ok := parseSeconds(words[ttlWord])
	if !ok || ttl < minTTL {
		return c.failArgument(errortext.TTL, words[ttlWord])
	}
	holder := words[holderWord]
	if holder == "" || len(holder) > maxHolder {
		return c.failArgument(errortext.Holder, holder)
	}
	row.Slots.Limit = limit
	s.Request, _ = slots.NewRequest(limit, ttl)
	return true
}

//go:nosplit
func (row *Row) readSlots(s *slots.Slots) (ok bool) {
	s.State = row.Slots.State
	return row.Stored == StoredNothing || row.Stored == StoredOfKind
}

// writeSlots writes the end of the holder's slot, and removes a slot that was given back.
//
//go:nosplit
func (row *Row) writeSlots(s *slots.Slots) {
	end := s.End
	if end == 0 {
		row.Write = WriteRemoval
		return
	}
	row.Write = WriteState
	row.Slots.EndMilliseconds = end
	row.Slots.End.setInteger(end)
}

// replySlots shows how much longer the holder's slot would have run.
//
//go:nosplit
func (row *Row) replySlots(s *slots.Slots) { row.Slots.Held.setSeconds(s.Held) }

//go:nosplit
func (c *Call) failSlots(err error, row *Row) {
	reason, _ := err.(slots.Error)
	c.fail(string(reason))
	c.add(": got ttl ")
	c.add(row.Words[ttlWord])
}
