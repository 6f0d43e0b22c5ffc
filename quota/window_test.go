// A window is counted in the period that runs, whatever its end, and cuts nothing. If none runs,
// one begins now, and lasts as long as the window, rounded up to the millisecond.

package quota_test

import (
	"testing"

	"funnel/internal/decision"
	"funnel/quota"
)

// A limit and a quantity are 0 or more, and a window lasts a millisecond or more.
func TestNewWindowRequest(t *testing.T) {
	for _, c := range []struct {
		name                   string
		limit, lasts, quantity int64
		err                    error
	}{
		{name: "the smallest of each", limit: 0, lasts: millisecond, quantity: 0},
		{name: "the largest of each", limit: most, lasts: most, quantity: most},
		{name: "a limit below 0", limit: -1, lasts: millisecond, quantity: 0, err: quota.ErrLimit},
		{name: "a window below a millisecond", limit: 0, lasts: millisecond - 1, quantity: 0, err: quota.ErrLasts},
		{name: "a quantity below 0", limit: 0, lasts: millisecond, quantity: -1, err: quota.ErrQuantity},
		{name: "the limit is checked first", limit: -1, lasts: 0, quantity: -1, err: quota.ErrLimit},
		{name: "and then the window", limit: 0, lasts: 0, quantity: -1, err: quota.ErrLasts},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, err := quota.NewWindowRequest(c.limit, c.lasts, c.quantity)
			requireRequest(t, c.quantity, c.err, request, err)
		})
	}
}

// A window names no period, so none of its own has ended.
func TestWindowsDoNotEnd(t *testing.T) {
	c := call{lasts: millisecond}
	request := c.request(t)
	for _, at := range []int64{0, 1, now, most} {
		if request.Ended(at) {
			t.Errorf("a window has ended at %d", at)
		}
	}
}

func TestReserveInAWindow(t *testing.T) {
	test(t, []call{
		{
			name: "the first call begins a period", lasts: minute, limit: 10, quantity: 4,
			want:    decision.Decision{Remaining: 6, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "which ends at a whole millisecond", now: now + 1, lasts: minute, limit: 10, quantity: 4,
			want:    decision.Decision{Remaining: 6, ResetAfter: minute + millisecond - 1},
			receipt: end + millisecond, newState: quota.State{Used: 4, Expiry: in(60_001)},
		}, {
			name: "the shortest window", now: now + 1, lasts: millisecond, limit: 10, quantity: 4,
			want:    decision.Decision{Remaining: 6, ResetAfter: 2*millisecond - 1},
			receipt: now + 2*millisecond, newState: quota.State{Used: 4, Expiry: in(2)},
		}, {
			name: "a call for nothing begins none", lasts: minute, limit: 10, quantity: 0,
			want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "a call for too much begins none, and nothing helps it", lasts: minute, limit: 10, quantity: 11,
			want: decision.Decision{Limited: true, Remaining: 10, Wait: decision.Never}, isNoChange: true,
		}, {
			name: "a later call is counted in the period that runs", lasts: minute, limit: 10, quantity: 6,
			state: quota.State{Used: 4, Expiry: in(31_000)}, want: decision.Decision{ResetAfter: 31 * second},
			receipt: now + 31*second, newState: quota.State{Used: 10, Expiry: in(31_000)},
		}, {
			name: "and waits until it ends", lasts: minute, limit: 10, quantity: 7, isNoChange: true,
			state:    quota.State{Used: 4, Expiry: in(31_000)},
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: 31 * second, ResetAfter: 31 * second},
			newState: quota.State{Used: 4, Expiry: in(31_000)},
		}, {
			name: "a period that ends later is not cut", lasts: minute, limit: 10, quantity: 7, isNoChange: true,
			state:    quota.State{Used: 4, Expiry: in(90_000)},
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: 90 * second, ResetAfter: 90 * second},
			newState: quota.State{Used: 4, Expiry: in(90_000)},
		}, {
			name: "a period in its last millisecond counts", lasts: minute, limit: 10, quantity: 7, isNoChange: true,
			state:    quota.State{Used: 4, Expiry: in(1)},
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: millisecond, ResetAfter: millisecond},
			newState: quota.State{Used: 4, Expiry: in(1)},
		}, {
			name: "after its end the next begins", lasts: minute, limit: 10, quantity: 7, hasExpired: true,
			state: quota.State{Used: 4, Expiry: in(0)}, want: decision.Decision{Remaining: 3, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 7, Expiry: in(60_000)},
		}, {
			name: "a key that does not expire gets the end of one that begins now", lasts: minute, limit: 10, quantity: 1,
			state: quota.State{Used: 4}, want: decision.Decision{Remaining: 5, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 5, Expiry: in(60_000)},
		}, {
			name: "even if the call is limited", lasts: minute, limit: 10, quantity: 7, state: quota.State{Used: 4, Expiry: -1},
			want:     decision.Decision{Limited: true, Remaining: 6, Wait: minute, ResetAfter: minute},
			newState: quota.State{Used: 4, Expiry: in(60_000)},
		}, {
			name: "a period that ends in the first millisecond", now: -second, lasts: minute, limit: 10, quantity: 1,
			state: quota.State{Used: 4, Expiry: 1}, want: decision.Decision{Remaining: 5, ResetAfter: millisecond},
			receipt: millisecond, newState: quota.State{Used: 5, Expiry: 1},
		}, {
			name: "the last end that fits", lasts: lastMS*millisecond - now, limit: 10, quantity: 4,
			want:    decision.Decision{Remaining: 6, ResetAfter: lastMS*millisecond - now},
			receipt: lastMS * millisecond, newState: quota.State{Used: 4, Expiry: lastMS},
		}, {
			name: "an end later than the last", lasts: lastMS*millisecond - now + 1, limit: 10, quantity: 4, err: quota.ErrEnd,
		}, {
			name: "even of a call for nothing", lasts: lastMS*millisecond - now + 1, limit: 10, quantity: 0, err: quota.ErrEnd,
		}, {
			name: "a sum of 2^64 - 2 does not wrap around", now: most, lasts: most, limit: 10, quantity: 4, err: quota.ErrEnd,
		}, {
			name: "the longest window, counted in a period that runs", lasts: most, limit: 10, quantity: 4,
			state: quota.State{Used: 4, Expiry: in(31_000)}, want: decision.Decision{Remaining: 2, ResetAfter: 31 * second},
			receipt: now + 31*second, newState: quota.State{Used: 8, Expiry: in(31_000)},
		}, {
			name: "an expiry beyond 2^63-1 ns is replied as that, and kept", lasts: minute, limit: 10, quantity: 4,
			state: quota.State{Used: 4, Expiry: lastMS + 2}, want: decision.Decision{Remaining: 2, ResetAfter: most - now},
			receipt: most, newState: quota.State{Used: 8, Expiry: lastMS + 2},
		},
	}, (*quota.Quota).Reserve)
}

func TestTakeInAWindow(t *testing.T) {
	test(t, []call{
		{
			name: "what fits begins a period", lasts: minute, limit: 10, quantity: 11, taken: 10,
			want:    decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 10, Expiry: in(60_000)},
		}, {
			name: "what fits is counted in the period that runs", lasts: minute, limit: 10, quantity: 7, taken: 6,
			state:   quota.State{Used: 4, Expiry: in(31_000)},
			want:    decision.Decision{Limited: true, Wait: 31 * second, ResetAfter: 31 * second},
			receipt: now + 31*second, newState: quota.State{Used: 10, Expiry: in(31_000)},
		}, {
			name: "an end later than the last", lasts: most, limit: 10, quantity: 4, err: quota.ErrEnd,
		},
	}, (*quota.Quota).Take)
}

func TestPeekIntoAWindow(t *testing.T) {
	test(t, []call{
		{
			name: "a peek begins no period", lasts: minute, limit: 10, quantity: 4,
			want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "a peek gives no key an end, but says how long it would last", lasts: minute, limit: 10, quantity: 7,
			state: quota.State{Used: 4}, newState: quota.State{Used: 4}, isNoChange: true,
			want: decision.Decision{Limited: true, Remaining: 6, Wait: minute, ResetAfter: minute},
		}, {
			name: "an end later than the last", lasts: most, limit: 10, quantity: 4, err: quota.ErrEnd,
		},
	}, (*quota.Quota).Peek)
}

func TestChargeInAWindow(t *testing.T) {
	test(t, []call{
		{
			name: "a charge begins a period", lasts: minute, limit: 10, quantity: 11,
			want:    decision.Decision{Limited: true, Wait: minute, ResetAfter: minute},
			receipt: end, newState: quota.State{Used: 11, Expiry: in(60_000)},
		}, {
			name: "a charge is counted in the period that runs", lasts: minute, limit: 10, quantity: 7,
			state:   quota.State{Used: 4, Expiry: in(90_000)},
			want:    decision.Decision{Limited: true, Wait: 90 * second, ResetAfter: 90 * second},
			receipt: now + 90*second, newState: quota.State{Used: 11, Expiry: in(90_000)},
		}, {
			name: "an end later than the last", lasts: most, limit: 10, quantity: 4, err: quota.ErrEnd,
		},
	}, (*quota.Quota).Charge)
}

// A refund names the period by its end. The request of a window does not: it gives back in the
// period that runs.
func TestRefundOfAWindow(t *testing.T) {
	test(t, []call{
		{
			name: "in the period that runs", lasts: minute, state: quota.State{Used: 4, Expiry: in(90_000)}, limit: 10,
			quantity: 3, want: decision.Decision{Remaining: 9, ResetAfter: 90 * second},
			newState: quota.State{Used: 1, Expiry: in(90_000)},
		}, {
			name: "if none runs, none begins", lasts: minute, limit: 10, quantity: 3,
			want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "if one could not begin, the key stays as it is", lasts: most, state: quota.State{Used: 4}, limit: 10,
			quantity: 3, want: decision.Decision{Remaining: 6}, newState: quota.State{Used: 4}, isNoChange: true,
		},
	}, refund)
}

func TestUndoInAWindow(t *testing.T) {
	test(t, []call{
		{
			name: "a period that would have begun does not", lasts: minute, limit: 10, quantity: 6,
			want: decision.Decision{Remaining: 10}, isNoChange: true,
		}, {
			name: "the period that runs stays as it is", lasts: minute, state: quota.State{Used: 4, Expiry: in(90_000)},
			limit: 10, quantity: 6, want: decision.Decision{Remaining: 6, ResetAfter: 90 * second},
			newState: quota.State{Used: 4, Expiry: in(90_000)}, isNoChange: true,
		},
	}, func(q *quota.Quota, now int64) error {
		err := q.Reserve(now)
		q.Undo(now)
		return err
	})
}
