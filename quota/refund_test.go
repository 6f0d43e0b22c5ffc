// Refund gives back in the period that the request names, and does nothing after its end.

package quota_test

import (
	"math"
	"testing"

	"funnel/internal/decision"
	"funnel/quota"
)

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
			name: "a key that has expired counts as none", state: quota.State{Used: 9, Expiry: in(0)}, hasExpired: true,
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
			name: "the key has expired", state: quota.State{Used: 4, Expiry: in(0)}, hasExpired: true, limit: 10, quantity: 3,
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
