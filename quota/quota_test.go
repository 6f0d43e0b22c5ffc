// What each operation answers and stores, by the table of the contract. Times in the table are in seconds from now.

package quota_test

import (
	"fmt"
	"math"
	"strings"
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

// A row of the table is a call: an operation, the limit, until and the quantity. Before it and after it the key holds
// what is used, and when it expires. The reply is limited, remaining, wait, reset after and until.
func TestOperations(t *testing.T) {
	for _, c := range []struct{ name, call, before, want, after string }{
		{"the first call opens the period", "reserve 10 60 3", "", "0 7 0 60 60", "3@60"},
		{"all of the limit may be used", "reserve 10 60 7", "3@60", "0 0 0 60 60", "10@60"},
		{"one more does not fit", "reserve 10 60 8", "3@60", "1 7 60 60 0", "3@60"},
		{"more than the limit never fits", "reserve 10 60 11", "3@60", "1 7 -1 60 0", "3@60"},
		{"0 is never limited", "reserve 10 60 0", "12@60", "0 0 0 60 0", "12@60"},
		{"0 opens no period", "reserve 0 60 0", "", "0 0 0 0 0", ""},
		{"a later period has to wait", "reserve 10 90 1", "3@60", "0 6 0 60 60", "4@60"},
		{"an earlier period applies at once", "reserve 10 30 1", "3@60", "0 6 0 30 30", "4@30"},
		{"limited, it is cut, too", "reserve 3 30 1", "3@60", "1 0 30 30 0", "3@30"},
		{"asked for 0, it is cut, too", "reserve 10 30 0", "3@60", "0 7 0 30 0", "3@30"},
		{"undone, it is cut, too", "undo 10 30 1", "3@60", "0 7 0 30 0", "3@30"},
		{"undone, nothing is used", "undo 10 60 1", "", "0 10 0 0 0", ""},
		{"a key without expiry gets one", "reserve 3 60 1", "3@", "1 0 60 60 0", "3@60"},
		{"a key that has expired is none", "reserve 10 60 1", "9@0", "0 9 0 60 60", "1@60"},
		{"a key that has expired is left alone by 0", "reserve 10 60 0", "9@0", "0 10 0 0 0", ""},

		{"a take of what fits", "take 10 60 9", "3@60", "1 0 60 60 60", "10@60"},
		{"a take of all", "take 10 60 7", "3@60", "0 0 0 60 60", "10@60"},
		{"a take of more than the limit", "take 10 60 20", "", "1 0 60 60 60", "10@60"},
		{"a take of nothing that is left", "take 10 30 1", "12@60", "1 0 30 30 0", "12@30"},
		{"a take of a limit of 0", "take 0 60 1", "", "1 0 -1 0 0", ""},
		{"a peek changes nothing", "peek 10 60 3", "3@60", "0 7 0 60 0", "3@60"},
		{"a peek that is limited", "peek 10 60 8", "3@60", "1 7 60 60 0", "3@60"},
		{"a peek cuts nothing", "peek 10 30 8", "3@60", "1 7 30 30 0", "3@60"},
		{"a charge up to the limit", "charge 10 60 7", "3@60", "0 0 0 60 60", "10@60"},
		{"a charge above the limit", "charge 10 30 20", "3@60", "1 0 30 30 30", "23@30"},
		{"a charge of 0 is never limited", "charge 10 60 0", "12@60", "0 0 0 60 0", "12@60"},
		{"a refund", "refund 10 60 3", "12@60", "0 1 0 60 0", "9@60"},
		{"a refund of all", "refund 10 60 12", "12@60", "0 10 0 0 0", ""},
		{"a refund of more than is used", "refund 10 60 99", "12@60", "0 10 0 0 0", ""},
		{"a refund of 0", "refund 10 60 0", "3@", "0 7 0 60 0", "3@"},
		{"a refund of nothing", "refund 10 60 3", "", "0 10 0 0 0", ""},
		{"a refund cuts nothing", "refund 10 30 1", "3@60", "0 8 0 30 0", "2@60"},
		{"a refund to a key without expiry", "refund 10 60 1", "3@", "0 8 0 60 0", "2@60"},
		{"a refund of an ended period", "refund 10 0 3", "3@60", "0 7 0 60 0", "3@60"},
		{"a refund of an ended period, without expiry", "refund 10 0 3", "3@", "0 7 0 0 0", "3@"},
		{"a refund to a key that has expired", "refund 10 60 3", "9@0", "0 10 0 0 0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var operation string
			var limit, until, quantity int64
			_, err := fmt.Sscan(c.call, &operation, &limit, &until, &quantity)
			require.NoError(t, err)
			request, err := quota.NewRequest(limit, now+until*second, quantity)
			require.NoError(t, err)
			q := quota.Quota{Request: request, State: stateOf(t, c.before), Taken: 77,
				Decision: quota.Decision{Limited: true, Limit: 77, Remaining: 77, Wait: 77, ResetAfter: 77, Until: 77}}
			require.NoError(t, operations[operation](&q, now))
			d := q.Decision
			limited, wait, end := 0, d.Wait, max(d.Until, now)
			if d.Limited {
				limited = 1
			}
			if wait != quota.Never {
				wait /= second
			}
			require.Equal(t, c.want, fmt.Sprint(limited, d.Remaining, wait, d.ResetAfter/second, (end-now)/second))
			require.Equal(t, limit, d.Limit)
			require.Equal(t, stateOf(t, c.after), d.State)
			hadExpired := strings.HasSuffix(c.before, "@0") && c.after == ""
			require.Equal(t, c.after != c.before && !hadExpired, q.Changes(), "whether the state must be stored")
			if operation == "take" {
				require.Equal(t, min(quantity, max(0, limit-stateOf(t, c.before).Used)), q.Taken)
			}
		})
	}
}

// stateOf reads a state such as 3@60, of which 3 is used until the key expires in 60 seconds; 3@ never expires.
func stateOf(t *testing.T, text string) (state quota.State) {
	used, expiry, _ := strings.Cut(text, "@")
	if used != "" {
		_, err := fmt.Sscan(used, &state.Used)
		require.NoError(t, err)
	}
	if expiry != "" {
		_, err := fmt.Sscan(expiry, &state.Expiry)
		require.NoError(t, err)
		state.Expiry = now/1e6 + state.Expiry*1000
	}
	return state
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
