// Each operation on slots, as a table: what runs, what is asked, and what is decided and stored
// then. What follows for a series of calls is in properties_test.go.

package slots_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/decision"
	"funnel/slots"
)

const (
	millisecond = int64(1e6)
	second      = 1000 * millisecond
	ttl         = 30 * second // of each request, unless its row says otherwise

	// now is an instant in 2027, in nanoseconds, and nowMS the same in milliseconds, as ends are.
	nowMS = int64(1_800_000_000_000)
	now   = nowMS * millisecond

	most = math.MaxInt64
)

// in returns the end of a slot that ends in so many milliseconds.
func in(milliseconds int64) int64 { return nowMS + milliseconds }

// A limit is 0 or more, and a ttl a millisecond or more.
func TestNewRequest(t *testing.T) {
	for _, c := range []struct {
		name       string
		limit, ttl int64
		err        error
	}{
		{name: "the smallest of both", limit: 0, ttl: millisecond},
		{name: "the largest of both", limit: most, ttl: most},
		{name: "a limit below 0", limit: -1, ttl: millisecond, err: slots.ErrLimit},
		{name: "a ttl below a millisecond", limit: 0, ttl: millisecond - 1, err: slots.ErrTTL},
		{name: "a ttl below 0", limit: 1, ttl: -millisecond, err: slots.ErrTTL},
		{name: "the limit is checked first", limit: math.MinInt64, ttl: math.MinInt64, err: slots.ErrLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, err := slots.NewRequest(c.limit, c.ttl)
			require.Equal(t, c.err, err)
			require.Equal(t, err != nil, request == slots.Request{}, "the request beside an error")
		})
	}
}

// A call is one row of a table. A row without a ttl asks for one of 30 seconds, at the instant now.
type call struct {
	name       string
	limit      int64
	ttl, now   int64 // nanoseconds
	state      slots.State
	want       decision.Decision // the test adds Asks, and the Limit: it is the request's
	held       int64             // nanoseconds
	end        int64             // milliseconds
	err        error             // there is no decision then
	isNoChange bool              // nothing has to be stored
}

// test applies an operation to the slots of each row, and compares whatever it sets. Of an earlier
// decision nothing stays.
func test(t *testing.T, rows []call, apply func(s *slots.Slots, now int64) error) {
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			if c.ttl == 0 {
				c.ttl, c.now = ttl, now
			}
			request, err := slots.NewRequest(c.limit, c.ttl)
			require.NoError(t, err)
			earlier := decision.Decision{Limited: true, Limit: 1, Remaining: 1, Wait: 1, ResetAfter: 1}
			s := slots.Slots{Request: request, State: c.state, Decision: earlier, Held: 1, End: 1}
			require.Equal(t, c.err, apply(&s, c.now))
			if c.err != nil {
				return
			}
			c.want.Asks = true
			c.want.Limit = c.limit
			want := slots.Slots{Request: request, State: c.state, Decision: c.want, Held: c.held, End: c.end}
			require.Equal(t, want, s)
			require.Equal(t, !c.isNoChange, s.Changes(), "Changes")
		})
	}
}

// Reserve is allowed if the holder has a slot, or if fewer than limit run. The slot then ends at
// now + ttl.
func TestReserve(t *testing.T) {
	test(t, []call{
		{
			name: "the first of all slots", limit: 2, state: slots.State{},
			want: decision.Decision{Remaining: 1, ResetAfter: ttl}, end: in(30_000),
		}, {
			name: "the last free slot", limit: 2, state: slots.State{Running: 1, First: in(5000), Last: in(5000)},
			want: decision.Decision{Remaining: 0, ResetAfter: ttl}, end: in(30_000),
		}, {
			name: "others hold theirs for longer", limit: 5, state: slots.State{Running: 2, First: in(5000), Last: in(60_000)},
			want: decision.Decision{Remaining: 2, ResetAfter: 60 * second}, end: in(30_000),
		}, {
			name: "no slot is free until the first ends", limit: 2, isNoChange: true,
			state: slots.State{Running: 2, First: in(5000), Last: in(9000)},
			want:  decision.Decision{Limited: true, Wait: 5 * second, ResetAfter: 9 * second},
		}, {
			name: "more run than may: by charges, or by callers with a larger limit", limit: 2, isNoChange: true,
			state: slots.State{Running: 3, First: in(5000), Last: in(9000)},
			want:  decision.Decision{Limited: true, Wait: 5 * second, ResetAfter: 9 * second},
		},

		{
			name: "a renewal is allowed, although no slot is free", limit: 2,
			state: slots.State{Own: in(4000), Running: 2, First: in(5000), Last: in(5000)},
			want:  decision.Decision{Remaining: 0, ResetAfter: ttl}, held: 4 * second, end: in(30_000),
		}, {
			name: "a renewal is allowed, although more run than may", limit: 2,
			state: slots.State{Own: in(4000), Running: 4, First: in(5000), Last: in(6000)},
			want:  decision.Decision{Remaining: 0, ResetAfter: ttl}, held: 4 * second, end: in(30_000),
		}, {
			name: "a renewal of the only slot", limit: 2, state: slots.State{Own: in(4000), Running: 1},
			want: decision.Decision{Remaining: 1, ResetAfter: ttl}, held: 4 * second, end: in(30_000),
		}, {
			name: "a renewal may make the end earlier", limit: 2, state: slots.State{Own: in(60_000), Running: 1},
			want: decision.Decision{Remaining: 1, ResetAfter: ttl}, held: 60 * second, end: in(30_000),
		}, {
			name: "a renewal within the same millisecond changes nothing", limit: 2, isNoChange: true,
			state: slots.State{Own: in(30_000), Running: 1},
			want:  decision.Decision{Remaining: 1, ResetAfter: ttl}, held: ttl, end: in(30_000),
		}, {
			name: "a limit of 0 renews", limit: 0, state: slots.State{Own: in(4000), Running: 1},
			want: decision.Decision{Remaining: 0, ResetAfter: ttl}, held: 4 * second, end: in(30_000),
		}, {
			name: "a limit of 0 gives no slot, and asking again never helps", limit: 0, isNoChange: true,
			state: slots.State{Running: 1, First: in(5000), Last: in(5000)},
			want:  decision.Decision{Limited: true, Wait: decision.Never, ResetAfter: 5 * second},
		}, {
			name: "a limit of 0 where nothing runs", limit: 0, isNoChange: true,
			want: decision.Decision{Limited: true, Wait: decision.Never},
		}, {
			name: "a limit of 1", limit: 1, isNoChange: true, state: slots.State{Running: 1, First: in(1), Last: in(1)},
			want: decision.Decision{Limited: true, Wait: millisecond, ResetAfter: millisecond},
		},
	}, (*slots.Slots).Reserve)
}

// Ends are rounded up to the millisecond, times until an end are exact, and both stay within 63
// bits.
func TestReserveAtTheEdges(t *testing.T) {
	test(t, []call{
		{
			name: "an end is rounded up", limit: 1, ttl: millisecond, now: now + 1,
			want: decision.Decision{ResetAfter: 2*millisecond - 1}, end: in(2),
		}, {
			name: "an end on the millisecond stays", limit: 1, ttl: millisecond + 1, now: now - 1,
			want: decision.Decision{ResetAfter: millisecond + 1}, end: in(1),
		}, {
			name: "times until an end count nanoseconds", limit: 1, ttl: ttl, now: now + 1, isNoChange: true,
			state: slots.State{Running: 1, First: in(1), Last: in(2)},
			want:  decision.Decision{Limited: true, Wait: millisecond - 1, ResetAfter: 2*millisecond - 1},
		}, {
			name: "an instant before 1970 counts as 0", limit: 1, ttl: millisecond, now: -second,
			want: decision.Decision{ResetAfter: millisecond}, end: 1,
		}, {
			name: "and nothing runs at 0", limit: 0, ttl: millisecond, now: 0, isNoChange: true,
			want: decision.Decision{Limited: true, Wait: decision.Never},
		}, {
			name: "an end in the first millisecond", limit: 1, ttl: millisecond, now: 0, isNoChange: true,
			state: slots.State{Running: 1, First: 1, Last: 1},
			want:  decision.Decision{Limited: true, Wait: millisecond, ResetAfter: millisecond},
		}, {
			name: "the last end, rounded up by 224,193 ns", limit: 1, ttl: most - now, now: now,
			want: decision.Decision{ResetAfter: most - now + 224_193}, end: 9_223_372_036_855,
		}, {
			name: "an end later than the last", limit: 1, ttl: most - now + 1, now: now, err: slots.ErrEnd,
		}, {
			name: "a sum of 2^64 - 2 does not wrap around", limit: 1, ttl: most, now: most, err: slots.ErrEnd,
		}, {
			name: "a limited call stores no end, so none is too late", limit: 1, ttl: most, now: now, isNoChange: true,
			state: slots.State{Running: 1, First: in(5000), Last: in(5000)},
			want:  decision.Decision{Limited: true, Wait: 5 * second, ResetAfter: 5 * second},
		}, {
			// Any program may write scores: 2^63 ns are 9,223,372,036,855 ms.
			name: "a score beyond 2^63 ns is as far as can be told", limit: 1, ttl: ttl, now: 0, isNoChange: true,
			state: slots.State{Running: 1, First: 9_223_372_036_854, Last: 9_223_372_036_855},
			want:  decision.Decision{Limited: true, Wait: 9_223_372_036_854 * millisecond, ResetAfter: most},
		}, {
			name: "so is a score just beyond 2^64 ns, and the largest", limit: 1, ttl: ttl, now: now, isNoChange: true,
			state: slots.State{Running: 1, First: 18_446_744_073_710, Last: most},
			want:  decision.Decision{Limited: true, Wait: most, ResetAfter: most},
		}, {
			// A clock that has gone back and forth between the count and the decision.
			name: "an end that has passed is 0 away", limit: 1, ttl: ttl, now: now, isNoChange: true,
			state: slots.State{Running: 1, First: in(-2), Last: in(-1)},
			want:  decision.Decision{Limited: true, Wait: 0, ResetAfter: 0},
		},
	}, (*slots.Slots).Reserve)
}

// Peek says what Reserve would, and takes nothing.
func TestPeek(t *testing.T) {
	test(t, []call{
		{
			name: "a slot that is free stays free", limit: 2, isNoChange: true,
			state: slots.State{Running: 1, First: in(5000), Last: in(5000)},
			want:  decision.Decision{Remaining: 1, ResetAfter: 5 * second},
		}, {
			name: "no slot is free", limit: 2, isNoChange: true,
			state: slots.State{Running: 2, First: in(5000), Last: in(9000)},
			want:  decision.Decision{Limited: true, Wait: 5 * second, ResetAfter: 9 * second},
		}, {
			name: "the holder's own slot is not renewed", limit: 1, isNoChange: true,
			state: slots.State{Own: in(4000), Running: 1},
			want:  decision.Decision{ResetAfter: 4 * second}, held: 4 * second, end: in(4000),
		}, {
			name: "a limit of 0", limit: 0, isNoChange: true, want: decision.Decision{Limited: true, Wait: decision.Never},
		}, {
			name: "an instant before 1970 counts as 0", limit: 1, ttl: millisecond, now: -second, isNoChange: true,
			state: slots.State{Own: 3, Running: 1},
			want:  decision.Decision{ResetAfter: 3 * millisecond}, held: 3 * millisecond, end: 3,
		}, {
			name: "what Reserve cannot store", limit: 1, ttl: most, now: now, err: slots.ErrEnd,
		},
	}, (*slots.Slots).Peek)
}

// Charge takes the slot even if none is free. It is limited if more than limit run then.
func TestCharge(t *testing.T) {
	test(t, []call{
		{
			name: "the last free slot", limit: 2, state: slots.State{Running: 1, First: in(5000), Last: in(5000)},
			want: decision.Decision{Remaining: 0, ResetAfter: ttl}, end: in(30_000),
		}, {
			name: "one more than may run, until the first ends", limit: 2,
			state: slots.State{Running: 2, First: in(5000), Last: in(9000)},
			want:  decision.Decision{Limited: true, Wait: 5 * second, ResetAfter: ttl}, end: in(30_000),
		}, {
			name: "the holder's own slot may be the first to end", limit: 1,
			state: slots.State{Running: 1, First: in(40_000), Last: in(40_000)},
			want:  decision.Decision{Limited: true, Wait: ttl, ResetAfter: 40 * second}, end: in(30_000),
		}, {
			name: "a renewal takes no further slot", limit: 2,
			state: slots.State{Own: in(4000), Running: 2, First: in(5000), Last: in(5000)},
			want:  decision.Decision{Remaining: 0, ResetAfter: ttl}, held: 4 * second, end: in(30_000),
		}, {
			name: "a renewal while more run than may", limit: 2,
			state: slots.State{Own: in(4000), Running: 3, First: in(5000), Last: in(6000)},
			want:  decision.Decision{Limited: true, Wait: 5 * second, ResetAfter: ttl}, held: 4 * second, end: in(30_000),
		}, {
			name: "a limit of 0, of the only slot", limit: 0, state: slots.State{},
			want: decision.Decision{Limited: true, Wait: ttl, ResetAfter: ttl}, end: in(30_000),
		}, {
			name: "first slots in the first millisecond", limit: 0, ttl: 3 * millisecond, now: -second,
			state: slots.State{Running: 1, First: 1, Last: 1},
			want:  decision.Decision{Limited: true, Wait: millisecond, ResetAfter: 3 * millisecond}, end: 3,
		}, {
			name: "an end later than the last", limit: 1, ttl: most, now: now, err: slots.ErrEnd,
		},
	}, (*slots.Slots).Charge)
}

// Refund ends the holder's slot. Held says how long it would have run on.
func TestRefund(t *testing.T) {
	test(t, []call{
		{
			name: "the only slot", limit: 2, state: slots.State{Own: in(4000), Running: 1},
			want: decision.Decision{Remaining: 2}, held: 4 * second,
		}, {
			name: "one of several", limit: 2, state: slots.State{Own: in(9000), Running: 2, First: in(5000), Last: in(5000)},
			want: decision.Decision{Remaining: 1, ResetAfter: 5 * second}, held: 9 * second,
		}, {
			name: "a holder without a slot", limit: 2, isNoChange: true,
			state: slots.State{Running: 1, First: in(5000), Last: in(5000)},
			want:  decision.Decision{Remaining: 1, ResetAfter: 5 * second},
		}, {
			name: "more still run than may", limit: 1,
			state: slots.State{Own: in(4000), Running: 3, First: in(5000), Last: in(6000)},
			want:  decision.Decision{Remaining: 0, ResetAfter: 6 * second}, held: 4 * second,
		}, {
			name: "a slot that ends in the first millisecond", limit: 1, ttl: millisecond, now: -second,
			state: slots.State{Own: 1, Running: 1},
			want:  decision.Decision{Remaining: 1}, held: millisecond,
		},
	}, func(s *slots.Slots, now int64) error { s.Refund(now); return nil })
}

// Undo leaves a Reserve allowed, and takes its slot back, or its renewal.
func TestUndo(t *testing.T) {
	test(t, []call{
		{
			name: "a slot that was free is free again", limit: 2, isNoChange: true,
			state: slots.State{Running: 1, First: in(5000), Last: in(5000)},
			want:  decision.Decision{Remaining: 1, ResetAfter: 5 * second},
		}, {
			name: "a renewed slot keeps its end", limit: 2, isNoChange: true,
			state: slots.State{Own: in(4000), Running: 1},
			want:  decision.Decision{Remaining: 1, ResetAfter: 4 * second}, held: 4 * second, end: in(4000),
		}, {
			name: "an instant before 1970 counts as 0", limit: 1, ttl: millisecond, now: -second, isNoChange: true,
			state: slots.State{Own: 3, Running: 1},
			want:  decision.Decision{ResetAfter: 3 * millisecond}, held: 3 * millisecond, end: 3,
		},
	}, func(s *slots.Slots, now int64) error {
		err := s.Reserve(now)
		s.Undo(now)
		return err
	})
}
