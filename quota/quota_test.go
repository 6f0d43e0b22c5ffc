// What each operation answers and stores, by the table of the contract. Times are in seconds from now, unless a case
// is about milliseconds and nanoseconds.

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

// none is the expiry of a key that does not expire, and at that of a key that expires so many seconds from now.
const none = int64(0)

func at(seconds int64) int64 { return (now + seconds*second) / 1e6 }

// quotaOf is a call for a quantity of a limit until so many seconds from now. Its Decision and Taken hold numbers of
// an earlier call.
func quotaOf(t require.TestingT, limit, until, quantity int64, state quota.State) *quota.Quota {
	request, err := quota.NewRequest(limit, now+until*second, quantity)
	require.NoError(t, err)
	return &quota.Quota{Request: request, State: state, Taken: 77,
		Decision: quota.Decision{Limited: true, Limit: 77, Remaining: 77, Wait: 77, ResetAfter: 77, Until: 77}}
}

func TestOperations(t *testing.T) {
	type state = quota.State
	// An answer is limited, remaining, wait, reset after and until, in seconds; until is from now, and 0 for none.
	type answer struct {
		limited                            bool
		remaining, wait, resetAfter, until int64
	}
	for name, c := range map[string]struct {
		operation              string
		limit, until, quantity int64
		before                 state
		want                   answer
		after                  state
		changes                bool
	}{
		"the first call opens the period":   {"reserve", 10, 60, 3, state{}, answer{false, 7, 0, 60, 60}, state{3, at(60)}, true},
		"all of the limit may be used":      {"reserve", 10, 60, 7, state{3, at(60)}, answer{false, 0, 0, 60, 60}, state{10, at(60)}, true},
		"one more does not fit":             {"reserve", 10, 60, 8, state{3, at(60)}, answer{true, 7, 60, 60, 0}, state{3, at(60)}, false},
		"more than the limit never fits":    {"reserve", 10, 60, 11, state{3, at(60)}, answer{true, 7, -1, 60, 0}, state{3, at(60)}, false},
		"0 is never limited":                {"reserve", 10, 60, 0, state{12, at(60)}, answer{false, 0, 0, 60, 0}, state{12, at(60)}, false},
		"0 opens no period":                 {"reserve", 0, 60, 0, state{}, answer{false, 0, 0, 0, 0}, state{}, false},
		"a later period has to wait":        {"reserve", 10, 90, 1, state{3, at(60)}, answer{false, 6, 0, 60, 60}, state{4, at(60)}, true},
		"an earlier period applies at once": {"reserve", 10, 30, 1, state{3, at(60)}, answer{false, 6, 0, 30, 30}, state{4, at(30)}, true},
		"limited, it is cut, too":           {"reserve", 3, 30, 1, state{3, at(60)}, answer{true, 0, 30, 30, 0}, state{3, at(30)}, true},
		"asked for 0, it is cut, too":       {"reserve", 10, 30, 0, state{3, at(60)}, answer{false, 7, 0, 30, 0}, state{3, at(30)}, true},
		"undone, it is cut, too":            {"undo", 10, 30, 1, state{3, at(60)}, answer{false, 7, 0, 30, 0}, state{3, at(30)}, true},
		"undone, nothing is used":           {"undo", 10, 60, 1, state{}, answer{false, 10, 0, 0, 0}, state{}, false},
		"a key without expiry gets one":     {"reserve", 3, 60, 1, state{3, none}, answer{true, 0, 60, 60, 0}, state{3, at(60)}, true},
		"a key that has expired is none":    {"reserve", 10, 60, 1, state{9, at(0)}, answer{false, 9, 0, 60, 60}, state{1, at(60)}, true},
		"which 0 does not remove":           {"reserve", 10, 60, 0, state{9, at(0)}, answer{false, 10, 0, 0, 0}, state{}, false},

		"a take of what fits":                {"take", 10, 60, 9, state{3, at(60)}, answer{true, 0, 60, 60, 60}, state{10, at(60)}, true},
		"a take of all":                      {"take", 10, 60, 7, state{3, at(60)}, answer{false, 0, 0, 60, 60}, state{10, at(60)}, true},
		"a take of more than the limit":      {"take", 10, 60, 20, state{}, answer{true, 0, 60, 60, 60}, state{10, at(60)}, true},
		"a take of nothing that is left":     {"take", 10, 30, 1, state{12, at(60)}, answer{true, 0, 30, 30, 0}, state{12, at(30)}, true},
		"a take of a limit of 0":             {"take", 0, 60, 1, state{}, answer{true, 0, -1, 0, 0}, state{}, false},
		"a peek changes nothing":             {"peek", 10, 60, 3, state{3, at(60)}, answer{false, 7, 0, 60, 0}, state{3, at(60)}, false},
		"a peek that is limited":             {"peek", 10, 60, 8, state{3, at(60)}, answer{true, 7, 60, 60, 0}, state{3, at(60)}, false},
		"a peek cuts nothing":                {"peek", 10, 30, 8, state{3, at(60)}, answer{true, 7, 30, 30, 0}, state{3, at(60)}, false},
		"a charge up to the limit":           {"charge", 10, 60, 7, state{3, at(60)}, answer{false, 0, 0, 60, 60}, state{10, at(60)}, true},
		"a charge above the limit":           {"charge", 10, 30, 20, state{3, at(60)}, answer{true, 0, 30, 30, 30}, state{23, at(30)}, true},
		"a charge of 0 is never limited":     {"charge", 10, 60, 0, state{12, at(60)}, answer{false, 0, 0, 60, 0}, state{12, at(60)}, false},
		"a refund":                           {"refund", 10, 60, 3, state{12, at(60)}, answer{false, 1, 0, 60, 0}, state{9, at(60)}, true},
		"a refund of all":                    {"refund", 10, 60, 12, state{12, at(60)}, answer{false, 10, 0, 0, 0}, state{}, true},
		"a refund of more than is used":      {"refund", 10, 60, 99, state{12, at(60)}, answer{false, 10, 0, 0, 0}, state{}, true},
		"a refund of 0":                      {"refund", 10, 60, 0, state{3, none}, answer{false, 7, 0, 60, 0}, state{3, none}, false},
		"a refund of nothing":                {"refund", 10, 60, 3, state{}, answer{false, 10, 0, 0, 0}, state{}, false},
		"a refund cuts nothing":              {"refund", 10, 30, 1, state{3, at(60)}, answer{false, 8, 0, 30, 0}, state{2, at(60)}, true},
		"a refund to a key without expiry":   {"refund", 10, 60, 1, state{3, none}, answer{false, 8, 0, 60, 0}, state{2, at(60)}, true},
		"a refund of an ended period":        {"refund", 10, 0, 3, state{3, at(60)}, answer{false, 7, 0, 60, 0}, state{3, at(60)}, false},
		"which ends if nobody says when":     {"refund", 10, 0, 3, state{3, none}, answer{false, 7, 0, 0, 0}, state{3, none}, false},
		"a refund to a key that has expired": {"refund", 10, 60, 3, state{9, at(0)}, answer{false, 10, 0, 0, 0}, state{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			q := quotaOf(t, c.limit, c.until, c.quantity, c.before)
			require.NoError(t, operations[c.operation](q, now))
			got := q.Decision
			until := got.Until
			if until != 0 {
				until = (until - now) / second
			}
			wait := got.Wait
			if wait != quota.Never {
				wait /= second
			}
			require.Equal(t, c.want, answer{got.Limited, got.Remaining, wait, got.ResetAfter / second, until})
			require.Equal(t, c.limit, got.Limit)
			require.Equal(t, c.after, got.State)
			require.Equal(t, c.changes, q.Changes(), "whether the state must be stored")
			if c.operation == "take" {
				require.Equal(t, min(c.quantity, max(0, c.limit-c.before.Used)), q.Taken)
			}
		})
	}
}

// The key expires at the millisecond after until, but the period ends at until. The period of a key that expires a
// millisecond earlier ends with the key.
func TestPeriodsEndOnTheNanosecond(t *testing.T) {
	request, err := quota.NewRequest(10, now+1_000_001, 1)
	require.NoError(t, err)
	for expiry, want := range map[int64]quota.Decision{
		now/1e6 + 3: {Limit: 10, Remaining: 8, ResetAfter: 1_000_001, Until: now + 1_000_001, State: quota.State{Used: 2, Expiry: now/1e6 + 2}},
		now/1e6 + 2: {Limit: 10, Remaining: 8, ResetAfter: 1_000_001, Until: now + 1_000_001, State: quota.State{Used: 2, Expiry: now/1e6 + 2}},
		now/1e6 + 1: {Limit: 10, Remaining: 8, ResetAfter: 1_000_000, Until: now + 1_000_000, State: quota.State{Used: 2, Expiry: now/1e6 + 1}},
	} {
		q := quota.Quota{Request: request, State: quota.State{Used: 1, Expiry: expiry}}
		require.NoError(t, q.Reserve(now))
		require.Equal(t, want, q.Decision, "expiry %d", expiry)
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
		q := quotaOf(t, 10, 0, 1, quota.State{Used: 3})
		want := error(quota.ErrEnded)
		if name == "refund" {
			want = nil
		}
		require.Equal(t, want, operation(q, now), "%s at the end of the period", name)
	}
	for used, want := range map[int64]error{math.MaxInt64 - 5: nil, math.MaxInt64 - 4: quota.ErrUsed} {
		q := quotaOf(t, 10, 60, 5, quota.State{Used: used, Expiry: at(60)})
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
