// Reserve and Take keep the bound. Package module/command compares each operation with package contract.

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

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		limit, until, quantity int64
		want                   error
	}{{-1, 1, 0, quota.ErrLimit}, {0, 0, 0, quota.ErrUntil}, {0, 1, -1, quota.ErrQuantity}, {0, 1, 0, nil}} {
		_, err := quota.NewRequest(c.limit, c.until, c.quantity)
		require.Equal(t, c.want, err, "%+v", c)
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
			use := (*quota.Quota).Reserve
			if rapid.Bool().Draw(t, "take") {
				use = (*quota.Quota).Take
			}
			require.NoError(t, use(&q, instant))
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
