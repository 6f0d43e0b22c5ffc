package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/servertest"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/calendar"
	inflight "funnel/slots"
)

// tokensOf returns a call for tokens of a funnel of 15 that leaks one each two seconds.
func tokensOf(t testing.TB, operation call.Operation, key string, quantity int64) *backend.Call {
	rate, err := gcra.NewRate(15, 30, int64(time.Minute))
	require.NoError(t, err)
	tokens, err := rate.Request(quantity)
	require.NoError(t, err)
	return &backend.Call{Operation: operation, Receipt: gcra.NoReceipt,
		Rows: []backend.AskedRow{{Key: key, Tokens: tokens, Quantity: int(quantity)}}}
}

// slotOf returns a call about a slot of a holder, for ttl.
func slotOf(t testing.TB, operation call.Operation, key, holder string, limit int64, ttl time.Duration) *backend.Call {
	slot, err := inflight.NewRequest(limit, int64(ttl))
	require.NoError(t, err)
	return &backend.Call{Operation: operation, Receipt: gcra.NoReceipt,
		Rows: []backend.AskedRow{{Key: key, Kind: call.Slots, Slot: slot, Holder: holder}}}
}

// ask asks rows, which must decide.
func ask(t testing.TB, rows *Rows, c *backend.Call) backend.Reply {
	t.Helper()
	reply, err := rows.Ask(context.Background(), c)
	require.NoError(t, err)
	return reply
}

func TestKeysGoWhenTheyHoldNothing(t *testing.T) {
	for name, call := range map[string]func(key string) *backend.Call{
		"funnels that have drained": func(key string) *backend.Call { return tokensOf(t, call.Reserve, key, 1) },
		"slots that have ended": func(key string) *backend.Call {
			return slotOf(t, call.Reserve, key, "holder", 1, time.Second)
		},
		"quotas whose period is over": func(key string) *backend.Call { return dayOf(call.Reserve, key) },
		"windows that are over":       func(key string) *backend.Call { return hourOf(call.Reserve, key) },
	} {
		now := time.Duration(0)
		rows := New(func() time.Duration { return now }, func() time.Time { return time.Unix(0, 0).Add(now) })
		for i := range 1000 {
			ask(t, rows, call(fmt.Sprint(i)))
			now += 24 * time.Hour
		}
		require.Less(t, rows.Len(), 50, name)
	}
}

// dayOf returns a call for one of three a day.
func dayOf(operation call.Operation, key string) *backend.Call {
	return quotaOf(operation, key, calendar.Days(time.UTC))
}

// hourOf returns a call for one of three in an hour from the first call.
func hourOf(operation call.Operation, key string) *backend.Call {
	return quotaOf(operation, key, calendar.Windows(time.Hour))
}

// quotaOf returns a call for one of three in each period of a calendar.
func quotaOf(operation call.Operation, key string, periods calendar.Calendar) *backend.Call {
	quota := backend.QuotaLimit{Limit: 3, Calendar: periods}
	return &backend.Call{Operation: operation, Receipt: gcra.NoReceipt,
		Rows: []backend.AskedRow{{Key: key, Kind: call.Quota, Quota: quota, Quantity: 1}}}
}

// Quotas use the wall clock, whatever the monotonic clock says: a machine that sleeps does not put
// off midnight.
func TestQuotasGoByTheWallClock(t *testing.T) {
	noon := time.Date(2026, 11, 24, 12, 0, 0, 123456, time.UTC)
	now, wall := time.Duration(0), noon
	rows := New(func() time.Duration { return now }, func() time.Time { return wall })
	for _, c := range []struct {
		name           string
		slept, elapsed time.Duration
		remaining      int64
		day            int // on which the period ends
	}{
		{"noon", 0, 0, 2, 25},
		{"after a day of the monotonic clock", 0, 24 * time.Hour, 1, 25},
		{"a millisecond before midnight", 12*time.Hour - time.Millisecond, 0, 0, 25},
		{"after midnight", time.Millisecond, 0, 2, 26},
		{"set back by an hour: counted, and cut", -time.Hour, 0, 1, 25},
		{"after midnight again", time.Hour, 0, 2, 26},
	} {
		now += c.elapsed
		wall = wall.Add(c.slept)
		reply := ask(t, rows, dayOf(call.Reserve, "key"))
		midnight := time.Date(2026, 11, c.day, 0, 0, 0, 0, time.UTC)
		state := fmt.Sprintf("%s, at %v: %+v", c.name, wall, reply.First)
		require.False(t, reply.Limited, state)
		require.Equal(t, c.remaining, reply.First.Remaining, state)
		require.InDelta(t, midnight.Sub(wall), reply.First.ResetAfter, float64(time.Millisecond), state)
		require.InDelta(t, midnight.UnixNano(), reply.First.Receipt, float64(time.Millisecond), state)
	}
}

// A window ends by the wall clock, too, but no call needs to know when. Each call is counted in the
// window that runs, even if the clock was set back before the call.
func TestWindowsBeginWithTheFirstCall(t *testing.T) {
	noon := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	wall := noon
	rows := New(func() time.Duration { return 0 }, func() time.Time { return wall })
	for _, c := range []struct {
		name      string
		at        time.Duration // after noon
		remaining int64
		end       time.Duration // after noon
	}{
		{"the first", 0, 2, time.Hour},
		{"half an hour later", 30 * time.Minute, 1, time.Hour},
		{"set back by an hour", -30 * time.Minute, 0, time.Hour},
		{"the first after the window", time.Hour, 2, 2 * time.Hour},
		{"the first after a pause", 9 * time.Hour, 2, 10 * time.Hour},
	} {
		wall = noon.Add(c.at)
		reply := ask(t, rows, hourOf(call.Reserve, "key"))
		state := fmt.Sprintf("%s, at %v: %+v", c.name, wall, reply.First)
		require.False(t, reply.Limited, state)
		require.Equal(t, c.remaining, reply.First.Remaining, state)
		require.Equal(t, c.end-c.at, reply.First.ResetAfter, state)
		require.Equal(t, noon.Add(c.end).UnixNano(), reply.First.Receipt, state)
	}
}

// holders.read returns the same state as a plain list of the slots.
func TestSlotsAgainstAList(t *testing.T) {
	random := rand.New(rand.NewPCG(servertest.Seed(t), 0))
	h, list := &holders{ends: map[string]int64{}}, map[string]int64{}
	now := int64(1000)
	for step := range 20_000 {
		now += random.Int64N(3)
		holder := fmt.Sprint(random.IntN(300))
		want := inflight.State{}
		others := []int64{}
		for other, end := range list {
			switch {
			case end <= now:
				delete(list, other)
				continue
			case other == holder:
				want.Own = end
			default:
				others = append(others, end)
			}
			want.Running++
		}
		if len(others) > 0 {
			want.First, want.Last = slices.Min(others), slices.Max(others)
		}
		require.Equal(t, want, h.read(holder, now), "step %d, holder %s at %d", step, holder, now)
		end := int64(0)
		if random.IntN(3) > 0 {
			end = now + 1 + random.Int64N(500)
		}
		h.set(holder, end)
		_, has := h.ends[holder]
		require.Equal(t, end > 0, has, "step %d: holder %s has a slot until %d", step, holder, end)
		list[holder] = end
		if end == 0 {
			delete(list, holder)
		}
	}
	require.Equal(t, len(h.byEnd), len(h.ends))
}

// Many slots of one key do not delay calls for other keys, because no call looks at all slots. If
// each call did, this test would take half a minute, and ten times as long with the race detector.
func TestManySlotsDelayNobody(t *testing.T) {
	const many = 40_000
	now := time.Duration(0)
	rows := New(func() time.Duration { now += time.Microsecond; return now }, time.Now)
	began := time.Now()
	for i := range many {
		reply, err := rows.Ask(t.Context(), slotOf(t, call.Reserve, "slots", strconv.Itoa(i), many, time.Minute))
		if err != nil || reply.Limited {
			t.Fatalf("slot %d: %+v, %v", i, reply, err)
		}
	}
	for i := range many { // with a limit of 0, as renewals have
		reply, err := rows.Ask(t.Context(), slotOf(t, call.Reserve, "slots", strconv.Itoa(i), 0, time.Minute))
		if err != nil || !reply.First.Held {
			t.Fatalf("renewal %d: %+v, %v", i, reply, err)
		}
	}
	now += time.Hour
	peeked := ask(t, rows, slotOf(t, call.Peek, "slots", "x", many, time.Minute))
	require.EqualValues(t, many, peeked.First.Remaining, "all have ended")
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestErrorsChangeNothing(t *testing.T) {
	rows := New(func() time.Duration { return 0 }, time.Now)
	c := tokensOf(t, call.Charge, "key", 1)
	rate, err := gcra.NewRate(1, 1, 4e18)
	require.NoError(t, err)
	c.Rows[0].Tokens, err = rate.Request(2)
	require.NoError(t, err)
	_, err = rows.Ask(t.Context(), c)
	require.ErrorIs(t, err, backend.ErrInvalid)
	require.ErrorIs(t, err, gcra.ErrTAT)
	require.Zero(t, rows.Len())
}
