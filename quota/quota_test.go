// Reserve and Take keep the bound, and periods end on the nanosecond. Package module/command compares each operation
// with package contract.

package quota_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/quota"
)

const (
	second = int64(1e9)
	now    = 1_800_000_000 * second
)

// operations are the methods of Quota, by their names in the contract.
var operations = map[string]func(q *quota.Quota, now int64) error{
	"reserve": (*quota.Quota).Reserve,
	"take":    (*quota.Quota).Take,
	"peek":    (*quota.Quota).Peek,
	"charge":  (*quota.Quota).Charge,
	"refund":  func(q *quota.Quota, now int64) error { q.Refund(now); return nil },
	"undo": func(q *quota.Quota, now int64) error {
		err := q.Reserve(now)
		q.Undo(now)
		return err
	},
}

// The key expires at the millisecond after until, but the period ends at until. The period of a key that expires a
// millisecond earlier ends with the key.
func TestPeriodsEndOnTheNanosecond(t *testing.T) {
	request, err := quota.NewRequest(10, now+1_000_001, 1)
	require.NoError(t, err)
	for _, c := range []struct{ before, end, after int64 }{{3, 1_000_001, 2}, {2, 1_000_001, 2}, {1, 1_000_000, 1}} {
		q := quota.Quota{Request: request, State: quota.State{Used: 1, Expiry: now/1e6 + c.before}}
		require.NoError(t, q.Reserve(now))
		require.Equal(t, quota.Decision{Limit: 10, Remaining: 8, ResetAfter: c.end, Until: now + c.end,
			State: quota.State{Used: 2, Expiry: now/1e6 + c.after}}, q.Decision, "expired in %d ms", c.before)
	}
	require.False(t, request.Ended(now+1_000_000))
	require.True(t, request.Ended(now+1_000_001))
	require.False(t, quota.State{Used: 1, Expiry: now/1e6 + 1}.Expired(now+999_999))
	require.True(t, quota.State{Used: 1, Expiry: now/1e6 + 1}.Expired(now+1_000_000))
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		limit, until, quantity int64
		want                   error
	}{{-1, 1, 0, quota.ErrLimit}, {0, 0, 0, quota.ErrUntil}, {0, 1, -1, quota.ErrQuantity}, {0, 1, 0, nil}} {
		_, err := quota.NewRequest(c.limit, c.until, c.quantity)
		require.Equal(t, c.want, err, "%+v", c)
	}
	for name, operation := range operations {
		request, err := quota.NewRequest(10, now, 1)
		require.NoError(t, err)
		q := quota.Quota{Request: request, State: quota.State{Used: 3}}
		want := error(quota.ErrEnded)
		if name == "refund" {
			want = nil
		}
		require.Equal(t, want, operation(&q, now), "%s at the end of the period", name)
	}
	for used, want := range map[int64]error{math.MaxInt64 - 5: nil, math.MaxInt64 - 4: quota.ErrUsed} {
		request, err := quota.NewRequest(10, now+second, 5)
		require.NoError(t, err)
		q := quota.Quota{Request: request, State: quota.State{Used: used}}
		require.Equal(t, want, q.Charge(now), "5 beside %d", used)
	}
}

// While a period runs, Reserve and Take use no more than the limit, whatever the callers' clocks say: here they disagree
// by up to 3 seconds. The period runs until the first of the instants that they name, to the millisecond.
func TestTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, state, instant := rapid.Int64Range(0, 9).Draw(t, "limit"), quota.State{}, now
		used, end := int64(0), int64(0)
		for range 20 {
			instant += rapid.Int64Range(0, second).Draw(t, "later")
			until := instant + rapid.Int64Range(1, 3*second).Draw(t, "until")
			request, err := quota.NewRequest(limit, until, rapid.Int64Range(0, 4).Draw(t, "quantity"))
			require.NoError(t, err)
			q := quota.Quota{Request: request, State: state}
			require.NoError(t, operations[rapid.SampledFrom([]string{"reserve", "take"}).Draw(t, "operation")](&q, instant))
			if used == 0 || instant >= end {
				used, end = 0, math.MaxInt64
			}
			if q.Decision.Until > 0 {
				used += q.Decision.State.Used - q.State.Used
			}
			end = min(end, (until+999_999)/1e6*1e6)
			require.LessOrEqual(t, used, limit, "used in the period that ends at %d", end)
			require.Equal(t, limit-used, q.Decision.Remaining, "in the period that ends at %d", end)
			if q.Changes() {
				state = q.Decision.State
			}
		}
	})
}
