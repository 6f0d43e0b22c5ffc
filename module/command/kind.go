package command

import "funnel/internal/call"

// kindWord is the word of a row that says what its kind is.
const kindWord = 2

const _ = 3 - call.KindCount // a fourth kind needs a word here, and a case in each switch of this file

// kindOf returns the kind of a row. If the command does not take that kind, the row counts as a
// funnel: the error then says that the word is not a count.
//
//go:nosplit
func (c *Call) kindOf(row *Row) call.Kind {
	word := row.Words[kindWord]
	switch {
	case c.Form != InRows:
	case isWord(word, "until"):
		return call.Quota
	case isWord(word, "slots") && c.Operation != call.Take:
		return call.Slots
	}
	return call.Funnel
}

// isWord reports whether text is a word, in any case. The word is in lower case.
//
//go:nosplit
func isWord(text, word string) bool {
	if len(text) != len(word) {
		return false
	}
	for i := 0; i < len(text) && i < len(word); i++ {
		if text[i]|0x20 != word[i] { // in lower case, if it is a letter
			return false
		}
	}
	return true
}

// has reports whether the call has a row of a kind.
//
//go:nosplit
func (c *Call) has(kind call.Kind) bool {
	for i := range min(c.Length, MaxRows) {
		if c.Rows[i].Kind == kind {
			return true
		}
	}
	return false
}

// parseRow validates the words of a row, and makes the request. If a word is wrong, it writes an
// error, and returns false.
//
//go:nosplit
func (c *Call) parseRow(row *Row, decided *call.Row) (ok bool) {
	row.Kind = c.kindOf(row)
	decided.Kind = row.Kind
	switch row.Kind {
	case call.Slots:
		return c.parseSlots(row, &decided.Slots)
	case call.Quota:
		return c.parseQuota(row, &decided.Quota)
	default:
		return c.parseFunnel(row, &decided.Funnel)
	}
}

// read takes the state from the stored value. It returns false if the key does not hold the state
// of this kind.
//
//go:nosplit
func (row *Row) read(decided *call.Row, now int64) (ok bool) {
	switch row.Kind {
	case call.Slots:
		return row.readSlots(&decided.Slots)
	case call.Quota:
		return row.readQuota(&decided.Quota, now)
	default:
		return row.readFunnel(&decided.Funnel)
	}
}

// write tells C what to write: the state after the call.
//
//go:nosplit
func (row *Row) write(decided *call.Row, now int64) {
	switch row.Kind {
	case call.Slots:
		row.writeSlots(&decided.Slots)
	case call.Quota:
		row.writeQuota(&decided.Quota)
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
	case call.Quota:
		row.replyQuota(&decided.Quota)
	default:
		row.replyFunnel(operation)
	}
}

// failRow replies with the error of the row's decision. It shows the words that the error is about:
// each word is valid by itself, but together they are not.
//
//go:nosplit
func (c *Call) failRow(err error, row *Row) {
	switch row.Kind {
	case call.Slots:
		c.failSlots(err, row)
	case call.Quota:
		c.failQuota(err, row)
	default:
		c.failFunnel(err, row)
	}
}
