package contract

import (
	"math/big"
	"strings"
)

// A Row is one row of a call, of any kind: a *Funnel, *Slots or *Quota. After [Command.parse] has
// read the words, its methods are the steps of a call, in this order.
type Row interface {
	key() string
	asks() bool // whether it asks for anything

	// read takes the state from what the key holds.
	read(value Value, now *big.Int) Error

	// decide is the arithmetic of an operation. MaxWait is for reserve alone, and receipt for
	// refund.
	decide(operation string, now, maxWait, receipt *big.Int) (Answer, Error)

	// takeBack decides again, if reserve has allowed the row and another row limits the call.
	takeBack(now *big.Int) Answer

	// write is what the key holds after the call, and whether the call has changed that.
	write(now int64) (write Write, changes bool)

	// last is the last element of the row's reply.
	last(operation string, now *big.Int) string
}

// parse reads the words of a row. The third word says what its kind is.
func (c Command) parse(mode Mode, words [5]string) (Row, Error) {
	switch strings.ToLower(words[2]) {
	case "slots":
		if c.Operation != "take" && !c.Seconds {
			return parseSlots(words)
		}
	case "until":
		if !c.Seconds {
			return parseQuota(c.Operation, words)
		}
	}
	return parseFunnel(c.Operation, mode, words)
}

// An Answer is what one row replies, with times in nanoseconds.
type Answer struct {
	Limited    bool
	Limit      int64
	Remaining  int64
	Wait       int64 // -1 for never
	ResetAfter int64
}
