// Each operation on a funnel, as a table: what is stored, what is asked, and what is decided and
// stored then. What follows for a series of calls is in properties_test.go.

package gcra_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/decision"
)

const (
	second = int64(1e9)
	half   = second / 2

	// now is an instant in 2027, far from 0 and far from the year 2262.
	now = 1_800_000_000 * second
)

var (
	ten     = rate(10, 1, second) // holds ten tokens, and leaks one a second
	finest  = rate(1, 1, 1)       // holds one token, which leaks within a nanosecond
	slowest = rate(1, 1, most)    // holds one token, which leaks within 292 years
)

// A call is one row of a table. A row without a rate is about the funnel ten, at the instant now.
type call struct {
	name     string
	rate     gcra.Rate
	now      int64
	tat      int64 // as stored
	quantity int64
	maxWait  int64 // of Reserve
	receipt  int64 // of Refund

	want   decision.Decision // the test adds Asks, and the Limit: it is always the capacity
	newTAT int64
	taken  int64 // by Take
	err    error // there is no decision then
}

// test makes the request of each row by ask, applies an operation, and compares whatever that sets.
// Of an earlier decision nothing stays.
func test(
	t *testing.T, rows []call, ask func(gcra.Rate, int64) (gcra.Request, error), apply func(*gcra.Funnel, call) error,
) {
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			if c.rate == (gcra.Rate{}) {
				c.rate, c.now = ten, now
			}
			request, err := ask(c.rate, c.quantity)
			require.NoError(t, err)
			earlier := decision.Decision{Limited: true, Limit: 1, Remaining: 1, Wait: 1, ResetAfter: 1}
			f := gcra.Funnel{Request: request, TAT: c.tat, Decision: earlier, NewTAT: 1}
			require.Equal(t, c.err, apply(&f, c))
			if c.err != nil {
				return
			}
			c.want.Asks = c.quantity > 0
			c.want.Limit = c.rate.Capacity()
			want := gcra.Funnel{Request: request, TAT: c.tat, Decision: c.want, NewTAT: c.newTAT, Taken: c.taken}
			require.Equal(t, want, f)
			require.Equal(t, c.newTAT != c.tat, f.Changes(), "Changes")
		})
	}
}

// Reserve takes all tokens or nothing: they fit if max(now, TAT) + T*n is no later than now + tau +
// max wait.
func TestReserve(t *testing.T) {
	test(t, []call{
		{
			name: "a key that does not exist is an empty funnel", tat: gcra.Empty, quantity: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: now + second,
		}, {
			name: "so is a funnel that has drained long ago", tat: now - 5*second, quantity: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: now + second,
		}, {
			name: "so is a funnel that drains at this instant", tat: now, quantity: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: now + second,
		}, {
			name: "tokens come on top of what has not leaked", tat: now + half, quantity: 2,
			want: decision.Decision{Remaining: 7, ResetAfter: 2*second + half}, newTAT: now + 2*second + half,
		}, {
			name: "a part of a token does not remain", tat: now + 2*second + half, quantity: 7,
			want: decision.Decision{Remaining: 0, ResetAfter: 9*second + half}, newTAT: now + 9*second + half,
		}, {
			name: "the last tokens fill the funnel to the nanosecond", tat: now + 7*second, quantity: 3,
			want: decision.Decision{Remaining: 0, ResetAfter: 10 * second}, newTAT: now + 10*second,
		}, {
			name: "a nanosecond too early is limited, and changes nothing", tat: now + 7*second + 1, quantity: 3,
			want: decision.Decision{Limited: true, Remaining: 2, Wait: 1, ResetAfter: 7*second + 1}, newTAT: now + 7*second + 1,
		}, {
			name: "a full funnel has room for a token after T", tat: now + 10*second, quantity: 1,
			want: decision.Decision{Limited: true, Wait: second, ResetAfter: 10 * second}, newTAT: now + 10*second,
		}, {
			name: "the whole capacity fits an empty funnel", tat: gcra.Empty, quantity: 10,
			want: decision.Decision{Remaining: 0, ResetAfter: 10 * second}, newTAT: now + 10*second,
		}, {
			name: "more than the capacity never fits", tat: gcra.Empty, quantity: 11,
			want: decision.Decision{Limited: true, Remaining: 10, Wait: decision.Never}, newTAT: gcra.Empty,
		}, {
			name: "even if the caller can wait for ever", tat: now + second, quantity: 11, maxWait: most,
			want: decision.Decision{Limited: true, Remaining: 9, Wait: decision.Never, ResetAfter: second}, newTAT: now + second,
		},
	}, gcra.Rate.Request, reserve)
}

// A caller that can wait takes tokens ahead of time, and is told when it is its turn. A caller that
// cannot wait long enough is told how long to wait before the same call is allowed.
func TestReserveAhead(t *testing.T) {
	test(t, []call{
		{
			name: "tokens that fit now need no wait", tat: now + 7*second, quantity: 3, maxWait: second,
			want: decision.Decision{Remaining: 0, ResetAfter: 10 * second}, newTAT: now + 10*second,
		}, {
			name: "a wait of exactly the max wait", tat: now + 9*second, quantity: 3, maxWait: 2 * second,
			want: decision.Decision{Wait: 2 * second, Remaining: 0, ResetAfter: 12 * second}, newTAT: now + 12*second,
		}, {
			name: "a wait of a nanosecond more is too long", tat: now + 9*second, quantity: 3, maxWait: 2*second - 1,
			want: decision.Decision{Limited: true, Remaining: 1, Wait: 1, ResetAfter: 9 * second}, newTAT: now + 9*second,
		}, {
			name: "limited says when the max wait will do", tat: now + 12*second, quantity: 1, maxWait: second,
			want: decision.Decision{Limited: true, Wait: 2 * second, ResetAfter: 12 * second}, newTAT: now + 12*second,
		}, {
			name: "behind callers that wait already", tat: now + 12*second, quantity: 1, maxWait: most,
			want: decision.Decision{Wait: 3 * second, ResetAfter: 13 * second}, newTAT: now + 13*second,
		}, {
			name: "a max wait below 0 counts as 0", tat: now + 10*second, quantity: 1, maxWait: -second,
			want: decision.Decision{Limited: true, Wait: second, ResetAfter: 10 * second}, newTAT: now + 10*second,
		},
	}, gcra.Rate.Request, reserve)
}

// A quantity of 0 takes nothing. It is limited only by a funnel that is overfull.
func TestReserveNothing(t *testing.T) {
	test(t, []call{
		{
			name: "a key that does not exist stays so", tat: gcra.Empty, quantity: 0,
			want: decision.Decision{Remaining: 10}, newTAT: gcra.Empty,
		}, {
			name: "a funnel that has drained keeps its TAT", tat: now - second, quantity: 0,
			want: decision.Decision{Remaining: 10}, newTAT: now - second,
		}, {
			name: "a full funnel", tat: now + 10*second, quantity: 0,
			want: decision.Decision{Remaining: 0, ResetAfter: 10 * second}, newTAT: now + 10*second,
		}, {
			name: "an overfull funnel", tat: now + 12*second, quantity: 0,
			want: decision.Decision{Limited: true, Wait: 2 * second, ResetAfter: 12 * second}, newTAT: now + 12*second,
		}, {
			name: "an overfull funnel, for a caller that can wait", tat: now + 12*second, quantity: 0, maxWait: 2 * second,
			want: decision.Decision{Wait: 2 * second, ResetAfter: 12 * second}, newTAT: now + 12*second,
		},
	}, gcra.Rate.Request, reserve)
}

// At the ends of 63 bits answers are exact, or ErrTAT.
func TestReserveAtTheEdges(t *testing.T) {
	test(t, []call{
		{
			name: "an instant before 1970 counts as 0", rate: ten, now: -second, tat: gcra.Empty, quantity: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: second,
		}, {
			name: "so does a TAT before 1970", rate: ten, now: 0, tat: -second, quantity: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: second,
		}, {
			name: "one token a nanosecond", rate: finest, now: now, tat: gcra.Empty, quantity: 1,
			want: decision.Decision{Remaining: 0, ResetAfter: 1}, newTAT: now + 1,
		}, {
			name: "one token a nanosecond, in the same nanosecond", rate: finest, now: now, tat: now + 1, quantity: 1,
			want: decision.Decision{Limited: true, Wait: 1, ResetAfter: 1}, newTAT: now + 1,
		}, {
			name: "one token a nanosecond, none asked", rate: finest, now: now, tat: gcra.Empty, quantity: 0,
			want: decision.Decision{Remaining: 1}, newTAT: gcra.Empty,
		}, {
			name: "the last TAT", rate: ten, now: most - 10*second, tat: gcra.Empty, quantity: 10,
			want: decision.Decision{Remaining: 0, ResetAfter: 10 * second}, newTAT: most,
		}, {
			name: "a TAT later than the last", rate: ten, now: most - 10*second + 1, tat: gcra.Empty, quantity: 10,
			err: gcra.ErrTAT,
		}, {
			name: "a limited call stores no TAT, so none is too late", rate: ten, now: most - second, tat: most, quantity: 10,
			want: decision.Decision{Limited: true, Remaining: 9, Wait: second, ResetAfter: second}, newTAT: most,
		}, {
			name: "a sum of 2^64 - 2 does not wrap around", rate: slowest, now: most, tat: most, quantity: 1,
			err: gcra.ErrTAT,
		}, {
			name: "the longest wait", rate: slowest, now: 0, tat: most, quantity: 1,
			want: decision.Decision{Limited: true, Wait: most, ResetAfter: most}, newTAT: most,
		}, {
			name: "a funnel that drains within 292 years", rate: slowest, now: 0, tat: gcra.Empty, quantity: 1,
			want: decision.Decision{Remaining: 0, ResetAfter: most}, newTAT: most,
		},
	}, gcra.Rate.Request, reserve)
}

func reserve(f *gcra.Funnel, c call) error { return f.Reserve(c.now, c.maxWait) }

// Take takes min(n, floor((now + tau - max(now, TAT)) / T)) tokens. It is limited if that is less
// than n, and the wait is then the time until one more token fits.
func TestTake(t *testing.T) {
	test(t, []call{
		{
			name: "all tokens fit", tat: gcra.Empty, quantity: 4, taken: 4,
			want: decision.Decision{Remaining: 6, ResetAfter: 4 * second}, newTAT: now + 4*second,
		}, {
			name: "all tokens just fit", tat: now + 7*second, quantity: 3, taken: 3,
			want: decision.Decision{Remaining: 0, ResetAfter: 10 * second}, newTAT: now + 10*second,
		}, {
			name: "a nanosecond too early: all but one fit", tat: now + 7*second + 1, quantity: 3, taken: 2,
			want: decision.Decision{Limited: true, Remaining: 0, Wait: 1, ResetAfter: 9*second + 1}, newTAT: now + 9*second + 1,
		}, {
			name: "more than the capacity takes the capacity", tat: gcra.Empty, quantity: 20, taken: 10,
			want: decision.Decision{Limited: true, Wait: second, ResetAfter: 10 * second}, newTAT: now + 10*second,
		}, {
			name: "no quantity is too large", tat: now - second, quantity: most, taken: 10,
			want: decision.Decision{Limited: true, Wait: second, ResetAfter: 10 * second}, newTAT: now + 10*second,
		}, {
			name: "half of a token leaks first", tat: now + 9*second + half, quantity: 1, taken: 0,
			want: decision.Decision{Limited: true, Wait: half, ResetAfter: 9*second + half}, newTAT: now + 9*second + half,
		}, {
			name: "an overfull funnel has to leak until one fits", tat: now + 12*second, quantity: 5, taken: 0,
			want: decision.Decision{Limited: true, Wait: 3 * second, ResetAfter: 12 * second}, newTAT: now + 12*second,
		}, {
			name: "nothing of an overfull funnel is not limited", tat: now + 12*second, quantity: 0, taken: 0,
			want: decision.Decision{ResetAfter: 12 * second}, newTAT: now + 12*second,
		}, {
			name: "nothing of a drained funnel keeps its TAT", tat: now - second, quantity: 0, taken: 0,
			want: decision.Decision{Remaining: 10}, newTAT: now - second,
		},

		{
			name: "an instant before 1970 counts as 0", rate: ten, now: -second, tat: -second, quantity: 1, taken: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: second,
		}, {
			name: "one token a nanosecond", rate: finest, now: now, tat: gcra.Empty, quantity: 1, taken: 1,
			want: decision.Decision{Remaining: 0, ResetAfter: 1}, newTAT: now + 1,
		}, {
			name: "one token a nanosecond, in the same nanosecond", rate: finest, now: now, tat: now + 1, quantity: 1,
			want: decision.Decision{Limited: true, Wait: 1, ResetAfter: 1}, newTAT: now + 1,
		}, {
			name: "the last TAT", rate: ten, now: most - 10*second, tat: gcra.Empty, quantity: 10, taken: 10,
			want: decision.Decision{Remaining: 0, ResetAfter: 10 * second}, newTAT: most,
		}, {
			name: "a TAT later than the last", rate: ten, now: most - 10*second + 1, tat: gcra.Empty, quantity: 10,
			err: gcra.ErrTAT,
		}, {
			name: "the longest wait", rate: slowest, now: 0, tat: most, quantity: 1,
			want: decision.Decision{Limited: true, Wait: most, ResetAfter: most}, newTAT: most,
		},
	}, gcra.Rate.RequestUpTo, func(f *gcra.Funnel, c call) error { return f.Take(c.now) })
}

// Peek says what Reserve without a max wait would, and takes nothing.
func TestPeek(t *testing.T) {
	test(t, []call{
		{
			name: "tokens that fit still remain", tat: now + 7*second, quantity: 3,
			want: decision.Decision{Remaining: 3, ResetAfter: 7 * second}, newTAT: now + 7*second,
		}, {
			name: "tokens that do not fit yet", tat: now + 7*second + 1, quantity: 3,
			want: decision.Decision{Limited: true, Remaining: 2, Wait: 1, ResetAfter: 7*second + 1}, newTAT: now + 7*second + 1,
		}, {
			name: "tokens that never fit", tat: now - second, quantity: 11,
			want: decision.Decision{Limited: true, Remaining: 10, Wait: decision.Never}, newTAT: now - second,
		},

		{
			name: "an instant before 1970 counts as 0", rate: ten, now: -second, tat: second, quantity: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: second,
		}, {
			name: "so does a TAT before 1970", rate: ten, now: 0, tat: -second, quantity: 1,
			want: decision.Decision{Remaining: 10}, newTAT: 0,
		}, {
			name: "what Reserve cannot store", rate: ten, now: most - 10*second + 1, tat: gcra.Empty, quantity: 10,
			err: gcra.ErrTAT,
		},
	}, gcra.Rate.Request, func(f *gcra.Funnel, c call) error { return f.Peek(c.now) })
}

// Charge moves the TAT to max(now, TAT) + T*n, whatever the funnel holds. It is limited if the
// funnel is overfull then.
func TestCharge(t *testing.T) {
	test(t, []call{
		{
			name: "tokens that fit", tat: gcra.Empty, quantity: 4,
			want: decision.Decision{Remaining: 6, ResetAfter: 4 * second}, newTAT: now + 4*second,
		}, {
			name: "tokens that fill the funnel", tat: now + 7*second, quantity: 3,
			want: decision.Decision{Remaining: 0, ResetAfter: 10 * second}, newTAT: now + 10*second,
		}, {
			name: "tokens beyond the capacity", tat: now + 7*second, quantity: 5,
			want: decision.Decision{Limited: true, Wait: 2 * second, ResetAfter: 12 * second}, newTAT: now + 12*second,
		}, {
			name: "more than the capacity at once", tat: gcra.Empty, quantity: 11,
			want: decision.Decision{Limited: true, Wait: second, ResetAfter: 11 * second}, newTAT: now + 11*second,
		}, {
			name: "a funnel that has drained is empty", tat: now - 5*second, quantity: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: now + second,
		}, {
			name: "no tokens leave a drained funnel as it is", tat: now - 5*second, quantity: 0,
			want: decision.Decision{Remaining: 10}, newTAT: now - 5*second,
		}, {
			name: "no tokens tell of an overfull funnel", tat: now + 10*second + 1, quantity: 0,
			want: decision.Decision{Limited: true, Wait: 1, ResetAfter: 10*second + 1}, newTAT: now + 10*second + 1,
		},

		{
			name: "an instant before 1970 counts as 0", rate: ten, now: -second, tat: -second, quantity: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: second,
		}, {
			name: "a token of a nanosecond", rate: finest, now: now, tat: gcra.Empty, quantity: 1,
			want: decision.Decision{Remaining: 0, ResetAfter: 1}, newTAT: now + 1,
		}, {
			name: "the last TAT", rate: ten, now: now, tat: most - second, quantity: 1,
			want: decision.Decision{Limited: true, Wait: most - now - 10*second, ResetAfter: most - now}, newTAT: most,
		}, {
			name: "a TAT later than the last", rate: ten, now: now, tat: most - second + 1, quantity: 1, err: gcra.ErrTAT,
		}, {
			name: "a sum of 2^64 - 2 does not wrap around", rate: slowest, now: most, tat: most, quantity: 1,
			err: gcra.ErrTAT,
		}, {
			name: "a funnel that drained 292 years ago is not overfull", rate: slowest, now: most, tat: 0, quantity: 0,
			want: decision.Decision{Remaining: 1}, newTAT: 0,
		},
	}, gcra.Rate.Request, func(f *gcra.Funnel, c call) error { return f.Charge(c.now) })
}

// Refund moves the TAT back by T*n, but not before now, and by a receipt no further than receipt -
// now.
func TestRefund(t *testing.T) {
	test(t, []call{
		{
			name: "without a receipt, all tokens", tat: now + 7*second, quantity: 3, receipt: gcra.NoReceipt,
			want: decision.Decision{Remaining: 6, ResetAfter: 4 * second}, newTAT: now + 4*second,
		}, {
			name: "without a receipt, no more than the funnel holds", tat: now + 2*second, quantity: 3, receipt: gcra.NoReceipt,
			want: decision.Decision{Remaining: 10}, newTAT: now,
		}, {
			name: "right after the call, all its tokens", tat: now + 7*second, quantity: 3, receipt: now + 7*second,
			want: decision.Decision{Remaining: 6, ResetAfter: 4 * second}, newTAT: now + 4*second,
		}, {
			name: "later, what of them has not leaked", tat: now + 7*second, quantity: 3, receipt: now + half,
			want: decision.Decision{Remaining: 3, ResetAfter: 6*second + half}, newTAT: now + 6*second + half,
		}, {
			name: "a nanosecond before the last has leaked", tat: now + 7*second, quantity: 3, receipt: now + 1,
			want: decision.Decision{Remaining: 3, ResetAfter: 7*second - 1}, newTAT: now + 7*second - 1,
		}, {
			name: "nothing once all have leaked", tat: now + 7*second, quantity: 3, receipt: now,
			want: decision.Decision{Remaining: 3, ResetAfter: 7 * second}, newTAT: now + 7*second,
		}, {
			name: "nothing long after", tat: now + 7*second, quantity: 3, receipt: now - second,
			want: decision.Decision{Remaining: 3, ResetAfter: 7 * second}, newTAT: now + 7*second,
		}, {
			name: "nothing by a receipt of 0", tat: now + 7*second, quantity: 3, receipt: 0,
			want: decision.Decision{Remaining: 3, ResetAfter: 7 * second}, newTAT: now + 7*second,
		}, {
			name: "no tokens", tat: now + 7*second, quantity: 0, receipt: gcra.NoReceipt,
			want: decision.Decision{Remaining: 3, ResetAfter: 7 * second}, newTAT: now + 7*second,
		}, {
			name: "nothing to an empty funnel: nobody saves up", tat: gcra.Empty, quantity: 3, receipt: gcra.NoReceipt,
			want: decision.Decision{Remaining: 10}, newTAT: gcra.Empty,
		}, {
			name: "nothing to a funnel that has drained", tat: now - second, quantity: 3, receipt: gcra.NoReceipt,
			want: decision.Decision{Remaining: 10}, newTAT: now - second,
		}, {
			name: "more than the capacity, after a charge", tat: now + 15*second, quantity: 12, receipt: now + 15*second,
			want: decision.Decision{Remaining: 7, ResetAfter: 3 * second}, newTAT: now + 3*second,
		}, {
			name: "a funnel that stays overfull", tat: now + 15*second, quantity: 3, receipt: gcra.NoReceipt,
			want: decision.Decision{Limited: true, Wait: 2 * second, ResetAfter: 12 * second}, newTAT: now + 12*second,
		},

		{
			name: "an instant before 1970 counts as 0", rate: ten, now: -second, tat: second, quantity: 1,
			receipt: gcra.NoReceipt, want: decision.Decision{Remaining: 10}, newTAT: 0,
		}, {
			name: "so does a TAT before 1970", rate: ten, now: 0, tat: -second, quantity: 1,
			receipt: gcra.NoReceipt, want: decision.Decision{Remaining: 10}, newTAT: 0,
		}, {
			name: "the largest of all", rate: slowest, now: 0, tat: most, quantity: 1, receipt: most,
			want: decision.Decision{Remaining: 1}, newTAT: 0,
		},
	}, gcra.Rate.Request, func(f *gcra.Funnel, c call) error { f.Refund(c.now, c.receipt); return nil })
}

// Undo leaves a Reserve allowed, and takes its tokens back.
func TestUndo(t *testing.T) {
	test(t, []call{
		{
			name: "tokens that fit are not taken", tat: now + 7*second, quantity: 3,
			want: decision.Decision{Remaining: 3, ResetAfter: 7 * second}, newTAT: now + 7*second,
		}, {
			name: "a funnel that has drained keeps its TAT", tat: now - second, quantity: 3,
			want: decision.Decision{Remaining: 10}, newTAT: now - second,
		}, {
			name: "a reservation ahead of time has no wait", tat: now + 9*second, quantity: 3, maxWait: 2 * second,
			want: decision.Decision{Remaining: 1, ResetAfter: 9 * second}, newTAT: now + 9*second,
		}, {
			name: "an instant before 1970 counts as 0", rate: ten, now: -second, tat: second, quantity: 1,
			want: decision.Decision{Remaining: 9, ResetAfter: second}, newTAT: second,
		}, {
			name: "so does a TAT before 1970", rate: ten, now: 0, tat: -second, quantity: 1,
			want: decision.Decision{Remaining: 10}, newTAT: 0,
		},
	}, gcra.Rate.Request, func(f *gcra.Funnel, c call) error {
		err := f.Reserve(c.now, c.maxWait)
		f.Undo(c.now)
		return err
	})
}
