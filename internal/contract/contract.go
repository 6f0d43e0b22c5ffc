// Package contract says what the commands answer, store and refuse: a second
// implementation for tests to compare with, in integers of any size.
//
// It says what docs/commands.md says, and can be checked by reading. No code in it guards
// against overflow: sums and products are exact, and a result that does not fit 63 bits is
// found afterwards. It uses neither the module nor packages gcra, slots and quota.
//
// [Run] takes three steps, each of which may end it with an [Error]: it reads the words, then
// the keys, and then decides. It takes each step for all rows, from the left, before it takes
// the next step. Each kind of [Row] has a file with these steps.
package contract

import (
	"fmt"
	"strings"
)

// A Mode is how CL.THROTTLE reads its second argument. Its value is how much more than that
// argument the funnel holds. Other commands have no modes.
type Mode int64

// What `compat` selects.
const (
	Default   Mode = 0 // the capacity
	RedisCell Mode = 1 // max_burst, which is one less than the limit
)

// An Error is the beginning of an error reply, or "" if there is no error. The rest of the
// reply may show arguments. Tests take the texts from here.
type Error string

// Errors, in the order in which a call meets them.
const (
	ErrArity Error = "ERR wrong number of arg"

	// The smallest number follows: 1, or 0 for CL.THROTTLE in redis-cell mode.
	ErrCapacity Error = "ERR capacity must be an integer from "
	ErrCount    Error = "ERR count must be an integer from 1 to 9223372036854775807"
	ErrPeriod   Error = "ERR period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits"
	ErrQuantity Error = "ERR quantity must be an integer from 0 to 9223372036854775807"

	ErrLimit  Error = "ERR limit must be an integer from 0 to 9223372036854775807"
	ErrTTL    Error = "ERR ttl must be seconds from 0.001 to 9223372036.854775807 with up to 9 fraction digits"
	ErrHolder Error = "ERR holder must be 1 to 255 bytes"

	ErrUntil Error = "ERR until must be a Unix time in seconds above 0, at most 9223372036.854775807 " +
		"and with up to 9 fraction digits"

	ErrEmissionInterval Error = "ERR count is too large for period: less than 1 nanosecond per token"
	ErrTolerance        Error = "ERR capacity and period are too large together for count: " +
		"a full funnel must drain within 2^63-1 nanoseconds (292 years)"
	ErrIncrement Error = "ERR quantity and period are too large together for count: " +
		"the tokens must leak within 2^63-1 nanoseconds (292 years)"

	ErrMaxWait  Error = "ERR max_wait must be seconds from 0 to 9223372036.854775807 with up to 9 fraction digits"
	ErrMaxWaits Error = "ERR max_wait must be 0 for several funnels: " +
		"ask again after the wait that a limited call replies"
	ErrReceipt  Error = "ERR tat must be an integer from 0 to 9223372036854775807"
	ErrReceipts Error = "ERR tat must be left out for several funnels: " +
		"give the tokens of each back by a call of its own"
	ErrMaxWaitWithSlots Error = "ERR max_wait must be left out with SLOTS: ask again after a moment"
	ErrReceiptWithSlots Error = "ERR tat must be left out with SLOTS: the holder's name says which slot ends"
	ErrMaxWaitWithUntil Error = "ERR max_wait must be left out with UNTIL: " +
		"ask again after the wait that a limited call replies"
	ErrReceiptWithUntil Error = "ERR tat must be left out with UNTIL: until says which period counted the quantity"
	ErrTwice            Error = "ERR the key is named twice in this call: ask once, for all of its tokens"

	// The rest of the reply shows until and the instant of the call.
	ErrEnded Error = "ENDED until must be later than the server's clock"

	ErrType   Error = "WRONGTYPE Operation against a key holding the wrong kind of value"
	ErrFunnel Error = "ERR the key does not hold a funnel: its value is not an integer from 0 to 9223372036854775807"
	ErrQuota  Error = "ERR the key does not hold a quota: " +
		"its value is not used:N with an integer N from 1 to 9223372036854775807"

	ErrTAT Error = "ERR quantity and period are too large together for count: " +
		"the funnel must be empty again before the year 2262, 2^63-1 nanoseconds after the epoch"
	ErrEnd  Error = "ERR ttl is too large: the slot must end before the year 2262, 2^63-1 nanoseconds after the epoch"
	ErrUsed Error = "ERR quantity is too large: the sum that is used must be at most 9223372036854775807"
)

// Of returns the error of a row in a call of several rows; number counts from 1. WRONGTYPE stays as it is.
func (e Error) Of(number int) Error {
	code, rest, _ := strings.Cut(string(e), " ")
	if code == "WRONGTYPE" {
		return e
	}
	return Error(fmt.Sprintf("%s row %d: %s", code, number, rest))
}

// Outcomes of a call without an error.
const (
	Allowed  = "allowed"
	Later    = "allowed later"
	Partly   = "allowed in part"
	Limited  = "limited"
	Never    = "limited for ever"
	Peeked   = "peeked"
	Charged  = "charged"
	Refunded = "refunded"
)

// Outcomes are the names of all outcomes, for tests that must meet each of them.
var Outcomes = []string{
	Allowed, Later, Partly, Limited, Never, Peeked, Charged, Refunded,
	string(ErrArity), string(ErrCapacity), string(ErrCount), string(ErrPeriod), string(ErrQuantity),
	string(ErrEmissionInterval), string(ErrTolerance), string(ErrIncrement),
	string(ErrMaxWait), string(ErrMaxWaits), string(ErrReceipt), string(ErrReceipts), string(ErrTwice),
	string(ErrType), string(ErrFunnel), string(ErrTAT),
}

// SlotsErrors are the errors that only calls with slots have.
var SlotsErrors = []string{
	string(ErrLimit), string(ErrTTL), string(ErrHolder), string(ErrMaxWaitWithSlots), string(ErrReceiptWithSlots),
	string(ErrEnd),
}

// QuotaErrors are the errors that only calls with quotas have.
var QuotaErrors = []string{
	string(ErrLimit), string(ErrUntil), string(ErrMaxWaitWithUntil), string(ErrReceiptWithUntil),
	string(ErrEnded), string(ErrQuota), string(ErrUsed),
}

// An Outcome is the result of a call.
type Outcome struct {
	Name   string // one of Outcomes
	Reply  []any  // of int64, string and []any; nil for an error
	Err    Error  // "" for a reply
	Writes []Write
}

// A Write is what a key holds after the call.
type Write struct {
	Key   string
	Value Value // the zero Value if the key is deleted
}

// NoExpiry is the expiry of a key that has none.
const NoExpiry = 0

// A Value is what a key holds, and when it expires.
type Value struct {
	Type   string             // as TYPE names it; "" if there is no key
	Text   string             // of a string
	Scores map[string]float64 // of a sorted set
	Expiry int64              // Unix milliseconds, or NoExpiry
}
