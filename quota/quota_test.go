// Each operation on a quota, as a table: what is used, what is asked, and what is decided and
// stored then. Reserve is in reserve_test.go, and Refund in refund_test.go. Windows, whose period
// begins with a call, are in window_test.go; what follows for a series of calls is in
// properties_test.go.

package quota_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/decision"
	"funnel/quota"
)

const (
	millisecond = int64(1e6)
	second      = 1000 * millisecond
	minute      = 60 * second

	// now is an instant in 2027, in nanoseconds, and nowMS the same in milliseconds, as expiries
	// are.
	nowMS = int64(1_800_000_000_000)
	now   = nowMS * millisecond

	end  = now + minute // of the period that each row names, unless it says otherwise
	most = math.MaxInt64

	// lastMS is the last whole millisecond that fits 63 bits of nanoseconds; 775,807 ns are left
	// then.
	lastMS = most / millisecond
)

// in returns an expiry in so many milliseconds from now.
func in(milliseconds int64) int64 { return nowMS + milliseconds }

// A limit and a quantity are 0 or more, and an until is a nanosecond or more.
func TestNewRequest(t *testing.T) {
	for _, c := range []struct {
		name                   string
		limit, until, quantity int64
		err                    error
	}{
		{name: "the smallest of each", limit: 0, until: 1, quantity: 0},
		{name: "the largest of each", limit: most, until: most, quantity: most},
		{name: "a limit below 0", limit: -1, until: 1, quantity: 0, err: quota.ErrLimit},
		{name: "an until of 0", limit: 0, until: 0, quantity: 0, err: quota.ErrUntil},
		{name: "a quantity below 0", limit: 0, until: 1, quantity: -1, err: quota.ErrQuantity},
		{name: "the limit is checked first", limit: -1, until: 0, quantity: -1, err: quota.ErrLimit},
		{name: "and then the until", limit: 0, until: 0, quantity: -1, err: quota.ErrUntil},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, err := quota.NewRequest(c.limit, c.until, c.quantity)
			requireRequest(t, c.quantity, c.err, request, err)
		})
	}
}

func requireRequest(t *testing.T, quantity int64, wantErr error, request quota.Request, err error) {
	t.Helper()
	require.Equal(t, wantErr, err)
	if err != nil {
		require.Zero(t, request, "the request beside an error")
		return
	}
	require.Equal(t, quantity, request.Quantity())
}

// A period has ended when the clock reaches its end.
func TestEnded(t *testing.T) {
	request, err := quota.NewRequest(10, end, 1)
	require.NoError(t, err)
	require.False(t, request.Ended(end-1))
	require.True(t, request.Ended(end))
	require.True(t, request.Ended(end+1))
}

// A key has expired when the clock, in whole milliseconds, reaches its expiry.
func TestExpired(t *testing.T) {
	for _, c := range []struct {
		name        string
		expiry, now int64
		want        bool
	}{
		{name: "a nanosecond before", expiry: in(0), now: now - 1, want: false},
		{name: "in that very nanosecond", expiry: in(0), now: now, want: true},
		{name: "long after", expiry: in(0), now: now + minute, want: true},
		{name: "the first millisecond", expiry: 1, now: 999_999, want: false},
		{name: "after the first millisecond", expiry: 1, now: 1_000_000, want: true},
		{name: "a key that does not expire", expiry: 0, now: most, want: false},
		{name: "-1, which servers say of such a key", expiry: -1, now: most, want: false},
		{name: "later than 63 bits of nanoseconds", expiry: lastMS + 1, now: most, want: false},
	} {
		require.Equal(t, c.want, quota.State{Used: 1, Expiry: c.expiry}.Expired(c.now), c.name)
	}
}

// A call is one row of a table. A row without an instant is about the instant now, and a row that
// says neither until nor lasts is about the period that ends a minute later.
type call struct {
	name            string
	now             int64
	state           quota.State
	limit, quantity int64
	until           int64 // when the period ends
	lasts           int64 // how long a window lasts

	want       decision.Decision // the test adds Asks, and the Limit: it is the request's
	receipt    int64             // the end of the period that counted the call
	newState   quota.State
	taken      int64 // by Take
	err        error // there is no decision then
	hasExpired bool  // the key has expired: it counts as no key
	isNoChange bool  // nothing has to be stored
}

func (c *call) request(t *testing.T) quota.Request {
	if c.lasts > 0 {
		request, err := quota.NewWindowRequest(c.limit, c.lasts, c.quantity)
		require.NoError(t, err)
		return request
	}
	if c.until == 0 {
		c.until = end
	}
	request, err := quota.NewRequest(c.limit, c.until, c.quantity)
	require.NoError(t, err)
	return request
}

// test applies an operation to the quota of each row, and compares whatever it sets. Of an earlier
// decision nothing stays.
func test(t *testing.T, rows []call, apply func(q *quota.Quota, now int64) error) {
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			if c.now == 0 {
				c.now = now
			}
			q := quota.Quota{
				Request:  c.request(t),
				State:    c.state,
				Decision: decision.Decision{Limited: true, Limit: 1, Remaining: 1, Wait: 1, ResetAfter: 1},
				Until:    1,
				NewState: quota.State{Used: 1, Expiry: 1},
			}
			require.Equal(t, c.err, apply(&q, c.now))
			if c.err != nil {
				return
			}
			if c.hasExpired {
				c.state = quota.State{}
			}
			c.want.Asks = c.quantity > 0
			c.want.Limit = c.limit
			want := quota.Quota{
				Request:  q.Request,
				State:    c.state,
				Decision: c.want,
				Until:    c.receipt,
				NewState: c.newState,
				Taken:    c.taken,
			}
			require.Equal(t, want, q)
			require.Equal(t, !c.isNoChange, q.Changes(), "Changes")
		})
	}
}

// Take uses min(quantity, max(0, limit - used)). It is limited if that is less than the quantity.
func TestTake(t *testing.T) {
	test(t, []call{
		{
			name: "all fits", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 6, taken: 6,
			want:    decision.Decision{Remaining: 0, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 10, Expiry: in(60_000)},
		}, {
			name: "a part fits", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 7, taken: 6,
			want:    decision.Decision{Limited: true, Remaining: 0, Wait: minute, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 10, Expiry: in(60_000)},
		}, {
			name: "more than the limit takes the limit", limit: 10, quantity: most, taken: 10,
			want:    decision.Decision{Limited: true, Remaining: 0, Wait: minute, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 10, Expiry: in(60_000)},
		}, {
			name: "nothing fits", state: quota.State{Used: 10, Expiry: in(60_000)}, limit: 10, quantity: 1, taken: 0,
			want:     decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 10, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "nothing fits, since more is used", state: quota.State{Used: 12, Expiry: in(60_000)}, limit: 10,
			quantity: 5, taken: 0, want: decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 12, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "a limit of 1", limit: 1, quantity: 2, taken: 1,
			want:    decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 1, Expiry: in(60_000)},
		}, {
			name: "a limit of 0: nothing will ever fit", limit: 0, quantity: 1, taken: 0, isNoChange: true,
			want: decision.Decision{Limited: true, Wait: decision.Never},
		}, {
			name: "nothing is asked", state: quota.State{Used: 12, Expiry: in(60_000)}, limit: 10, quantity: 0, taken: 0,
			want:     decision.Decision{ResetAfter: minute},
			newState: quota.State{Used: 12, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "a key that expires later is cut", state: quota.State{Used: 10, Expiry: in(90_000)}, limit: 10,
			quantity: 1, taken: 0, want: decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 10, Expiry: in(60_000)},
		}, {
			name: "an instant before 1970 counts as 0", now: -second, until: 1, limit: 1, quantity: 2, taken: 1,
			want: decision.Decision{Limited: true, Wait: 1, ResetAfter: 1}, receipt: 1,
			newState: quota.State{Used: 1, Expiry: 1},
		}, {
			name: "a period that has ended", limit: 10, quantity: 4, until: now, err: quota.ErrEnded,
		},
	}, (*quota.Quota).Take)
}

// Peek says what Reserve would, and uses nothing.
func TestPeek(t *testing.T) {
	test(t, []call{
		{
			name: "what fits still remains", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 6,
			want:     decision.Decision{Remaining: 6, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "nothing is used", limit: 10, quantity: 6, want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "what does not fit", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 7,
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "what never fits", limit: 10, quantity: 11, isNoChange: true,
			want: decision.Decision{Limited: true, Remaining: 10, Wait: decision.Never},
		}, {
			name: "it cuts no period, and tells the end that the call names", limit: 10, quantity: 7, isNoChange: true,
			state:    quota.State{Used: 4, Expiry: in(90_000)},
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(90_000)},
		}, {
			name: "it gives no key an end", state: quota.State{Used: 4}, limit: 10, quantity: 6, isNoChange: true,
			want: decision.Decision{Remaining: 6, ResetAfter: minute}, newState: quota.State{Used: 4},
		}, {
			name: "a key that has expired counts as none", state: quota.State{Used: 9, Expiry: in(0)}, hasExpired: true,
			limit: 10, quantity: 4, want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "an instant before 1970 counts as 0", now: -second, until: 1, state: quota.State{Used: 1, Expiry: 1},
			limit: 1, quantity: 1, want: decision.Decision{Limited: true, Wait: 1, ResetAfter: 1},
			newState: quota.State{Used: 1, Expiry: 1}, isNoChange: true,
		}, {
			name: "a period that has ended", limit: 10, quantity: 4, until: now, err: quota.ErrEnded,
		},
	}, (*quota.Quota).Peek)
}

// Charge adds the quantity to what is used, whatever the limit. It is limited if that is above the
// limit then.
func TestCharge(t *testing.T) {
	test(t, []call{
		{
			name: "up to the limit", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 6,
			want:    decision.Decision{Remaining: 0, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 10, Expiry: in(60_000)},
		}, {
			name: "one more than the limit", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 7,
			want:    decision.Decision{Limited: true, Remaining: 0, Wait: minute, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 11, Expiry: in(60_000)},
		}, {
			name: "a limit of 0", limit: 0, quantity: 1,
			want:    decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 1, Expiry: in(60_000)},
		}, {
			name: "one, where more is used already", state: quota.State{Used: 12, Expiry: in(60_000)}, limit: 10, quantity: 1,
			want:    decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 13, Expiry: in(60_000)},
		}, {
			name: "nothing is never limited", state: quota.State{Used: 12, Expiry: in(60_000)}, limit: 10, quantity: 0,
			want:     decision.Decision{ResetAfter: minute},
			newState: quota.State{Used: 12, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "a key that expires later is cut", state: quota.State{Used: 4, Expiry: in(90_000)}, limit: 10,
			quantity: 0, want: decision.Decision{Remaining: 6, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "the largest sum", state: quota.State{Used: most - 1, Expiry: in(60_000)}, limit: most, quantity: 1,
			want:    decision.Decision{ResetAfter: minute},
			receipt: end, newState: quota.State{Used: most, Expiry: in(60_000)},
		}, {
			name: "a larger sum", state: quota.State{Used: most, Expiry: in(60_000)}, limit: 10, quantity: 1, err: quota.ErrUsed,
		}, {
			name: "a sum of 2^64 - 2 does not wrap around", state: quota.State{Used: most, Expiry: in(60_000)}, limit: 10,
			quantity: most, err: quota.ErrUsed,
		}, {
			name: "an instant before 1970 counts as 0", now: -second, until: 1, limit: 0, quantity: 1,
			want: decision.Decision{Limited: true, Wait: 1, ResetAfter: 1}, receipt: 1,
			newState: quota.State{Used: 1, Expiry: 1},
		}, {
			name: "a period that has ended: the charge is not lost in silence", limit: 10, quantity: 4, until: now,
			err: quota.ErrEnded,
		},
	}, (*quota.Quota).Charge)
}

// Undo leaves a Reserve allowed, and gives back what it used. A cut stays.
func TestUndo(t *testing.T) {
	test(t, []call{
		{
			name: "what fits is not used", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 6,
			want:     decision.Decision{Remaining: 6, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "a period that would have begun does not", limit: 10, quantity: 6,
			want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "a key that expires later is cut", state: quota.State{Used: 4, Expiry: in(90_000)}, limit: 10, quantity: 6,
			want: decision.Decision{Remaining: 6, ResetAfter: minute}, newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "a key that has expired counts as none", state: quota.State{Used: 9, Expiry: in(0)}, hasExpired: true,
			limit: 10, quantity: 4, want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "an instant before 1970 counts as 0", now: -second, until: 2, state: quota.State{Used: 1, Expiry: 1},
			limit: 2, quantity: 1, want: decision.Decision{Remaining: 1, ResetAfter: 2},
			newState: quota.State{Used: 1, Expiry: 1}, isNoChange: true,
		},
	}, func(q *quota.Quota, now int64) error {
		err := q.Reserve(now)
		q.Undo(now)
		return err
	})
}
