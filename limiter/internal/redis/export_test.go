// Tests use these names beside the exported names of the package.

package redis

import (
	"strings"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

var (
	IsBadCall     = isBadCall
	IsCrossSlot   = isCrossSlot
	TakeScript    = takeText
	ErrNotForTake = errNotForTake
	ErrCutShort   = errCutShort
)

// WithClock returns a script that reads the server's time from its first two keys.
func WithClock(script string) string {
	const clock = "local clock = {table.remove(KEYS, 1), table.remove(KEYS, 1)}\n"
	return clock + strings.ReplaceAll(script, "redis.call('TIME')", "clock")
}

// A TakeCall is a call that take.lua decides.
type TakeCall struct{ call *backend.Call }

// NewTakeCall returns nil for a call that is wrong, or that take.lua cannot decide.
func NewTakeCall(operation call.Operation, capacity, count, period, quantity, maxWait int64) *TakeCall {
	rate, err := gcra.NewRate(capacity, count, period)
	if err != nil {
		return nil
	}
	request, err := rate.Request(quantity)
	if operation == call.Take {
		request, err = rate.RequestUpTo(quantity)
	}
	words := &backend.Words{Tolerance: rate.Tolerance(), Interval: rate.EmissionInterval(), Rate: rate}
	c := &backend.Call{Operation: operation, MaxWait: time.Duration(maxWait), Receipt: gcra.NoReceipt,
		Rows: []backend.AskedRow{{Tokens: request, Words: words, Quantity: int(quantity)}}}
	if err != nil || !fitsTakeScript(c) {
		return nil
	}
	return &TakeCall{c}
}

// Words returns the arguments after the keys.
func (c *TakeCall) Words() []any { return takeScriptArgs(c.call)[4:] }

// Read returns the decision on the funnel. The errors ErrNotForTake and ErrCutShort say that the
// complete script has to decide.
func (c *TakeCall) Read(reply any) (backend.RowReply, error) {
	decided, err := readTakeScript(c.call, reply)
	return decided.First, err
}
