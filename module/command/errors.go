package command

import "funnel/internal/call"

// Error replies, without "ERR ". The text of WRONGTYPE is the one of Redis. The errors of packages
// gcra, slots and quota name the numbers that are too large together. limiter/funnels.lua repeats all
// texts; tests compare them with the texts of internal/contract.
const (
	badCapacity  = "capacity must be an integer from 1 to 9223372036854775807"
	zeroCapacity = "capacity must be an integer from 1 to 9223372036854775807, not '0': " +
		"for clients of redis-cell, whose argument is one less than the limit, load the module with 'compat redis-cell'"
	badCapacityRedisCell = "capacity must be an integer from 0 to 9223372036854775807"
	badCount             = "count must be an integer from 1 to 9223372036854775807"
	badPeriod            = "period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits"
	badQuantity          = "quantity must be an integer from 0 to 9223372036854775807"

	badLimit            = "limit must be an integer from 0 to 9223372036854775807"
	badTTL              = "ttl must be seconds from 0.001 to 9223372036.854775807 with up to 9 fraction digits"
	badHolder           = "holder must be 1 to 255 bytes"
	badMaxWaitWithSlots = "max_wait must be left out with SLOTS: ask again after a moment"
	badReceiptWithSlots = "tat must be left out with SLOTS: the holder's name says which slot ends"

	badUntil = "until must be a Unix time in seconds above 0, at most 9223372036.854775807 " +
		"and with up to 9 fraction digits"
	badMaxWaitWithUntil = "max_wait must be left out with UNTIL: ask again after the wait that a limited call replies"
	badReceiptWithUntil = "tat must be left out with UNTIL: until says which period counted the quantity"
	ended               = "until must be later than the server's clock"

	badMaxWait            = "max_wait must be seconds from 0 to 9223372036.854775807 with up to 9 fraction digits"
	badMaxWaitWithSeveral = "max_wait must be 0 for several funnels: ask again after the wait that a limited call replies"
	badReceipt            = "tat must be an integer from 0 to 9223372036854775807"
	badReceiptWithSeveral = "tat must be left out for several funnels: give the tokens of each back by a call of its own"
	duplicateKey          = "the key is named twice in this call: ask once, for all of its tokens"

	wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

	// Omit the stored value; it may be sensitive.
	noFunnel = "the key does not hold a funnel: its value is not an integer from 0 to 9223372036854775807"
	noQuota  = "the key does not hold a quota: " +
		"its value is not used:N with an integer N from 1 to 9223372036854775807"
)

// maxShown is how much of a wrong argument an error repeats, in bytes.
const maxShown = 40

// failStored replies with an error because a key does not hold the state of its row's kind. For
// a key of another type it replies as the server's own commands do. A sorted set is always valid.
//
//go:nosplit
func (c *Call) failStored(index uint) {
	if index < MaxRows && c.Rows[index].Stored == StoredOfKind {
		c.setErrorRow(index)
		reason := noFunnel
		if c.Rows[index].Kind == call.Quota {
			reason = noQuota
		}
		c.fail(reason)
		return
	}
	c.Verdict, c.MessageLength = Error, 0
	c.add(wrongType)
}

// fail replies with an error, which names the row if the call has several rows. It always
// returns false, so that a caller can return its result.
//
//go:nosplit
func (c *Call) fail(reason string) bool { return c.failWithCode("ERR ", reason) }

// failWithCode is fail with another first word, by which programs tell errors apart.
//
//go:nosplit
func (c *Call) failWithCode(code, reason string) bool {
	c.Verdict, c.MessageLength = Error, 0
	c.add(code)
	if number := c.ErrorRow; number > 0 {
		c.add("row ")
		if number >= 10 {
			c.addByte(byte('0' + number/10%10))
		}
		c.addByte(byte('0' + number%10))
		c.add(": ")
	}
	c.add(reason)
	return false
}

// failArgument is fail for a wrong argument, which it adds to the reason.
//
//go:nosplit
func (c *Call) failArgument(reason, argument string) bool {
	c.fail(reason)
	if argument != "" {
		c.add(", not ")
		c.addQuoted(argument)
	}
	return false
}

// add appends printable text to the message. If it were inlined, its callers would exceed
// the linker's stack limit in instrumented code, as for fuzzing.
//
//go:noinline
//go:nosplit
func (c *Call) add(text string) {
	for i := 0; i < len(text); i++ {
		c.addByte(text[i])
	}
}

//go:nosplit
func (c *Call) addDecimal(decimal *Decimal) {
	for at := decimal.Start; at < decimal.End && at < DecimalCapacity; at++ {
		c.addByte(decimal.Bytes[at])
	}
}

// addQuoted appends an argument as short printable text: the argument may hold any bytes.
//
//go:nosplit
func (c *Call) addQuoted(argument string) {
	c.add("'")
	for i := 0; i < len(argument) && i < maxShown; i++ {
		character := argument[i]
		if character < ' ' || character > '~' {
			character = '?'
		}
		c.addByte(character)
	}
	c.add("'")
	if len(argument) > maxShown {
		c.add(" and more")
	}
}

// addByte appends a byte, and terminates the message. It leaves out what does not fit; no
// message of this package is that long.
//
//go:nosplit
func (c *Call) addByte(character byte) {
	if at := c.MessageLength; at < MessageCapacity-1 {
		c.Message[at], c.Message[at+1] = character, 0
		c.MessageLength++
	}
}
