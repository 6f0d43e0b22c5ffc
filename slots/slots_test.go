// Reserve keeps the bound, whatever the holders do. Package module/command compares each operation with package
// contract.

package slots_test

import (
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/slots"
)

const (
	millisecond = int64(1e6)

	// today is an instant in 2026, not on a millisecond.
	today = 1_800_000_000_000*millisecond + 1
)

// stateOf describes the slots that run, by holder, to one holder.
func stateOf(ends map[string]int64, holder string) slots.State {
	state := slots.State{Own: ends[holder], Running: int64(len(ends))}
	for other, end := range ends {
		if other == holder {
			continue
		}
		if state.First == 0 || end < state.First {
			state.First = end
		}
		state.Last = max(state.Last, end)
	}
	return state
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		limit, ttl int64
		want       error
	}{{-1, millisecond, slots.ErrLimit}, {math.MinInt64, 0, slots.ErrLimit}, {0, millisecond - 1, slots.ErrTTL}, {0, millisecond, nil}} {
		request, err := slots.NewRequest(c.limit, c.ttl)
		require.Equal(t, c.want, err, "%+v", c)
		require.Equal(t, err != nil, request == slots.Request{}, "a request beside an error: %+v", c)
	}
}

// Reserve lets no more than limit slots run, but holders renew theirs. A slot runs for its ttl, rounded up to the
// millisecond, and no longer.
func TestTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, ends := today, map[string]int64{} // of the slots that run, by holder
		for range 30 {
			now += rapid.Int64Range(0, 3*millisecond).Draw(t, "later")
			maps.DeleteFunc(ends, func(_ string, end int64) bool { return end*millisecond <= now })
			holder := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "holder")
			limit := rapid.Int64Range(0, 3).Draw(t, "limit")
			ttl := rapid.Int64Range(millisecond, 9*millisecond).Draw(t, "ttl")
			request, err := slots.NewRequest(limit, ttl)
			require.NoError(t, err)
			s, running, holds := slots.Slots{Request: request, State: stateOf(ends, holder)}, int64(len(ends)), ends[holder] > 0
			if rapid.IntRange(0, 2).Draw(t, "0: refund") == 0 {
				s.Refund(now)
				delete(ends, holder)
				require.Zero(t, s.Decision.End)
				continue
			}
			require.NoError(t, s.Reserve(now))
			require.Equal(t, !holds && running >= limit, s.Decision.Limited, "%d of %d run, and the holder's: %v", running, limit, holds)
			if !s.Decision.Limited {
				ends[holder] = (now + ttl + millisecond - 1) / millisecond
				require.Equal(t, ends[holder], s.Decision.End)
			}
			require.LessOrEqual(t, int64(len(ends)), max(running, limit))
		}
	})
}
