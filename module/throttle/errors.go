package throttle

import "funnel/gcra"

// Error replies. WRONGTYPE is the text of Redis itself.
const (
	badCapacity          = "ERR capacity must be an integer from 1 to 9223372036854775807"
	badCapacityRedisCell = "ERR capacity must be an integer from 0 to 9223372036854775807"
	badCount             = "ERR count must be an integer from 1 to 9223372036854775807"
	badPeriod            = "ERR period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits"
	badQuantity          = "ERR quantity must be an integer from 0 to 9223372036854775807"

	wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

	// Omit the stored value; it may be sensitive.
	noFunnel = "ERR the key does not hold a funnel: its value is not an integer from 0 to 9223372036854775807"
)

// longestValue is how much of a wrong argument an error repeats, in bytes.
const longestValue = 40

// fail answers with an error reply that needs no details.
//
//go:nosplit
func (call *Call) fail(reason string) {
	call.Verdict = Error
	message := message{text: &call.Message}
	message.add(reason)
	message.end()
}

// failArgument answers with an error reply that shows the argument.
//
//go:nosplit
func (call *Call) failArgument(reason, argument string) {
	call.Verdict = Error
	message := message{text: &call.Message}
	message.add(reason)
	if argument != "" {
		message.add(", not ")
		message.addQuoted(argument)
	}
	message.end()
}

// failTogether answers with an error reply that shows all arguments, which are valid
// one by one, but not together.
//
//go:nosplit
func (call *Call) failTogether(err error) {
	call.Verdict = Error
	reason, _ := err.(gcra.Error)
	message := message{text: &call.Message}
	message.add("ERR ")
	message.add(string(reason))
	message.add(", not capacity ")
	message.add(call.Capacity)
	message.add(", count ")
	message.add(call.Count)
	message.add(", period ")
	message.add(call.Period)
	message.add(", quantity ")
	message.add(call.Quantity)
	message.end()
}

// A message is an error reply that is being written: one line of printable ASCII.
// Longer text is truncated; no current message is that long.
type message struct {
	text   *[MessageCapacity]byte
	length int
}

// add appends printable text. Inlined, its callers would exceed the stack limit of the
// linker when code is instrumented, as for fuzzing.
//
//go:noinline
//go:nosplit
func (message *message) add(text string) {
	for i := 0; i < len(text); i++ {
		message.addByte(text[i])
	}
}

// addQuoted appends an argument, which may be any bytes, as a short printable text.
//
//go:nosplit
func (message *message) addQuoted(argument string) {
	message.add("'")
	for i := 0; i < len(argument) && i < longestValue; i++ {
		character := argument[i]
		if character < ' ' || character > '~' {
			character = '?'
		}
		message.addByte(character)
	}
	message.add("'")
	if len(argument) > longestValue {
		message.add(" and more")
	}
}

//go:nosplit
func (message *message) addByte(character byte) {
	if at := uint(message.length); at < MessageCapacity-1 {
		message.text[at] = character
		message.length++
	}
}

//go:nosplit
func (message *message) end() {
	if at := uint(message.length); at < MessageCapacity {
		message.text[at] = 0
	}
}
