// Package contract says what the commands answer, store and refuse: a second implementation for
// tests to compare with, in integers of any size.
//
// It says what docs/commands.md says, and can be checked by reading. No code in it guards against
// overflow: sums and products are exact, and a result that does not fit 63 bits is found
// afterwards. From the module, and from packages gcra, slots and quota, it takes only the texts of
// errors.
//
// [Run] takes three steps, each of which may end it with an [Error]: it reads the words, then the
// keys, and then decides. It takes each step for all rows, from the left, before it takes the next
// step. Each kind of [Row] has a file with these steps.
package contract

import (
	"fmt"
	"strings"

	"funnel/gcra"
	"funnel/internal/errortext"
	"funnel/quota"
	"funnel/slots"
)

// A Mode is how CL.THROTTLE reads its second argument. Its value is added to that argument, and the
// sum is how many tokens the funnel holds. Other commands have no modes.
type Mode int64

// What `compat` selects.
const (
	Default   Mode = 0 // the capacity
	RedisCell Mode = 1 // max_burst, which is one less than the limit
)

// An Error is the beginning of an error reply, or "" if there is no error. The rest of the reply
// may show arguments. Tests take the texts from here.
type Error string

// Errors, in the order in which a call meets them.
const (
	ErrArity Error = "ERR wrong number of arg" // as the server words it

	// The smallest number follows: 1, or 0 for CL.THROTTLE in redis-cell mode.
	ErrCapacity Error = errortext.Invalid + "capacity must be an integer from "
	ErrCount    Error = errortext.Invalid + errortext.Count
	ErrPeriod   Error = errortext.Invalid + errortext.Period
	ErrQuantity Error = errortext.Invalid + errortext.Quantity

	ErrLimit  Error = errortext.Invalid + errortext.Limit
	ErrTTL    Error = errortext.Invalid + errortext.TTL
	ErrHolder Error = errortext.Invalid + errortext.Holder

	ErrUntil         Error = errortext.Invalid + errortext.Until
	ErrUntilOfRefund Error = errortext.Invalid + errortext.UntilOfRefund

	ErrEmissionInterval Error = errortext.Invalid + Error(gcra.ErrEmissionInterval)
	ErrTolerance        Error = errortext.Invalid + Error(gcra.ErrTolerance)
	ErrIncrement        Error = errortext.Invalid + Error(gcra.ErrIncrement)

	ErrMaxWait          Error = errortext.Invalid + errortext.MaxWait
	ErrMaxWaits         Error = errortext.Invalid + errortext.MaxWaitWithSeveral
	ErrReceipt          Error = errortext.Invalid + errortext.Receipt
	ErrReceipts         Error = errortext.Invalid + errortext.ReceiptWithSeveral
	ErrMaxWaitWithSlots Error = errortext.Invalid + errortext.MaxWaitWithSlots
	ErrReceiptWithSlots Error = errortext.Invalid + errortext.ReceiptWithSlots
	ErrMaxWaitWithUntil Error = errortext.Invalid + errortext.MaxWaitWithUntil
	ErrReceiptWithUntil Error = errortext.Invalid + errortext.ReceiptWithUntil
	ErrTwice            Error = errortext.Invalid + errortext.DuplicateKey

	ErrEnded Error = errortext.Past + errortext.Ended // until and the instant of the call follow

	ErrType   Error = errortext.WrongType
	ErrFunnel Error = errortext.Invalid + errortext.NoFunnel
	ErrQuota  Error = errortext.Invalid + errortext.NoQuota

	ErrTAT       Error = errortext.Invalid + Error(gcra.ErrTAT)
	ErrEnd       Error = errortext.Invalid + Error(slots.ErrEnd)
	ErrPeriodEnd Error = errortext.Invalid + Error(quota.ErrEnd)
	ErrUsed      Error = errortext.Invalid + Error(quota.ErrUsed)
)

// Of returns the error of a row in a call of several rows; number counts from 1. WRONGTYPE stays as
// it is.
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
	string(ErrLimit), string(ErrUntil), string(ErrUntilOfRefund), string(ErrMaxWaitWithUntil),
	string(ErrReceiptWithUntil), string(ErrEnded), string(ErrQuota), string(ErrPeriodEnd), string(ErrUsed),
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
