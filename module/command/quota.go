package command

import (
	"funnel/internal/call"
	"funnel/internal/errortext"
	"funnel/quota"
)

// untilWord is in the place of a funnel's period. A quota has a limit, like slots, and a quantity,
// like a funnel.
const untilWord = periodWord

// minLasts is the shortest period from the first call, in nanoseconds: a millisecond, since a key
// expires at a whole one.
const minLasts = 1_000_000

// parseQuota makes the request for a quantity: key, limit, UNTIL, until and quantity. An until that
// begins with + says how long a period lasts from the first call.
//
//go:nosplit
func (c *Call) parseQuota(row *Row, q *quota.Quota) (ok bool) {
	words := &row.Words
	limit, ok := parseInteger(words[limitWord])
	if !ok {
		return c.failArgument(errortext.Limit, words[limitWord])
	}
	until, isWindow := words[untilWord], false
	if until != "" && until[0] == '+' {
		until, isWindow = until[1:], true
	}
	if isWindow && c.Operation == call.Refund {
		return c.failArgument(errortext.UntilOfRefund, words[untilWord])
	}
	nanoseconds, ok := parseSeconds(until)
	if !ok || nanoseconds < 1 || isWindow && nanoseconds < minLasts {
		return c.failArgument(errortext.Until, words[untilWord])
	}
	quantity, ok := parseInteger(words[quantityWord])
	if !ok {
		return c.failArgument(errortext.Quantity, words[quantityWord])
	}
	if isWindow {
		q.Request, _ = quota.NewWindowRequest(limit, nanoseconds, quantity)
	} else {
		q.Request, _ = quota.NewRequest(limit, nanoseconds, quantity)
	}
	return true
}

// usedPrefix precedes the sum that is used in the value of a key. The value of no other kind begins
// with it.
const usedPrefix = "used:"

// readQuota reads the sum that is used, unless the key has expired.
//
//go:nosplit
func (row *Row) readQuota(q *quota.Quota, now int64) (ok bool) {
	q.State = quota.State{}
	if row.Stored != StoredOfKind {
		return row.Stored == StoredNothing
	}
	q.State.Expiry = row.String.StoredExpiry
	value := row.String.Stored
	// Byte by byte, because a comparison of strings may need the runtime.
	if len(value) > len(usedPrefix) &&
		value[0] == 'u' && value[1] == 's' && value[2] == 'e' && value[3] == 'd' && value[4] == ':' {
		q.State.Used, ok = parseInteger(value[len(usedPrefix):])
	}
	return ok && q.State.Used > 0 || q.State.Expired(now)
}

// writeQuota writes the sum that is used, and removes the key if nothing is used.
//
//go:nosplit
func (row *Row) writeQuota(q *quota.Quota) {
	after := q.NewState
	if after.Used == 0 {
		row.Write = WriteRemoval
		return
	}
	row.Write = WriteState
	row.String.Value.setInteger(after.Used)
	row.String.Value.prepend(usedPrefix)
	row.String.ExpiryMilliseconds = after.Expiry
	row.String.Expiry.setInteger(after.Expiry)
}

// replyQuota shows the end of the period that counted the call.
//
//go:nosplit
func (row *Row) replyQuota(q *quota.Quota) { row.Quota.Until.setSeconds(q.Until) }

//go:nosplit
func (c *Call) failQuota(err error, row *Row) {
	reason, _ := err.(quota.Error)
	c.fail(string(reason))
	c.add(": got until ")
	c.add(row.Words[untilWord])
	c.add(", quantity ")
	c.add(row.Words[quantityWord])
}

// failEnded replies that the period has ended. The error names the instant of the call: a client
// with a calendar then asks for the period that runs at that instant.
//
//go:nosplit
func (c *Call) failEnded(index uint) {
	c.setErrorRow(index)
	c.failWithCode(errortext.Past, errortext.Ended)
	if index < MaxRows {
		c.add(": got ")
		c.add(c.Rows[index].Words[untilWord])
	}
	c.add(", and it is ")
	c.Wait.setSeconds(max(c.Now, 0))
	c.addDecimal(&c.Wait)
}
