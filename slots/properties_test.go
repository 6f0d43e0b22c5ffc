// What a series of calls can rely on.

package slots_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/internal/decision"
	"funnel/slots"
)

// A table has the slots of a key as a server keeps them: the end of each, in milliseconds, by
// holder.
type table map[string]int64

// of returns what a call of a holder finds.
func (ends table) of(holder string) slots.State {
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

// store stores what a call has decided.
func (ends table) store(holder string, s slots.Slots) {
	if s.End == 0 {
		delete(ends, holder)
		return
	}
	ends[holder] = s.End
}

// removeEnded removes the slots that have ended: a slot runs until the clock, in whole
// milliseconds, reaches its end.
func (ends table) removeEnded(at int64) {
	maps.DeleteFunc(ends, func(_ string, end int64) bool { return end <= at/millisecond })
}

func drawHolder(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "holder")
}

func drawRequest(t *rapid.T) (request slots.Request, limit, ttl int64) {
	limit = rapid.Int64Range(0, 3).Draw(t, "limit")
	ttl = rapid.Int64Range(millisecond, 9*millisecond).Draw(t, "ttl")
	request, err := slots.NewRequest(limit, ttl)
	require.NoError(t, err)
	return request, limit, ttl
}

// drawTable draws slots that run at the instant now, and may be more than any limit.
func drawTable(t *rapid.T) table {
	ends := table{}
	for _, holder := range []string{"a", "b", "c", "d", "e"} {
		if rapid.Bool().Draw(t, holder+" holds a slot") {
			ends[holder] = in(rapid.Int64Range(1, 9).Draw(t, "its end"))
		}
	}
	return ends
}

// Reserve never gives a slot if limit of them run. A slot runs for its ttl, rounded up to the
// millisecond, unless its holder renews it or gives it back, and a holder that has one always keeps
// it.
func TestReserveKeepsTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at, ends := now+1, table{}
		for range 30 {
			at += rapid.Int64Range(0, 3*millisecond).Draw(t, "later")
			ends.removeEnded(at)
			holder := drawHolder(t)
			running := int64(len(ends))
			holds := ends[holder] > 0
			request, limit, ttl := drawRequest(t)
			s := slots.Slots{Request: request, State: ends.of(holder)}
			if rapid.IntRange(0, 2).Draw(t, "0: refund") == 0 {
				s.Refund(at)
				ends.store(holder, s)
				require.NotContains(t, ends, holder)
				continue
			}
			require.NoError(t, s.Reserve(at))
			ends.store(holder, s)
			allowed := holds || running < limit
			require.Equal(t, !allowed, s.Limited, "%d of %d run, and the holder has one: %v", running, limit, holds)
			if allowed {
				require.GreaterOrEqual(t, ends[holder]*millisecond, at+ttl, "the slot runs for its ttl")
				require.Less(t, ends[holder]*millisecond, at+ttl+millisecond, "and for less than a millisecond more")
			}
			require.LessOrEqual(t, int64(len(ends)), max(running, limit))
			require.Equal(t, max(0, limit-int64(len(ends))), s.Remaining)
		}
	})
}

// After the Wait of a limited caller the first slot has ended, unless it was renewed, and not a
// nanosecond earlier. So the caller gets a slot if limit slots ran. If more ran, it may have to
// wait again.
func TestWaitEndsWithTheFirstSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := drawTable(t)
		holder := drawHolder(t)
		request, limit, _ := drawRequest(t)
		s := slots.Slots{Request: request, State: ends.of(holder)}
		require.NoError(t, s.Reserve(now))
		wait, running := s.Wait, int64(len(ends))
		if !s.Limited || limit == 0 {
			require.Equal(t, s.Limited, wait == decision.Never)
			return
		}
		require.Positive(t, wait)
		require.LessOrEqual(t, wait, s.ResetAfter)
		ends.removeEnded(now + wait - 1)
		require.Len(t, ends, int(running), "a nanosecond before the first ends")
		ends.removeEnded(now + wait)
		require.Less(t, int64(len(ends)), running, "one has ended")
		s.State = ends.of(holder)
		require.NoError(t, s.Reserve(now+wait))
		require.Equal(t, int64(len(ends)) >= limit, s.Limited, "%d of %d run", len(ends), limit)
	})
}

// Peek decides as Reserve would, and Undo brings back what Peek sees.
func TestPeekIsReserveUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := drawTable(t)
		holder := drawHolder(t)
		request, _, _ := drawRequest(t)
		peek := slots.Slots{Request: request, State: ends.of(holder)}
		require.NoError(t, peek.Peek(now))
		require.False(t, peek.Changes())
		reserve := peek
		require.NoError(t, reserve.Reserve(now))
		require.Equal(t, reserve.Limited, peek.Limited)
		require.Equal(t, reserve.Wait, peek.Wait)
		if !reserve.Limited {
			reserve.Undo(now)
		}
		require.Equal(t, peek, reserve)
	})
}
