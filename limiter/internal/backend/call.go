package backend

import (
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

// A Call has 1 to 64 rows, which are decided together: see package call.
type Call struct {
	Operation call.Operation
	Rows      []AskedRow
	MaxWait   time.Duration // at least 0; for Reserve of one funnel
	Receipt   int64         // for Refund of one funnel; or gcra.NoReceipt

	// IsPart says that the call is a part of a larger call, which other parts may limit: its tokens
	// and its slots may have to be given back.
	IsPart bool

	// Renews says that the call renews slots: their holder cannot wait until a Redis that failed is
	// asked again.
	Renews bool

	// Settles says that the call charges or gives back the difference between the estimate of an
	// earlier call and what it used. No policy decides such a call if Redis fails.
	Settles bool

	// Undoes says that the call gives back what nobody got. It is sent once, at once, so neither an
	// open breaker nor the bound of calls without a caller may keep it back.
	Undoes bool

	// Failure, if not nil, is why Redis does not decide the call, as an earlier call found out: the
	// policy decides, and Redis is not asked.
	Failure error
}

// An AskedRow asks for tokens of a funnel or a quota, or for a slot.
type AskedRow struct {
	Key   string // in Redis
	Kind  call.Kind
	Words *Words // nil for a quota

	Quantity int          // of tokens; slots have none
	Tokens   gcra.Request // the checked quantity; for a funnel

	Slot   slots.Request // checked; for slots
	Holder string        // for slots
	TTL    time.Duration // of the slot

	// HeldFor is how long the holder has had the slot that it gives back. It is 0 if the holder
	// never learned that it had the slot.
	HeldFor time.Duration

	Quota QuotaLimit // checked; for a quota

	// Shard is the shard of a ring that counts what the call renews or gives back. It is nil if the
	// call goes to the shard that has the key now, which may be another one if the shards have
	// changed.
	Shard any

	// IsLocal says that this process, not Redis, granted what the call renews, corrects or gives
	// back. This process then decides the row.
	IsLocal bool
}

// A QuotaLimit allows Limit tokens in each period of a calendar, which may be of windows.
type QuotaLimit struct {
	Limit    int
	Calendar calendar.Calendar
	Of       any // the limit, as the caller of the Limiter wrote it: see Words
}

// EndAt returns the end of the period that runs at an instant, in nanoseconds since the Unix epoch.
// For a window it is the end if the window begins at that instant.
func (q *QuotaLimit) EndAt(at time.Time) int64 {
	_, end := q.Calendar.Period(at)
	return end.UnixNano()
}

// HasEnded reports whether the row is for a quota whose only period has ended at an instant.
func (r *AskedRow) HasEnded(at time.Time) bool {
	return r.Kind == call.Quota && r.Quota.EndAt(at) <= at.UnixNano()
}

// NeverFits reports whether the row asks for more than its funnel or its quota can ever hold.
func (r *AskedRow) NeverFits() bool {
	switch r.Kind {
	case call.Slots:
		return false
	case call.Quota:
		return r.Quantity > r.Quota.Limit
	}
	return int64(r.Quantity) > r.Words.Rate.Capacity()
}

// Words are the second to fourth word of a row, in the form that go-redis takes. Converting a value
// to any allocates memory, so a Limiter keeps the words of its rates. The words of a quota change
// with its period, and are not kept.
type Words struct {
	Limit, Count, Period any
	Tolerance, Interval  any       // in nanoseconds; for a funnel
	Rate                 gcra.Rate // for a funnel

	// Of is the limit or the slots that the words stand for, as the caller of the Limiter wrote
	// them. Hooks show it if a call gives back what its caller never got.
	Of any
}

// Accounts reports whether the call accounts for tokens: it charges tokens, or gives tokens back.
func (c *Call) Accounts() bool { return c.Operation == call.Charge || c.Operation == call.Refund }

// IsRepeatable reports whether the call may be sent again if its answer was lost. Most calls that
// are executed twice limit too early, never too late. But a second refund gives back other callers'
// tokens, and if a part is executed twice, nobody gives back the tokens of the first time.
func (c *Call) IsRepeatable() bool {
	changes := c.Operation == call.Refund || c.IsPart && c.Operation == call.Reserve
	return !changes || !slices.ContainsFunc(c.Rows, func(row AskedRow) bool { return row.Kind != call.Slots })
}

// EndsSlot reports whether the call gives slots back. Such a call may be sent any number of times.
func (c *Call) EndsSlot() bool { return c.Operation == call.Refund && c.Rows[0].Kind == call.Slots }

// HasPolicy reports whether a policy decides the call if Redis fails. No policy decides a call that
// renews, corrects or gives back what an earlier call took: only the server or the process that has
// counted the earlier call can do that.
func (c *Call) HasPolicy() bool { return c.Operation != call.Refund && !c.Renews && !c.Settles }

// MayBeUndone reports whether the call takes something that is given back if its caller has not
// waited for the answer. Charged tokens are not given back, because they have been used. Nor is a
// reservation for later: a refund would not move forward the callers who reserved behind it.
func (c *Call) MayBeUndone() bool {
	takes := c.Operation == call.Reserve || c.Operation == call.Take
	return takes && c.MaxWait == 0 && !c.Renews
}

// Undecided returns the rows for package call to decide at the instant now, without their state.
// Ahead is the time by which the wall clock is ahead of now: the wall clock tells when a period
// ends.
func (c *Call) Undecided(now int64, ahead time.Duration) []call.Row {
	rows := make([]call.Row, len(c.Rows))
	for i := range rows {
		row, asked := &rows[i], &c.Rows[i]
		row.Kind = asked.Kind
		switch row.Kind {
		case call.Slots:
			row.Slots.Request = asked.Slot
		case call.Quota:
			row.Quota.Request = asked.Quota.request(int64(asked.Quantity), now, ahead)
		default:
			row.Funnel.Request = asked.Tokens
		}
	}
	return rows
}

// request returns the checked request for a quantity. Ahead is as for Undecided.
func (q *QuotaLimit) request(quantity, now int64, ahead time.Duration) (request quota.Request) {
	lasts := q.Calendar.Lasts()
	if lasts > 0 {
		request, _ = quota.NewWindowRequest(int64(q.Limit), int64(lasts), quantity)
		return request
	}
	until := q.EndAt(time.Unix(0, now+int64(ahead))) - int64(ahead)
	request, _ = quota.NewRequest(int64(q.Limit), until, quantity)
	return request
}

// WrapRow returns an error that names the key of a row.
func (c *Call) WrapRow(row int, err error) error {
	return fmt.Errorf("limiter: key %q: %w", c.Rows[row].Key, err)
}

// Wrap returns an error that names the keys of the call.
func (c *Call) Wrap(err error) error {
	if len(c.Rows) == 1 {
		return c.WrapRow(0, err)
	}
	keys := make([]string, len(c.Rows))
	for i := range keys {
		keys[i] = c.Rows[i].Key
	}
	return fmt.Errorf("limiter: keys %q: %w", keys, err)
}

// Seconds returns a time as the commands take it: exact, and without a fraction if possible.
func Seconds(d time.Duration) string {
	seconds, nanoseconds := d/time.Second, d%time.Second
	if nanoseconds == 0 {
		return strconv.Itoa(int(seconds))
	}
	return fmt.Sprintf("%d.%09d", seconds, nanoseconds)
}
