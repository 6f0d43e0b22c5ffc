// Package contract says what CL.THROTTLE answers, stores and refuses: a second
// implementation for tests to compare with, in integers of any size.
//
// It follows the text of the contract from top to bottom and line by line, so that it
// can be checked by reading. Nothing in it watches for overflow: sums and products are
// exact, and what does not fit 63 bits is seen in the result. It knows neither package
// gcra nor the module.
//
// A call takes three steps, each of which may end it with an [Error]: its words are read
// ([ParseThrottle], [ParseFunnel], [NewFunnel]), then its key ([Funnel.Stored]), and
// then the funnel decides ([Funnel.Decide]). [Throttle] is all of them. A call over
// several funnels makes each step for all funnels, from the left, before the next.
package contract

import "math/big"

// A Mode is how the second argument is read: how much more than that argument the
// funnel holds.
type Mode int64

// What `compat` selects.
const (
	Default   Mode = 0 // the capacity
	RedisCell Mode = 1 // max_burst, which is one less than the limit
)

// An Error is what an error reply begins with, "" for none.
type Error string

// Errors, in the order in which a call meets them.
const (
	ErrArity Error = "ERR wrong number of arg"

	ErrCapacity Error = "ERR capacity must be"
	ErrCount    Error = "ERR count must be"
	ErrPeriod   Error = "ERR period must be"
	ErrQuantity Error = "ERR quantity must be"

	ErrEmissionInterval Error = "ERR count is too large for period"
	ErrTolerance        Error = "ERR capacity and period are too large together for count"
	ErrIncrement        Error = "ERR quantity and period are too large together for count: the tokens"

	ErrType   Error = "WRONGTYPE Operation against a key holding the wrong kind of value"
	ErrFunnel Error = "ERR the key does not hold a funnel"

	ErrTAT Error = "ERR quantity and period are too large together for count: the funnel"
)

// What becomes of a call that is no error.
const (
	Allowed = "allowed"
	Limited = "limited"
	Never   = "limited for ever"
	Peeked  = "peeked"
)

// Outcomes are all that a call can come to, for tests that have to meet each.
var Outcomes = []string{
	Allowed, Limited, Never, Peeked,
	string(ErrArity), string(ErrCapacity), string(ErrCount), string(ErrPeriod), string(ErrQuantity),
	string(ErrEmissionInterval), string(ErrTolerance), string(ErrIncrement),
	string(ErrType), string(ErrFunnel), string(ErrTAT),
}

// An Outcome is what a call came to.
type Outcome struct {
	Name  string // one of Outcomes
	Reply []any  // of int64; nil for an error
	Err   Error  // "" for a reply
	Write *Write // nil when nothing is written
}

// A Write is SET Key Value PXAT Expiry.
type Write struct {
	Key, Value string
	Expiry     int64 // Unix milliseconds
}

// A Value is what a key holds.
type Value struct {
	Type string // as TYPE names it; "" and "none" for nothing
	Text string // of a string
}

// Throttle is CL.THROTTLE with the words behind its name, at an instant in nanoseconds;
// get reads a key.
func Throttle(mode Mode, words []string, now int64, get func(key string) Value) Outcome {
	funnel, err := ParseThrottle(mode, words)
	if err != "" {
		return failed(err)
	}
	tat, err := funnel.Stored(get(funnel.Key))
	if err != "" {
		return failed(err)
	}
	decision, err := funnel.Decide(tat, big.NewInt(now))
	if err != "" {
		return failed(err)
	}

	outcome := Outcome{}
	for _, number := range decision.Reply() {
		outcome.Reply = append(outcome.Reply, number)
	}
	switch {
	case decision.Limited && decision.RetryAfter < 0:
		outcome.Name = Never
	case decision.Limited:
		outcome.Name = Limited
	case funnel.Quantity.Sign() == 0:
		outcome.Name = Peeked
	default:
		outcome.Name = Allowed
		value := big.NewInt(decision.TAT)
		outcome.Write = &Write{funnel.Key, value.String(), roundedUp(value, 1e6)}
	}
	return outcome
}

func failed(err Error) Outcome { return Outcome{Name: string(err), Err: err} }

// Reply is the reply of CL.THROTTLE, in seconds.
func (d Decision) Reply() [5]int64 {
	limited := int64(0)
	if d.Limited {
		limited = 1
	}
	retryAfter := d.RetryAfter
	if retryAfter != -1 {
		retryAfter = roundedUp(big.NewInt(retryAfter), 1e9)
	}
	return [5]int64{limited, d.Limit, d.Remaining, retryAfter, roundedUp(big.NewInt(d.ResetAfter), 1e9)}
}

// roundedUp is the least number of units that reaches the number.
func roundedUp(number *big.Int, unit int64) int64 {
	quotient, rest := new(big.Int).QuoRem(number, big.NewInt(unit), new(big.Int))
	return quotient.Int64() + int64(rest.Sign())
}
