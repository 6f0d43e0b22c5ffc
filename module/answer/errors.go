package answer

import (
	"funnel/gcra"
	"funnel/slots"
)

// Error replies, without "ERR ". WRONGTYPE is the text of Redis itself. The errors of package
// gcra name the numbers that are too large together. limiter/funnels.lua repeats all texts;
// tests compare them with those of internal/contract.
const (
	badCapacity          = "capacity must be an integer from 1 to 9223372036854775807"
	zeroCapacity         = "capacity must be an integer from 1 to 9223372036854775807, not '0': for clients of redis-cell, whose argument is one less than the limit, load the module with 'compat redis-cell'"
	badCapacityRedisCell = "capacity must be an integer from 0 to 9223372036854775807"
	badCount             = "count must be an integer from 1 to 9223372036854775807"
	badPeriod            = "period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits"
	badQuantity          = "quantity must be an integer from 0 to 9223372036854775807"

	badLimit          = "limit must be an integer from 0 to 9223372036854775807"
	badTTL            = "ttl must be seconds from 0.001 to 9223372036.854775807 with up to 9 fraction digits"
	badHolder         = "holder must be 1 to 255 bytes"
	badMaxWaitOfSlots = "max_wait must be left out with SLOTS: ask again after a moment"
	badReceiptOfSlots = "tat must be left out with SLOTS: the holder's name says which slot ends"

	badMaxWait          = "max_wait must be seconds from 0 to 9223372036.854775807 with up to 9 fraction digits"
	badMaxWaitOfSeveral = "max_wait must be 0 for several funnels: ask again after the wait that a limited call replies"
	badReceipt          = "tat must be an integer from 0 to 9223372036854775807"
	badReceiptOfSeveral = "tat must be left out for several funnels: give the tokens of each back by a call of its own"
	keyTwice            = "the key is named twice in this call: ask once, for all of its tokens"

	wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

	// Omit the stored value; it may be sensitive.
	noFunnel = "the key does not hold a funnel: its value is not an integer from 0 to 9223372036854775807"
)

// longestValue is how much of a wrong argument an error repeats, in bytes.
const longestValue = 40

// failStored answers a call when a key holds something other than the row's kind. For a key of
// another type it replies as the server's own commands do.
//
//go:nosplit
func (call *Call) failStored(index uint) {
	if index < MostFunnels && call.Funnels[index].Stored == StoredOfKind {
		call.setErrorFunnel(index)
		call.fail(noFunnel)
		return
	}
	call.Verdict, call.MessageLength = Error, 0
	call.add(wrongType)
}

// fail answers with an error reply, which names the row of the funnel if there are several.
// Like the functions below, which add details, it returns false for its callers to return
// in the same line.
//
//go:nosplit
func (call *Call) fail(reason string) bool {
	call.Verdict, call.MessageLength = Error, 0
	call.add("ERR ")
	if number := call.ErrorFunnel; number > 0 {
		call.add("row ")
		if number >= 10 {
			call.addByte(byte('0' + number/10%10))
		}
		call.addByte(byte('0' + number%10))
		call.add(": ")
	}
	call.add(reason)
	return false
}

// failArgument also shows the argument.
//
//go:nosplit
func (call *Call) failArgument(reason, argument string) bool {
	call.fail(reason)
	if argument != "" {
		call.add(", not ")
		call.addQuoted(argument)
	}
	return false
}

// failCapacity answers with an error reply for a capacity that is 0 or, if isNumber is
// false, not a number.
//
//go:nosplit
func (call *Call) failCapacity(capacity string, isNumber bool) bool {
	switch {
	case isNumber && call.Form == InSeconds:
		return call.fail(zeroCapacity)
	case call.LimitSurplus == 0:
		return call.failArgument(badCapacity, capacity)
	}
	return call.failArgument(badCapacityRedisCell, capacity)
}

// failCombination also shows all arguments of a funnel: each is valid alone, but not all
// together.
//
//go:nosplit
func (call *Call) failCombination(err error, funnel *Funnel) bool {
	if funnel.Kind == SlotsKind {
		reason, _ := err.(slots.Error)
		call.fail(string(reason))
		call.add(": got ttl ")
		call.add(funnel.Period)
		return false
	}
	reason, _ := err.(gcra.Error)
	call.fail(string(reason))
	call.add(": got capacity ")
	call.add(funnel.Capacity)
	call.add(", count ")
	call.add(funnel.Count)
	call.add(", period ")
	call.add(funnel.Period)
	call.add(", quantity ")
	call.add(funnel.Quantity)
	return false
}

// add appends printable text to the message. If it were inlined, its callers would exceed
// the linker's stack limit in instrumented code, as for fuzzing.
//
//go:noinline
//go:nosplit
func (call *Call) add(text string) {
	for i := 0; i < len(text); i++ {
		call.addByte(text[i])
	}
}

// addQuoted appends an argument, which may hold any bytes, as a short printable text.
//
//go:nosplit
func (call *Call) addQuoted(argument string) {
	call.add("'")
	for i := 0; i < len(argument) && i < longestValue; i++ {
		character := argument[i]
		if character < ' ' || character > '~' {
			character = '?'
		}
		call.addByte(character)
	}
	call.add("'")
	if len(argument) > longestValue {
		call.add(" and more")
	}
}

// addByte appends a byte, and ends the message behind it. Longer text is truncated; no
// current message is that long.
//
//go:nosplit
func (call *Call) addByte(character byte) {
	if at := call.MessageLength; at < MessageCapacity-1 {
		call.Message[at], call.Message[at+1] = character, 0
		call.MessageLength++
	}
}
