// Each operation on a quota, as a table: what is used, what is asked, and what is decided and stored
// then. Windows, whose period begins with a call, are in window_test.go; what follows for a series of
// calls is in properties_test.go.

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

	// now is an instant in 2027, in nanoseconds, and nowMS the same in milliseconds, as expiries are.
	nowMS = int64(1_800_000_000_000)
	now   = nowMS * millisecond

	end  = now + minute // of the period that each row names, unless it says otherwise
	most = math.MaxInt64

	// lastMS is the last whole millisecond that fits 63 bits of nanoseconds; 775,807 ns are left then.
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

	want       decision.Decision // the test adds Asks, and the Limit: it is that of the request
	receipt    int64             // the end of the period that counted the call
	newState   quota.State
	taken      int64 // by Take
	err        error // there is no decision then
	isOver     bool  // the key has expired: it counts as no key
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
			if c.isOver {
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

// Reserve is allowed if used + quantity <= limit, or if the quantity is 0.
func TestReserve(t *testing.T) {
	test(t, []call{
		{
			name: "the first call of a period", limit: 10, quantity: 4,
			want:    decision.Decision{Remaining: 6, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "a call on top of what is used", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 5,
			want:    decision.Decision{Remaining: 1, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 9, Expiry: in(60_000)},
		}, {
			name: "a call that uses the rest", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 6,
			want:    decision.Decision{Remaining: 0, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 10, Expiry: in(60_000)},
		}, {
			name: "one more than the rest", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 7,
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "the limit, once the period has ended", state: quota.State{Used: 1, Expiry: in(60_000)}, limit: 10,
			quantity: 10, want: decision.Decision{Limited: true, Remaining: 9, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 1, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "more than the limit never fits", state: quota.State{Used: 1, Expiry: in(60_000)}, limit: 10,
			quantity: 11, want: decision.Decision{Limited: true, Remaining: 9, Wait: decision.Never, ResetAfter: minute},
			newState: quota.State{Used: 1, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "more than the limit, and nothing is used", limit: 10, quantity: 11, isNoChange: true,
			want: decision.Decision{Limited: true, Remaining: 10, Wait: decision.Never},
		}, {
			name: "a limit of 0", limit: 0, quantity: 1, isNoChange: true,
			want: decision.Decision{Limited: true, Wait: decision.Never},
		},

		{
			name: "nothing, of nothing", limit: 0, quantity: 0, want: decision.Decision{}, isNoChange: true,
		}, {
			name: "nothing, and a sum of 0 is no sum", state: quota.State{Used: 0, Expiry: in(60_000)}, limit: 10,
			quantity: 0, want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "nothing, and all is used", state: quota.State{Used: 10, Expiry: in(60_000)}, limit: 10, quantity: 0,
			want:     decision.Decision{ResetAfter: minute},
			newState: quota.State{Used: 10, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "nothing, and more is used: by charges, or by callers with a larger limit", limit: 10, quantity: 0,
			state: quota.State{Used: 12, Expiry: in(60_000)}, want: decision.Decision{ResetAfter: minute},
			newState: quota.State{Used: 12, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "one, and more is used", state: quota.State{Used: 12, Expiry: in(60_000)}, limit: 10, quantity: 1,
			want:     decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 12, Expiry: in(60_000)}, isNoChange: true,
		},
	}, (*quota.Quota).Reserve)
}

// The period ends at until, or when the key expires if that is earlier. A key that expires later is
// cut, whatever the decision.
func TestReservePeriods(t *testing.T) {
	test(t, []call{
		{
			name: "a caller that asks for the next period is counted in the one that runs", limit: 10, quantity: 1,
			state: quota.State{Used: 4, Expiry: in(30_000)}, want: decision.Decision{Remaining: 5, ResetAfter: minute / 2},
			receipt: now + minute/2, newState: quota.State{Used: 5, Expiry: in(30_000)},
		}, {
			name: "and waits until that one ends", limit: 10, quantity: 7, isNoChange: true,
			state:    quota.State{Used: 4, Expiry: in(30_000)},
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: minute / 2, ResetAfter: minute / 2},
			newState: quota.State{Used: 4, Expiry: in(30_000)},
		}, {
			name: "a key that expires later is cut", state: quota.State{Used: 4, Expiry: in(90_000)}, limit: 10,
			quantity: 1, want: decision.Decision{Remaining: 5, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 5, Expiry: in(60_000)},
		}, {
			name: "even by a limited call", state: quota.State{Used: 4, Expiry: in(90_000)}, limit: 10, quantity: 7,
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "and by a call for nothing", state: quota.State{Used: 4, Expiry: in(60_001)}, limit: 10, quantity: 0,
			want:     decision.Decision{Remaining: 6, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "a key that does not expire gets an end", state: quota.State{Used: 4}, limit: 10, quantity: 0,
			want:     decision.Decision{Remaining: 6, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "so does one whose expiry is -1", state: quota.State{Used: 4, Expiry: -1}, limit: 10, quantity: 7,
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "a key that has expired counts as none", state: quota.State{Used: 9, Expiry: in(0)}, isOver: true,
			limit: 10, quantity: 4, want: decision.Decision{Remaining: 6, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "and a call for nothing has nothing to store", state: quota.State{Used: 9, Expiry: in(0)}, isOver: true,
			limit: 10, quantity: 0, want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "a key in its last millisecond counts", state: quota.State{Used: 9, Expiry: in(1)}, limit: 10,
			quantity: 4, isNoChange: true,
			want:     decision.Decision{Limited: true, Remaining: 1, Wait: millisecond, ResetAfter: millisecond},
			newState: quota.State{Used: 9, Expiry: in(1)},
		}, {
			name: "an until between two milliseconds", limit: 10, quantity: 4, until: end + 1,
			want:    decision.Decision{Remaining: 6, ResetAfter: minute + 1},
			receipt: end + 1, newState: quota.State{Used: 4, Expiry: in(60_001)},
		}, {
			name: "and again, although the key expires a little later", limit: 10, quantity: 0, until: end + 1,
			state: quota.State{Used: 4, Expiry: in(60_001)}, want: decision.Decision{Remaining: 6, ResetAfter: minute + 1},
			newState: quota.State{Used: 4, Expiry: in(60_001)}, isNoChange: true,
		}, {
			name: "the last nanosecond of a period", limit: 10, quantity: 4, until: now + 1,
			want:    decision.Decision{Remaining: 6, ResetAfter: 1},
			receipt: now + 1, newState: quota.State{Used: 4, Expiry: in(1)},
		}, {
			name: "a period that has ended", limit: 10, quantity: 4, until: now, err: quota.ErrEnded,
		}, {
			name: "a period that ended long ago, of a call for nothing", limit: 10, quantity: 0, until: 1, err: quota.ErrEnded,
		},
	}, (*quota.Quota).Reserve)
}

// At the ends of 63 bits answers are exact.
func TestReserveAtTheEdges(t *testing.T) {
	test(t, []call{
		{
			name: "an instant before 1970 counts as 0", now: -second, until: 1, limit: 1, quantity: 1,
			want: decision.Decision{ResetAfter: 1}, receipt: 1, newState: quota.State{Used: 1, Expiry: 1},
		}, {
			name: "the largest sum", state: quota.State{Used: most - 1, Expiry: in(60_000)}, limit: most, quantity: 1,
			want:    decision.Decision{ResetAfter: minute},
			receipt: end, newState: quota.State{Used: most, Expiry: in(60_000)},
		}, {
			name: "a larger sum does not wrap around", state: quota.State{Used: most, Expiry: in(60_000)}, limit: most,
			quantity: most, want: decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: most, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "the last until, rounded up by 224,193 ns", until: most, limit: 1, quantity: 1,
			want:    decision.Decision{ResetAfter: most - now},
			receipt: most, newState: quota.State{Used: 1, Expiry: lastMS + 1},
		}, {
			name: "the last expiry that fits", until: most, state: quota.State{Used: 1, Expiry: lastMS}, limit: 2, quantity: 1,
			want:    decision.Decision{ResetAfter: lastMS*millisecond - now},
			receipt: lastMS * millisecond, newState: quota.State{Used: 2, Expiry: lastMS},
		}, {
			name: "an expiry later than the last until", until: most, state: quota.State{Used: 1, Expiry: most}, limit: 2,
			quantity: 1, want: decision.Decision{ResetAfter: most - now},
			receipt: most, newState: quota.State{Used: 2, Expiry: lastMS + 1},
		},
	}, (*quota.Quota).Reserve)
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
			name: "a key that has expired counts as none", state: quota.State{Used: 9, Expiry: in(0)}, isOver: true,
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

func refund(q *quota.Quota, now int64) error {
	q.Refund(now)
	return nil
}

// Refund takes the quantity from what is used, down to 0. It cuts no period.
func TestRefund(t *testing.T) {
	test(t, []call{
		{
			name: "a part of what is used", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 3,
			want: decision.Decision{Remaining: 9, ResetAfter: minute}, newState: quota.State{Used: 1, Expiry: in(60_000)},
		}, {
			name: "all that is used", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 4,
			want: decision.Decision{Remaining: 10},
		}, {
			name: "more than is used", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: most,
			want: decision.Decision{Remaining: 10},
		}, {
			name: "nothing", state: quota.State{Used: 4, Expiry: in(60_000)}, limit: 10, quantity: 0,
			want:     decision.Decision{Remaining: 6, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)}, isNoChange: true,
		}, {
			name: "to a key that does not exist", limit: 10, quantity: 3,
			want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "more is still used than may be", state: quota.State{Used: 14, Expiry: in(60_000)}, limit: 10, quantity: 3,
			want: decision.Decision{Remaining: 0, ResetAfter: minute}, newState: quota.State{Used: 11, Expiry: in(60_000)},
		},

		{
			name: "the key expires later: that stays", state: quota.State{Used: 4, Expiry: in(90_000)}, limit: 10,
			quantity: 3, want: decision.Decision{Remaining: 9, ResetAfter: minute},
			newState: quota.State{Used: 1, Expiry: in(90_000)},
		}, {
			name: "the key expires earlier", state: quota.State{Used: 4, Expiry: in(30_000)}, limit: 10,
			quantity: 3, want: decision.Decision{Remaining: 9, ResetAfter: minute / 2},
			newState: quota.State{Used: 1, Expiry: in(30_000)},
		}, {
			name: "the key expires in the first millisecond", now: -second, until: second,
			state: quota.State{Used: 4, Expiry: 1}, limit: 10, quantity: 3,
			want: decision.Decision{Remaining: 9, ResetAfter: millisecond}, newState: quota.State{Used: 1, Expiry: 1},
		}, {
			name: "a key that does not expire gets an end when it is written", state: quota.State{Used: 4}, limit: 10,
			quantity: 3, want: decision.Decision{Remaining: 9, ResetAfter: minute},
			newState: quota.State{Used: 1, Expiry: in(60_000)},
		}, {
			name: "and none for a refund of nothing", state: quota.State{Used: 4}, limit: 10, quantity: 0,
			want: decision.Decision{Remaining: 6, ResetAfter: minute}, newState: quota.State{Used: 4}, isNoChange: true,
		}, {
			name: "a key that has expired counts as none", state: quota.State{Used: 9, Expiry: in(0)}, isOver: true,
			limit: 10, quantity: 3, want: decision.Decision{Remaining: 10}, isNoChange: true,
		},
	}, refund)
}

// A refund for a period that has ended does nothing. It describes the key as it is.
func TestRefundAfterThePeriod(t *testing.T) {
	test(t, []call{
		{
			name: "the next period runs", state: quota.State{Used: 4, Expiry: in(30_000)}, limit: 10, quantity: 3,
			until: now, want: decision.Decision{Remaining: 6, ResetAfter: minute / 2},
			newState: quota.State{Used: 4, Expiry: in(30_000)}, isNoChange: true,
		}, {
			name: "no period runs", limit: 10, quantity: 3, until: now,
			want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "the key has expired", state: quota.State{Used: 4, Expiry: in(0)}, isOver: true, limit: 10, quantity: 3,
			until: now, want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "the key does not expire", state: quota.State{Used: 4}, limit: 10, quantity: 3, until: now,
			want: decision.Decision{Remaining: 6}, newState: quota.State{Used: 4}, isNoChange: true,
		}, {
			name: "not even in the first millisecond of 1970", now: 1, until: 1, state: quota.State{Used: 4}, limit: 10,
			quantity: 3, want: decision.Decision{Remaining: 6}, newState: quota.State{Used: 4}, isNoChange: true,
		}, {
			name: "its expiry is the least of all", state: quota.State{Used: 4, Expiry: math.MinInt64}, limit: 10,
			quantity: 3, until: now, want: decision.Decision{Remaining: 6},
			newState: quota.State{Used: 4, Expiry: math.MinInt64}, isNoChange: true,
		}, {
			name: "it expires in the first millisecond of 1970", now: 1, until: 1, state: quota.State{Used: 4, Expiry: 1},
			limit: 10, quantity: 3, want: decision.Decision{Remaining: 6, ResetAfter: millisecond - 1},
			newState: quota.State{Used: 4, Expiry: 1}, isNoChange: true,
		}, {
			name: "its expiry is -1", state: quota.State{Used: 4, Expiry: -1}, limit: 10, quantity: 3, until: now,
			want: decision.Decision{Remaining: 6}, newState: quota.State{Used: 4, Expiry: -1}, isNoChange: true,
		}, {
			name: "the time until it expires counts nanoseconds", now: now + 1, until: now,
			state: quota.State{Used: 4, Expiry: in(1)}, limit: 10, quantity: 3,
			want: decision.Decision{Remaining: 6, ResetAfter: millisecond - 1}, newState: quota.State{Used: 4, Expiry: in(1)},
			isNoChange: true,
		}, {
			name: "up to 2^63-1 of them", now: 1, until: 1, state: quota.State{Used: 4, Expiry: lastMS}, limit: 10, quantity: 3,
			want:     decision.Decision{Remaining: 6, ResetAfter: lastMS*millisecond - 1},
			newState: quota.State{Used: 4, Expiry: lastMS}, isNoChange: true,
		}, {
			name: "a nanosecond less than 2^63 is exact", now: 224_194, until: 1, limit: 10, quantity: 3,
			state: quota.State{Used: 4, Expiry: lastMS + 1}, want: decision.Decision{Remaining: 6, ResetAfter: most - 1},
			newState: quota.State{Used: 4, Expiry: lastMS + 1}, isNoChange: true,
		}, {
			name: "more of them are as far as can be told", now: 1, until: 1, state: quota.State{Used: 4, Expiry: lastMS + 1},
			limit: 10, quantity: 3, want: decision.Decision{Remaining: 6, ResetAfter: most},
			newState: quota.State{Used: 4, Expiry: lastMS + 1}, isNoChange: true,
		}, {
			name: "so is an expiry whose nanoseconds do not fit 64 bits", now: 1, until: 1,
			state: quota.State{Used: 4, Expiry: 18_446_744_073_710}, limit: 10, quantity: 3,
			want:     decision.Decision{Remaining: 6, ResetAfter: most},
			newState: quota.State{Used: 4, Expiry: 18_446_744_073_710}, isNoChange: true,
		}, {
			name: "and the largest", now: 1, until: 1, state: quota.State{Used: 4, Expiry: most}, limit: 10, quantity: 3,
			want:     decision.Decision{Remaining: 6, ResetAfter: most},
			newState: quota.State{Used: 4, Expiry: most}, isNoChange: true,
		},
	}, refund)
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
			name: "a key that has expired counts as none", state: quota.State{Used: 9, Expiry: in(0)}, isOver: true,
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
