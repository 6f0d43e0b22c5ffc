// Reserve uses all of the quantity or nothing, and every call may end a period.

package quota_test

import (
	"testing"

	"funnel/internal/decision"
	"funnel/quota"
)

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
			name: "a key that has expired counts as none", state: quota.State{Used: 9, Expiry: in(0)}, hasExpired: true,
			limit: 10, quantity: 4, want: decision.Decision{Remaining: 6, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "and a call for nothing has nothing to store", state: quota.State{Used: 9, Expiry: in(0)}, hasExpired: true,
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
