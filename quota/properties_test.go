// What a series of calls can rely on.

package quota_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/internal/decision"
	"funnel/quota"
)

// drawRequest draws a request for a small quantity. The period that it names ends at a whole
// millisecond, within a few milliseconds after at, or it is a window.
func drawRequest(t *rapid.T, at int64) (request quota.Request, limit int64) {
	limit = rapid.Int64Range(0, 6).Draw(t, "limit")
	quantity := rapid.Int64Range(0, 7).Draw(t, "quantity")
	length := rapid.Int64Range(1, 9).Draw(t, "milliseconds") * millisecond
	var err error
	if rapid.Bool().Draw(t, "is a window") {
		request, err = quota.NewWindowRequest(limit, length, quantity)
	} else {
		request, err = quota.NewRequest(limit, at-at%millisecond+length, quantity)
	}
	require.NoError(t, err)
	return request, limit
}

// drawState draws what a key holds: nothing, a sum in a period that runs or has ended, or a sum
// that does not expire.
func drawState(t *rapid.T) quota.State {
	used := rapid.Int64Range(0, 8).Draw(t, "used")
	if used == 0 {
		return quota.State{}
	}
	expiry := rapid.SampledFrom([]int64{0, in(-1), in(0), in(1), in(4), in(9), in(20)}).Draw(t, "expiry")
	return quota.State{Used: used, Expiry: expiry}
}

// store returns what the key holds after a call.
func store(q *quota.Quota) quota.State {
	if q.Changes() {
		return q.NewState
	}
	return q.State
}

// While a period runs, Reserve and Take use no more than the largest limit of the callers, whatever
// end each of them names. The key never expires later than the end that a reply has named.
func TestReserveAndTakeKeepTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at, key := now+1, quota.State{}
		used, largest := int64(0), int64(0)
		for range 30 {
			at += rapid.Int64Range(0, 2*millisecond).Draw(t, "later")
			if key.Used == 0 || key.Expired(at) {
				used, largest = 0, 0
			}
			request, limit := drawRequest(t, at)
			q := quota.Quota{Request: request, State: key}
			granted := int64(0)
			if rapid.Bool().Draw(t, "take") {
				require.NoError(t, q.Take(at))
				granted = q.Taken
			} else {
				require.NoError(t, q.Reserve(at))
				if !q.Limited {
					granted = request.Quantity()
				}
			}
			key = store(&q)
			used, largest = used+granted, max(largest, limit)
			require.Equal(t, used, key.Used)
			require.LessOrEqual(t, used, largest)
			require.Equal(t, max(0, limit-used), q.Remaining)
			require.Equal(t, granted > 0, q.Until > 0, "a receipt, if anything is used")
			if q.Until > 0 {
				require.Equal(t, q.Until, key.Expiry*millisecond)
				require.Equal(t, q.Until, at+q.ResetAfter)
			}
		}
	})
}

// After the Wait of a limited caller the period has ended, and a caller that asks for the next one
// is allowed. A nanosecond earlier the caller is still limited. If asking again never helps, the
// quantity is above the limit.
func TestWaitEndsWithThePeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, limit := drawRequest(t, now)
		q := quota.Quota{Request: request, State: drawState(t)}
		require.NoError(t, q.Reserve(now))
		require.Equal(t, request.Quantity() > limit, q.Wait == decision.Never)
		if !q.Limited || q.Wait == decision.Never {
			return
		}
		wait := q.Wait
		key := store(&q)
		require.Positive(t, wait)
		require.Equal(t, wait, q.ResetAfter)
		early := quota.Quota{Request: request, State: key}
		require.NoError(t, early.Reserve(now+wait-1))
		require.True(t, early.Limited, "a nanosecond before the wait of %d ns is over", wait)
		next, err := quota.NewRequest(limit, now+wait+minute, request.Quantity())
		require.NoError(t, err)
		late := quota.Quota{Request: next, State: key}
		require.NoError(t, late.Reserve(now+wait))
		require.False(t, late.Limited, "after the wait of %d ns", wait)
	})
}

// Take does what reservations of one each would do, up to the first that is limited.
func TestTakeIsRepeatedReserve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, quantity := rapid.Int64Range(0, 6).Draw(t, "limit"), rapid.Int64Range(0, 7).Draw(t, "quantity")
		key := drawState(t)
		request, err := quota.NewRequest(limit, end, quantity)
		require.NoError(t, err)
		take := quota.Quota{Request: request, State: key}
		require.NoError(t, take.Take(now))

		one, err := quota.NewRequest(limit, end, 1)
		require.NoError(t, err)
		taken, last := int64(0), quota.Quota{Request: one, State: key}
		for taken < quantity && !last.Limited {
			last = quota.Quota{Request: one, State: key}
			require.NoError(t, last.Reserve(now))
			key = store(&last)
			if !last.Limited {
				taken++
			}
		}
		require.Equal(t, taken, take.Taken)
		require.Equal(t, last.Limited, take.Limited)
		require.Equal(t, last.Wait, take.Wait)
		if quantity > 0 {
			require.Equal(t, key, store(&take))
		}
	})
}

// Peek decides as Reserve would, and Undo brings back what Peek sees, but for a period that is cut.
func TestPeekIsReserveUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, _ := drawRequest(t, now)
		peek := quota.Quota{Request: request, State: drawState(t)}
		require.NoError(t, peek.Peek(now))
		require.False(t, peek.Changes())
		reserve := peek
		require.NoError(t, reserve.Reserve(now))
		require.Equal(t, reserve.Limited, peek.Limited)
		require.Equal(t, reserve.Wait, peek.Wait)
		if !reserve.Limited {
			reserve.Undo(now)
		}
		require.Equal(t, peek.NewState.Used, reserve.NewState.Used)
		reserve.NewState = peek.NewState
		require.Equal(t, peek, reserve)
	})
}

// A refund by receipt takes back what the call used if its period still runs, and nothing
// otherwise, no matter which calls came in between.
func TestRefundByReceipt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, _ := drawRequest(t, now)
		q := quota.Quota{Request: first, State: drawState(t)}
		require.NoError(t, q.Charge(now))
		if q.Until == 0 {
			return
		}
		receipt := q.Until
		key := store(&q)
		at := now
		for range rapid.IntRange(0, 3).Draw(t, "callers since") {
			at += rapid.Int64Range(0, 4*millisecond).Draw(t, "later")
			window, err := quota.NewWindowRequest(5, 7*millisecond, rapid.Int64Range(0, 3).Draw(t, "quantity"))
			require.NoError(t, err)
			next := quota.Quota{Request: window, State: key}
			require.NoError(t, next.Charge(at))
			key = store(&next)
		}
		request, err := quota.NewRequest(5, receipt, first.Quantity())
		require.NoError(t, err)
		refund := quota.Quota{Request: request, State: key}
		refund.Refund(at)
		if at >= receipt {
			require.False(t, refund.Changes(), "the period has ended")
			return
		}
		require.Equal(t, key.Used-first.Quantity(), refund.NewState.Used)
	})
}
