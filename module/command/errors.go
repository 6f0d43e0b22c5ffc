package command

import (
	"funnel/internal/call"
	"funnel/internal/errortext"
)

// maxShown is how much of a wrong argument an error repeats, in bytes: any number in full, and of
// anything longer enough to recognize it.
const maxShown = 40

// failStored replies with an error because a key does not hold the state of its row's kind, or
// because the server has the key in use. For a key of another type it replies as the server's own
// commands do. A sorted set is always valid.
//
//go:nosplit
func (c *Call) failStored(index uint) {
	if index >= MaxRows {
		return
	}
	row := &c.Rows[index]
	c.setErrorRow(index)
	switch {
	case row.Stored == StoredInUse:
		c.failWithCode(errortext.TryAgain, errortext.InUse)
	case row.Stored == StoredOtherType:
		c.Verdict, c.MessageLength = Error, 0
		c.add(errortext.WrongType)
	case row.Kind == call.Quota:
		c.fail(errortext.NoQuota)
	default:
		c.fail(errortext.NoFunnel)
	}
}

// fail replies that the call is wrong. The error names the row if the call has several rows. It
// always returns false, so that a caller can return its result.
//
//go:nosplit
func (c *Call) fail(reason string) bool { return c.failWithCode(errortext.Invalid, reason) }

// failWithCode is fail with another first word, by which programs tell errors apart.
//
//go:nosplit
func (c *Call) failWithCode(code, reason string) bool {
	c.Verdict, c.MessageLength = Error, 0
	c.add(code)
	number := c.ErrorRow
	if number > 0 {
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

// add appends printable text to the message. It is not inlined: in code that is instrumented for
// fuzzing, its callers would then exceed the linker's stack limit.
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

// addByte appends a byte, and terminates the message. It leaves out what does not fit; no message
// of this package is that long.
//
//go:nosplit
func (c *Call) addByte(character byte) {
	at := c.MessageLength
	if at < MessageCapacity-1 {
		c.Message[at], c.Message[at+1] = character, 0
		c.MessageLength++
	}
}
