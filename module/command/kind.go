package command

import "funnel/internal/call"

// parseRow validates the words of a row, the third of which says what its kind is, and
// makes the request. If a word is wrong, it writes an error, and returns false.
//
//go:nosplit
func (c *Call) parseRow(row *Row, decided *call.Row) (ok bool) {
	switch {
	case c.Form == InRows && c.Operation != call.Take && isSlotsWord(row.Words[slotsWord]):
		row.Kind, decided.Kind = call.Slots, call.Slots
		return c.parseSlots(row, &decided.Slots)
	default:
		row.Kind, decided.Kind = call.Funnel, call.Funnel
		return c.parseFunnel(row, &decided.Funnel)
	}
}

// read takes the state from the stored value. It returns false if the key holds something
// else.
//
//go:nosplit
func (row *Row) read(decided *call.Row) (ok bool) {
	switch row.Kind {
	case call.Slots:
		return row.readSlots(&decided.Slots)
	default:
		return row.readFunnel(&decided.Funnel)
	}
}

// write has C write the state after the call.
//
//go:nosplit
func (row *Row) write(decided *call.Row, now int64) {
	switch row.Kind {
	case call.Slots:
		row.writeSlots(&decided.Slots)
	default:
		row.writeFunnel(&decided.Funnel, now)
	}
}

// reply fills in the last element of the row's reply.
//
//go:nosplit
func (row *Row) reply(operation call.Operation, decided *call.Row) {
	switch row.Kind {
	case call.Slots:
		row.replySlots(&decided.Slots)
	default:
		row.replyFunnel(operation)
	}
}

// failRow answers with an error of the row's decision. It shows the words that the error is
// about: each is valid alone, but not all together.
//
//go:nosplit
func (c *Call) failRow(err error, row *Row) {
	switch row.Kind {
	case call.Slots:
		c.failSlots(err, row)
	default:
		c.failFunnel(err, row)
	}
}
