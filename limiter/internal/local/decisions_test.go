// What each kind of row decides and keeps in this process: state, request, decision, state after.

package local

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/calendar"
)

// A process has rows, and clocks that a test moves. Its machine has slept for an hour since the
// rows were made, so the wall clock is an hour ahead of the monotonic clock.
type process struct {
	*Rows
	t    *testing.T
	now  time.Duration
	wall time.Time
}

// noon is when the rows of a process were made.
var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

const slept = time.Hour

func newProcess(t *testing.T) *process {
	p := &process{t: t, wall: noon}
	p.Rows = New(func() time.Duration { return p.now }, func() time.Time { return p.wall })
	p.wall = p.wall.Add(slept)
	return p
}

// goTo lets time pass until an instant after noon, by the monotonic clock.
func (p *process) goTo(at time.Duration) {
	p.wall = p.wall.Add(at - p.now)
	p.now = at
}

// decide describes the decision on the only row of a call: limited or not, what remains, the wait,
// the reset, and the receipt as the time since noon by the monotonic clock.
func (p *process) decide(c *backend.Call) string {
	reply, err := p.Ask(p.t.Context(), c)
	if err != nil {
		return err.Error()
	}
	row, word := reply.First, "ok"
	if row.Limited {
		word = "limited"
	}
	receipt := "none"
	if row.Receipt != 0 {
		receipt = time.Duration(row.Receipt - noon.UnixNano()).String()
	}
	text := fmt.Sprintf("%s, %d remain, wait %v, reset %v, receipt %s",
		word, row.Remaining, row.Wait, row.ResetAfter, receipt)
	if row.Held {
		text += ", held"
	}
	return text
}

// A funnel of 15 leaks a token each 2 seconds.
func TestFunnelInThisProcess(t *testing.T) {
	p := newProcess(t)
	for _, step := range []struct {
		at        time.Duration
		operation call.Operation
		quantity  int64
		want      string
	}{
		{0, call.Peek, 1, "ok, 15 remain, wait 0s, reset 0s, receipt none"},
		{0, call.Reserve, 10, "ok, 5 remain, wait 0s, reset 20s, receipt 20s"},
		{0, call.Reserve, 6, "limited, 5 remain, wait 2s, reset 20s, receipt none"},
		{4 * time.Second, call.Reserve, 6, "ok, 1 remain, wait 0s, reset 28s, receipt 32s"},
		{4 * time.Second, call.Charge, 5, "limited, 0 remain, wait 8s, reset 38s, receipt 42s"},
		{4 * time.Second, call.Peek, 0, "limited, 0 remain, wait 8s, reset 38s, receipt none"},
		{5 * time.Second, call.Refund, 10, "ok, 6 remain, wait 0s, reset 17s, receipt none"},
		{22*time.Second - 1, call.Reserve, 0, "ok, 14 remain, wait 0s, reset 1ns, receipt none"},
		{22 * time.Second, call.Reserve, 15, "ok, 0 remain, wait 0s, reset 30s, receipt 52s"},
	} {
		p.goTo(step.at)
		got := p.decide(tokensOf(t, step.operation, "key", step.quantity))
		require.Equal(t, step.want, got, "%v of %d at %v", step.operation, step.quantity, step.at)
	}
}

// Two holders share two slots for 10 seconds. A limit of 0 renews a slot, and takes none.
func TestSlotsInThisProcess(t *testing.T) {
	p := newProcess(t)
	for _, step := range []struct {
		at        time.Duration
		operation call.Operation
		holder    string
		limit     int64
		want      string
	}{
		{0, call.Reserve, "a", 2, "ok, 1 remain, wait 0s, reset 10s, receipt none"},
		{time.Second, call.Reserve, "b", 2, "ok, 0 remain, wait 0s, reset 10s, receipt none"},
		{time.Second, call.Reserve, "c", 2, "limited, 0 remain, wait 9s, reset 10s, receipt none"},
		{2 * time.Second, call.Reserve, "a", 0, "ok, 0 remain, wait 0s, reset 10s, receipt none, held"},
		{2 * time.Second, call.Refund, "b", 2, "ok, 1 remain, wait 0s, reset 10s, receipt none, held"},
		{2 * time.Second, call.Refund, "b", 2, "ok, 1 remain, wait 0s, reset 10s, receipt none"},
		{12*time.Second - time.Millisecond, call.Peek, "x", 2, "ok, 1 remain, wait 0s, reset 1ms, receipt none"},
		{12 * time.Second, call.Reserve, "a", 0, "limited, 0 remain, wait -1ns, reset 0s, receipt none"},
		{12 * time.Second, call.Peek, "x", 2, "ok, 2 remain, wait 0s, reset 0s, receipt none"},
	} {
		p.goTo(step.at)
		got := p.decide(slotOf(t, step.operation, "key", step.holder, step.limit, 10*time.Second))
		require.Equal(t, step.want, got,
			"%v by %s with a limit of %d at %v", step.operation, step.holder, step.limit, step.at)
	}
}

// A quota of 3 until an instant, by the wall clock, which is an hour ahead. Once it has ended, each
// call is limited for good, and a refund changes nothing.
func TestQuotaInThisProcess(t *testing.T) {
	p := newProcess(t)
	const end = slept + time.Minute // after noon, by the wall clock
	once := calendar.Once(noon.Add(end))
	for _, step := range []struct {
		at        time.Duration
		operation call.Operation
		quantity  int
		want      string
	}{
		{0, call.Peek, 1, "ok, 3 remain, wait 0s, reset 0s, receipt none"},
		{0, call.Reserve, 2, "ok, 1 remain, wait 0s, reset 1m0s, receipt 1h1m0s"},
		{time.Second, call.Reserve, 2, "limited, 1 remain, wait 59s, reset 59s, receipt none"},
		{time.Second, call.Charge, 2, "limited, 0 remain, wait 59s, reset 59s, receipt 1h1m0s"},
		{time.Second, call.Refund, 3, "ok, 2 remain, wait 0s, reset 59s, receipt none"},
		{time.Minute - 1, call.Reserve, 1, "ok, 1 remain, wait 0s, reset 1ns, receipt 1h1m0s"},
		{time.Minute, call.Reserve, 1, "limited, 0 remain, wait -1ns, reset 0s, receipt none"},
		{time.Minute, call.Peek, 1, "limited, 0 remain, wait -1ns, reset 0s, receipt none"},
	} {
		p.goTo(step.at)
		c := quotaOf(step.operation, "key", once)
		c.Rows[0].Quantity = step.quantity
		require.Equal(t, step.want, p.decide(c), "%v of %d at %v", step.operation, step.quantity, step.at)
	}
}

// A key holds one kind of row, until what it holds is over.
func TestKindsOfAKey(t *testing.T) {
	kinds := map[string]func(t *testing.T) *backend.Call{
		"funnel": func(t *testing.T) *backend.Call { return tokensOf(t, call.Reserve, "key", 5) },
		"slots":  func(t *testing.T) *backend.Call { return slotOf(t, call.Reserve, "key", "a", 2, 10*time.Second) },
		"quota": func(*testing.T) *backend.Call {
			return quotaOf(call.Reserve, "key", calendar.Once(noon.Add(slept+10*time.Second)))
		},
	}
	later := map[string]func(t *testing.T) *backend.Call{
		"funnel": kinds["funnel"],
		"slots":  kinds["slots"],
		"quota":  func(*testing.T) *backend.Call { return dayOf(call.Reserve, "key") },
	}
	for first, take := range kinds {
		for second, other := range later {
			if first == second {
				continue
			}
			p := newProcess(t)
			ask(t, p.Rows, take(t))
			for _, at := range []time.Duration{0, 10*time.Second - time.Millisecond} {
				p.goTo(at)
				_, err := p.Ask(t.Context(), other(t))
				require.ErrorIs(t, err, errOtherKind, "%s on a key with %s, %v after it was taken for 10 s", second, first, at)
				require.ErrorIs(t, err, backend.ErrInvalid)
				require.ErrorContains(t, err, `limiter: key "key": `)
			}
			p.goTo(10 * time.Second)
			require.False(t, ask(t, p.Rows, other(t)).Limited, "%s on a key with %s that is over", second, first)
		}
	}
}

// After Reset a key holds nothing, whatever it held.
func TestResetInThisProcess(t *testing.T) {
	for name, c := range map[string]*backend.Call{
		"funnel": tokensOf(t, call.Reserve, "key", 15),
		"slots":  slotOf(t, call.Reserve, "key", "a", 1, time.Hour),
		"quota":  quotaOf(call.Reserve, "key", calendar.Days(time.UTC)),
	} {
		p := newProcess(t)
		empty := p.decide(c)
		require.NotContains(t, empty, "limited", name)
		require.NoError(t, p.Reset(t.Context(), "another key"), name)
		require.NotEqual(t, empty, p.decide(c), "%s, of another key", name)
		require.NoError(t, p.Reset(t.Context(), "key"), name)
		require.Equal(t, empty, p.decide(c), "%s, after Reset", name)
	}
	gone, giveUp := context.WithCancelCause(t.Context())
	giveUp(errors.New("gone"))
	require.EqualError(t, newProcess(t).Reset(gone, "key"), "gone")
}
