// A window is counted in the period that runs, and cuts nothing. If none runs, one begins now.

package quota_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/decision"
	"funnel/quota"
)

func TestWindows(t *testing.T) {
	const (
		now        = 1_000_000_001 // a nanosecond after a millisecond
		lasts      = 60_000_000_000
		end        = 61_001_000_000 // rounded up to the millisecond
		minute     = end - now
		running    = 31_000 // the expiry of a period that runs, in milliseconds
		left       = running*1_000_000 - now
		beyond     = math.MaxInt64 / 1_000_000
		untilLast  = math.MaxInt64 - now
		limit, all = 5, 5
	)
	reserve, take, peek, charge := (*quota.Quota).Reserve, (*quota.Quota).Take, (*quota.Quota).Peek, (*quota.Quota).Charge
	for name, c := range map[string]struct {
		ask      func(*quota.Quota, int64) error
		quantity int64
		before   quota.State
		want     decision.Decision
		until    int64
		state    quota.State // after the call
	}{
		"the first call begins a period": {
			ask: reserve, quantity: 2,
			want: decision.Decision{Remaining: 3, ResetAfter: minute}, until: end,
			state: quota.State{Used: 2, Expiry: 61_001},
		},
		"a call for nothing begins none": {
			ask: reserve, quantity: 0,
			want: decision.Decision{Remaining: all},
		},
		"a peek begins none": {
			ask: peek, quantity: 2,
			want: decision.Decision{Remaining: all},
		},
		"a call for too much begins none, and waits for nothing": {
			ask: reserve, quantity: 6,
			want: decision.Decision{Limited: true, Remaining: all, Wait: decision.Never},
		},
		"a later call is counted in the period that runs, which ends earlier": {
			ask: take, quantity: 9, before: quota.State{Used: 3, Expiry: running},
			want: decision.Decision{Limited: true, Wait: left, ResetAfter: left}, until: running * 1_000_000,
			state: quota.State{Used: 5, Expiry: running},
		},
		"and in one that ends later, which is not cut": {
			ask: reserve, quantity: 3, before: quota.State{Used: 3, Expiry: 99_000},
			want:  decision.Decision{Limited: true, Remaining: 2, Wait: 99_000_000_000 - now, ResetAfter: 99_000_000_000 - now},
			state: quota.State{Used: 3, Expiry: 99_000},
		},
		"a period that has ended is none": {
			ask: charge, quantity: 6, before: quota.State{Used: 3, Expiry: 1000},
			want: decision.Decision{Limited: true, Wait: minute, ResetAfter: minute}, until: end,
			state: quota.State{Used: 6, Expiry: 61_001},
		},
		"a key that does not expire gets an end, even if the call is limited": {
			ask: reserve, quantity: 3, before: quota.State{Used: 3},
			want:  decision.Decision{Limited: true, Remaining: 2, Wait: minute, ResetAfter: minute},
			state: quota.State{Used: 3, Expiry: 61_001},
		},
		"but a peek gives it none": {
			ask: peek, quantity: 3, before: quota.State{Used: 3},
			want:  decision.Decision{Limited: true, Remaining: 2, Wait: minute, ResetAfter: minute},
			state: quota.State{Used: 3},
		},
		"an expiry beyond 2^63-1 nanoseconds is replied as that, and kept": {
			ask: reserve, quantity: 1, before: quota.State{Used: 3, Expiry: beyond + 2},
			want: decision.Decision{Remaining: 1, ResetAfter: untilLast}, until: math.MaxInt64,
			state: quota.State{Used: 4, Expiry: beyond + 2},
		},
	} {
		request, err := quota.NewWindowRequest(limit, lasts, c.quantity)
		require.NoError(t, err, name)
		require.False(t, request.Ended(math.MaxInt64), name)
		q := quota.Quota{Request: request, State: c.before}
		require.NoError(t, c.ask(&q, now), name)
		c.want.Asks = c.quantity > 0
		c.want.Limit = limit
		require.Equal(t, c.want, q.Decision, name)
		require.Equal(t, c.until, q.Until, name)
		require.Equal(t, c.state, q.NewState, name)
	}
}

func TestWindowsThatEndTooLate(t *testing.T) {
	const last = math.MaxInt64 / 1_000_000 * 1_000_000 // the last end
	for _, c := range []struct {
		now, lasts, expiry int64
		want               error
	}{
		{last - 1_000_000, 1_000_000, 0, nil},
		{last - 1_000_000, 1_000_001, 0, quota.ErrEnd},
		{math.MaxInt64, math.MaxInt64, 0, quota.ErrEnd},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, nil},
	} {
		request, err := quota.NewWindowRequest(1, c.lasts, 1)
		require.NoError(t, err)
		q := quota.Quota{Request: request, State: quota.State{Used: c.expiry & 1, Expiry: c.expiry}}
		require.Equal(t, c.want, q.Peek(c.now), "%+v", c)
	}
}

func TestWrongWindows(t *testing.T) {
	for _, c := range []struct {
		limit, lasts, quantity int64
		want                   error
	}{
		{-1, 1_000_000, 0, quota.ErrLimit}, {0, 999_999, 0, quota.ErrLasts}, {0, 1_000_000, -1, quota.ErrQuantity},
		{0, 1_000_000, 0, nil},
	} {
		_, err := quota.NewWindowRequest(c.limit, c.lasts, c.quantity)
		require.Equal(t, c.want, err, "%+v", c)
	}
}
