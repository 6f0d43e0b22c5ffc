package bench

import (
	"fmt"
	"strings"
)

// A Limit is what a caller is held to: Capacity calls at once, and Count more per
// Period from then on. All are at least 1.
type Limit struct {
	Capacity int64
	Count    int64
	Period   int64 // seconds
}

// Drain is the time in which a full funnel of this limit runs empty, in seconds,
// rounded up. Windows, which know no leak, are given this length: Capacity calls
// per Drain are the same rate.
func (l Limit) Drain() int64 { return (l.Capacity*l.Period + l.Count - 1) / l.Count }

// The two limits of all load: one that is never reached while we measure, and one
// that is reached by the first call and stays reached. Both leak slowly, so that no
// key expires between two calls, however slow the machine is.
var (
	Roomy  = Limit{Capacity: 700_000, Count: 1, Period: 6}
	Narrow = Limit{Capacity: 1, Count: 1, Period: 600_000}
)

// An Outcome is how a call was answered.
type Outcome int

// What a call can come to. Plain is for commands that limit nothing.
const (
	Plain Outcome = iota
	Allowed
	Limited
)

func (o Outcome) String() string { return [...]string{"answered", "allowed", "limited"}[o] }

// An Operation is one call of one alternative, as it goes over the wire.
type Operation struct {
	// Commands are the commands of the call, sent together in one write, each a
	// list of words. In the words, these stand for what differs between calls:
	//
	//	{key}     the key, 16 bytes
	//	{unique}  12 digits that occur once per load
	//	{now}     the client's clock in milliseconds, 13 digits
	//	{before}  the same, Window earlier
	Commands [][]string

	// Window is the length of the window for {before}, in seconds.
	Window int64

	// Outcome reads the replies, one number per command: the integer that the
	// reply is, or that an array begins with; 0 for any other reply. Nil means
	// that every call is Plain.
	Outcome func(replies []int64) Outcome
}

// A field is a place in an encoded call that is filled in before each use.
type field struct {
	offset int
	width  int
	kind   byte // the second letter of its name in the words
}

// A call is an operation encoded once, for a load to patch and send many times.
type call struct {
	operation Operation
	bytes     []byte
	fields    []field
	expected  Outcome
}

// The key prefixes have one length, so that keys are alike in all loads. The two
// limits have keys of their own: an alternative may not bear to see one key with
// two limits.
const (
	roomyPrefix  = "key:"
	narrowPrefix = "lim:"
	keyDigits    = 12
)

// encode prepares an operation for sending.
func encode(operation Operation, prefix string, expected Outcome) *call {
	c := &call{operation: operation, expected: expected}
	for _, words := range operation.Commands {
		c.bytes = fmt.Appendf(c.bytes, "*%d\r\n", len(words))
		for _, word := range words {
			c.appendWord(word, prefix)
		}
	}
	return c
}

func (c *call) appendWord(word, prefix string) {
	var fields []field
	var text []byte
	for {
		before, rest, found := strings.Cut(word, "{")
		text = append(text, before...)
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			panic("bench: a word has { without }: " + word)
		}
		width := 13
		switch name {
		case "key":
			text = append(text, prefix...)
			width = keyDigits
		case "unique":
			width = 12
		case "now", "before":
		default:
			panic("bench: unknown field in a word: " + word)
		}
		fields = append(fields, field{len(text), width, name[0]})
		text = append(text, strings.Repeat("0", width)...)
		word = after
	}
	c.bytes = fmt.Appendf(c.bytes, "$%d\r\n", len(text))
	for _, f := range fields {
		f.offset += len(c.bytes)
		c.fields = append(c.fields, f)
	}
	c.bytes = append(append(c.bytes, text...), "\r\n"...)
}

// appendTo appends the call for one key at one instant, in milliseconds.
func (c *call) appendTo(buffer []byte, key, unique, now int64) []byte {
	start := len(buffer)
	buffer = append(buffer, c.bytes...)
	for _, f := range c.fields {
		number := key
		switch f.kind {
		case 'u':
			number = unique
		case 'n':
			number = now
		case 'b':
			number = max(0, now-c.operation.Window*1000)
		}
		place := buffer[start+f.offset:][:f.width]
		for i := len(place) - 1; i >= 0; i-- {
			place[i] = byte('0' + number%10)
			number /= 10
		}
	}
	return buffer
}

// check tells whether the replies are what the call was sent for.
func (c *call) check(replies []int64) error {
	if c.expected == Plain {
		return nil
	}
	if outcome := c.operation.Outcome(replies); outcome != c.expected {
		return fmt.Errorf("%s: a call that should have been %s was %s", c.operation.Commands[0][0], c.expected, outcome)
	}
	return nil
}
