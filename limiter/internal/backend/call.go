package backend

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"funnel/gcra"
)

// MaxRows is how many rows a call has at most.
const MaxRows = 64

// A Call asks about 1 to 64 rows, which are decided together.
type Call struct {
	Operation gcra.Operation
	Rows      []Row
	MaxWait   time.Duration // of Reserve for one funnel: from 0
	Receipt   int64         // of Refund for one funnel, or gcra.NoReceipt

	// Lost, if not nil, is called in a goroutine of its own if the call may have been executed, and nobody gets the
	// answer. No copy of it is under way in this process then. Its context is never done.
	Lost func(context.Context)
}

// A Row asks one funnel for tokens, or asks for one of several slots.
type Row struct {
	Key      string       // in Redis
	Request  gcra.Request // checked
	Words    *Words
	Quantity int    // tokens; 1 for a slot
	Holder   string // who wants the slot; empty for a funnel
}

// Words are the words of a row between its key and its quantity or holder, as go-redis takes them. Values that
// become any are allocated: a Limiter keeps those of its limits.
type Words struct {
	Limit, Count, Period any
	Tolerance, Interval  any       // of a funnel, in nanoseconds
	Rate                 gcra.Rate // of a funnel
}

// Accounts reports whether the call is for tokens that were used, or that were not.
func (c *Call) Accounts() bool { return c.Operation == gcra.Charge || c.Operation == gcra.Refund }

// EndsSlot reports whether the call gives a slot back. Such a call may be sent any number of times.
func (c *Call) EndsSlot() bool { return c.Operation == gcra.Refund && c.Rows[0].Holder != "" }

// Items returns the rows as package gcra decides them, without their state.
func (c *Call) Items() []gcra.Item {
	items := make([]gcra.Item, len(c.Rows))
	for i := range items {
		items[i].Request = c.Rows[i].Request
	}
	return items
}

// Wrap returns an error that names the keys of the call.
func (c *Call) Wrap(err error) error {
	if len(c.Rows) == 1 {
		return fmt.Errorf("limiter: key %q: %w", c.Rows[0].Key, err)
	}
	keys := make([]string, len(c.Rows))
	for i := range keys {
		keys[i] = c.Rows[i].Key
	}
	return fmt.Errorf("limiter: keys %q: %w", keys, err)
}

// Seconds writes a time as the commands take it: exact, and without a fraction if possible.
func Seconds(d time.Duration) string {
	seconds, nanoseconds := d/time.Second, d%time.Second
	if nanoseconds == 0 {
		return strconv.Itoa(int(seconds))
	}
	return fmt.Sprintf("%d.%09d", seconds, nanoseconds)
}
