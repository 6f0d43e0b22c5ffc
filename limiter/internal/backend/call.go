package backend

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/calendar"
	"funnel/quota"
	"funnel/slots"
)

// A Call asks about 1 to 64 rows, which are decided together: see package call.
type Call struct {
	Operation call.Operation
	Rows      []Row
	MaxWait   time.Duration // of Reserve for one funnel: from 0
	Receipt   int64         // of Refund for one funnel, or gcra.NoReceipt

	// IsPart says that other calls decide rows that belong to these. What the call takes may have to be given back.
	IsPart bool

	// Lost, if not nil, is called in a goroutine of its own if the call may have been executed, and nobody gets the
	// answer. No copy of it is under way in this process then. Its context is never done.
	Lost func(context.Context)
}

// A Row asks one funnel for tokens, asks for one of several slots, or uses a quota.
type Row struct {
	Key   string // in Redis
	Kind  call.Kind
	Words *Words // nil for a quota

	Quantity int          // how many tokens, or how much of the quota
	Tokens   gcra.Request // of a funnel: the quantity, checked

	Slot   slots.Request // checked
	Holder string        // who wants the slot

	Quota Quota // checked
}

// A Quota is how much may be used in each period of a calendar.
type Quota struct {
	Limit    int
	Calendar calendar.Calendar
}

// EndAt returns when the period ends that runs at an instant, in nanoseconds since the Unix epoch.
func (q *Quota) EndAt(at time.Time) int64 {
	_, end := q.Calendar.Period(at)
	return end.UnixNano()
}

// HasEnded reports whether the row is for a quota that has no period at an instant any more.
func (r *Row) HasEnded(at time.Time) bool {
	return r.Kind == call.Quota && r.Quota.EndAt(at) <= at.UnixNano()
}

// NeverFits reports whether the row asks for more than its funnel or its quota can ever hold.
func (r *Row) NeverFits() bool {
	switch r.Kind {
	case call.Slots:
		return false
	case call.Quota:
		return r.Quantity > r.Quota.Limit
	}
	return int64(r.Quantity) > r.Words.Rate.Capacity()
}

// Words are the words of a row between its key and the last word, which is a quantity or a holder, as go-redis takes
// them. Values that become any are allocated: a Limiter keeps the words of its limits. A quota's words change with its
// period, and are not kept.
type Words struct {
	Limit, Count, Period any
	Tolerance, Interval  any       // of a funnel, in nanoseconds
	Rate                 gcra.Rate // of a funnel
}

// Accounts reports whether the call is for tokens that were used, or that were not.
func (c *Call) Accounts() bool { return c.Operation == call.Charge || c.Operation == call.Refund }

// IsRepeatable reports whether the call may be sent again if its answer was lost. A call that is executed twice limits
// too early, never too late, but a second refund gives back other callers' tokens, and nobody gives back what a part
// took first.
func (c *Call) IsRepeatable() bool {
	changes := c.Operation == call.Refund || c.IsPart && c.Operation == call.Reserve
	return !changes || !slices.ContainsFunc(c.Rows, func(row Row) bool { return row.Kind != call.Slots })
}

// EndsSlot reports whether the call gives a slot back. Such a call may be sent any number of times.
func (c *Call) EndsSlot() bool { return c.Operation == call.Refund && c.Rows[0].Kind == call.Slots }

// Undecided returns the rows as package call decides them at the instant now, without their state. Ahead is by how much
// the wall clock, which tells when a period ends, is ahead of that.
func (c *Call) Undecided(now int64, ahead time.Duration) []call.Row {
	rows := make([]call.Row, len(c.Rows))
	for i := range rows {
		row, asked := &rows[i], &c.Rows[i]
		row.Kind = asked.Kind
		switch row.Kind {
		case call.Slots:
			row.Slots.Request = asked.Slot
		case call.Quota:
			until := asked.Quota.EndAt(time.Unix(0, now+int64(ahead))) - int64(ahead)
			row.Quota.Request, _ = quota.NewRequest(int64(asked.Quota.Limit), until, int64(asked.Quantity))
		default:
			row.Funnel.Request = asked.Tokens
		}
	}
	return rows
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
