package policy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A request of these tests is the key of its caller.
func callerOf(r string) string { return r }

// slow returns a limit whose funnel leaks nothing while a test runs.
func slow(capacity int) limiter.Limit { return limiter.Per(1, 24*time.Hour).WithCapacity(capacity) }

// A slot goes back in the background. If Redis does not decide, it is asked again each tenth of the
// TTL, until the TTL is over.
func TestReleaseGoesOnUntilItIsDecided(t *testing.T) {
	const ttl = 10 * time.Second
	for name, c := range map[string]struct {
		failures int // of the calls that give the slot back
		failure  error
		asked    int
		took     time.Duration
	}{
		"answered at once":       {0, nil, 1, 0},
		"answered after a stall": {3, errors.New("no answer"), 4, 3 * time.Second},
		"never answered":         {1000, errors.New("no answer"), 11, ttl},
		"a server that loads":    {3, servertest.ErrorReply("LOADING"), 4, 3 * time.Second},
		"a key of another type":  {1000, servertest.ErrorReply("WRONGTYPE"), 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked, last := 0, time.Time{}
			l := limiter.New(client(func(command *redis.Cmd) error {
				held := "0"
				if command.Name() == "cl.refund" {
					asked, last, held = asked+1, time.Now(), "5"
					if asked <= c.failures {
						return c.failure
					}
				}
				rows := []any{
					[]any{int64(0), int64(1), int64(0), "0", "5", "41"},
					[]any{int64(0), int64(1), int64(0), "0", "5", held},
				}
				command.SetVal([]any{int64(0), "0", rows[len(rows)-len(command.Args())/5:]})
				return nil
			}))
			p := New("test", l, "name", limiter.PerSecond(1), callerOf, WithSlots[string](limiter.Slots{Max: 1, TTL: ttl}))
			d, err := p.Check(t.Context(), "key")
			require.NoError(t, err, name)
			require.Equal(t, -1, d.Refusing(), name)
			ctx, end := d.Begin(t.Context())
			require.NoError(t, ctx.Err(), name)
			began := time.Now()
			end()
			require.Equal(t, began, time.Now(), "%s: the answer waits", name)
			time.Sleep(2 * ttl)
			synctest.Wait()
			require.Equal(t, c.asked, asked, name)
			require.Equal(t, c.took, last.Sub(began), name)
		})
	}
}

// A client answers commands by a function.
type client func(command *redis.Cmd) error

func (f client) Process(_ context.Context, command redis.Cmder) error { return f(command.(*redis.Cmd)) }

// A caller who leaves gets no decision, and leaves nothing behind, whenever it leaves: before the
// call, while it is decided, or in the moment between. Leases and Shadow have no Settle, so their
// tokens stay used.
func TestCallersWhoLeave(t *testing.T) {
	const capacity = 5
	limits := []struct {
		name  string
		limit limiter.Limit
	}{
		{name: "rate", limit: slow(capacity)},
		{name: "quota", limit: limiter.Daily(capacity, time.UTC)},
		{name: "window", limit: limiter.Window(capacity, time.Hour)},
	}
	for _, of := range limits {
		for name, c := range map[string]struct {
			options []Option[string]
			leaves  string // before the call, after the decision of a row, or never
			cost    int
			isPlain bool // a Limiter without Settle
			want    int  // tokens that remain
		}{
			"before the call":              {leaves: "before", cost: 2, want: capacity},
			"decided":                      {leaves: "decided", cost: 2, want: capacity},
			"decided, of no cost":          {leaves: "decided", cost: 0, want: capacity},
			"refused":                      {leaves: "decided", cost: 6, want: capacity},
			"decided, without Settle":      {leaves: "decided", cost: 2, isPlain: true, want: capacity - 2},
			"decided, with slots":          {options: slotsOf(1), leaves: "decided", cost: 2, want: capacity},
			"refused, with slots":          {options: slotsOf(1), leaves: "decided", cost: 6, want: capacity},
			"before the call, with slots":  {options: slotsOf(1), leaves: "before", cost: 2, want: capacity},
			"decided, with another limit":  {options: also(of.limit), leaves: "decided", cost: 2, want: capacity},
			"refused, by another limit":    {options: also(slow(1)), leaves: "decided", cost: 2, want: capacity},
			"nobody leaves":                {leaves: "never", cost: 2, want: capacity - 2},
			"nobody leaves, another limit": {options: also(of.limit), leaves: "never", cost: 2, want: capacity - 2},
		} {
			synctest.Test(t, func(t *testing.T) {
				what, gone := fmt.Sprintf("%s, %s", of.name, name), errors.New("gone")
				ctx, leave := context.WithCancelCause(t.Context())
				l := limiter.NewLocal(limiter.WithHook(func(_ context.Context, event limiter.Event) {
					if event.Command == "reserve" && c.leaves == "decided" {
						leave(gone)
					}
				}))
				if c.leaves == "before" {
					leave(gone)
				}
				var asks limiter.Allower = l
				if c.isPlain {
					asks = struct{ limiter.Allower }{l}
				}
				p := New("test", asks, "own", of.limit, callerOf,
					append(c.options, WithCost(func(string) int { return c.cost }))...)
				d, err := p.Check(ctx, "key")
				if c.leaves == "never" {
					require.NoError(t, err, what)
				} else {
					require.ErrorIs(t, err, gone, what)
					require.Empty(t, d, what)
				}
				left, err := l.Drain(t.Context())
				require.NoError(t, err, what)
				require.Zero(t, left, what)
				for _, name := range []string{"own", "all"} {
					result, err := l.Peek(t.Context(), LimitKey(name, "key", of.limit), of.limit)
					require.NoError(t, err, what)
					if name == "own" || c.options != nil && c.leaves != "never" {
						require.Equal(t, c.want, result.Remaining, "%s, %s: tokens", what, name)
					}
				}
				slots, err := l.PeekAll(t.Context(), limiter.Slots{Max: 1, TTL: time.Minute}.At(SlotsKey("own", "key")))
				require.NoError(t, err, what)
				require.Equal(t, 1, slots[0].Remaining, "%s: slots", what)
			})
		}
	}
}

func slotsOf(most int) []Option[string] {
	return []Option[string]{WithSlots[string](limiter.Slots{Max: most, TTL: time.Minute})}
}

func also(limit limiter.Limit) []Option[string] {
	return []Option[string]{WithAlso("all", limit, callerOf)}
}

// A caller who leaves when its handler has begun has used its tokens. Its slot goes back when the
// handler returns.
func TestCallersWhoLeaveTheirHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.NewLocal()
		p := New("test", l, "own", slow(5), callerOf, slotsOf(1)...)
		ctx, leave := context.WithCancel(t.Context())
		d, err := p.Check(ctx, "key")
		require.NoError(t, err)
		inside, end := d.Begin(ctx)
		leave()
		require.ErrorIs(t, inside.Err(), context.Canceled)
		free := func() int {
			slots, err := l.PeekAll(t.Context(), limiter.Slots{Max: 1, TTL: time.Minute}.At(SlotsKey("own", "key")))
			require.NoError(t, err)
			return slots[0].Remaining
		}
		require.Equal(t, 0, free(), "the handler runs")
		end()
		_, err = l.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, free())
		result, err := l.Peek(t.Context(), LimitKey("own", "key", slow(5)), slow(5))
		require.NoError(t, err)
		require.Equal(t, 4, result.Remaining)
	})
}

// The limit of a request may be of another kind than the limit of the one before: each is counted
// under its own key.
func TestLimitsOfAnyKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := []limiter.Limit{slow(3), limiter.Daily(3, time.UTC), limiter.Window(3, time.Hour),
			limiter.AtMost(3, time.Hour, 3)}
		l := limiter.NewLocal()
		var limit limiter.Limit
		of := func(string) limiter.Limit { return limit }
		for _, options := range [][]Option[string]{nil, slotsOf(9), {WithAlso("all", of, callerOf)}} {
			p := New("test", l, "own", of, callerOf, options...)
			for _, limit = range kinds {
				d, err := p.Check(t.Context(), "key")
				require.NoError(t, err, "%v", limit)
				require.Equal(t, limit, d.Results[0].Limit)
				_, end := d.Begin(t.Context())
				end()
			}
		}
	})
}

// RetryAfter is what the headers say, to the second.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		result limiter.Result
		want   time.Duration
	}{
		{result: limiter.Result{RetryAfter: 1}, want: time.Second},
		{result: limiter.Result{RetryAfter: time.Second}, want: time.Second},
		{result: limiter.Result{RetryAfter: time.Second + 1}, want: 2 * time.Second},
		{result: limiter.Result{RetryAfter: limiter.NoRetry}, want: 0},
		{result: limiter.Result{RetryAfter: limiter.NoRetry - 1}, want: 9223372036 * time.Second},
		{result: limiter.Result{RetryAfter: time.Hour, Slots: limiter.Slots{Max: 1}}, want: time.Second},
	} {
		require.Equal(t, c.want, RetryAfter(c.result), "%+v", c.result)
	}
}

// Of several limits that refuse, the one with the longest wait does; of equal ones the first.
func TestRefusing(t *testing.T) {
	after := func(wait time.Duration) limiter.Result { return limiter.Result{RetryAfter: wait} }
	fits := limiter.Result{OK: true}
	slot := limiter.Result{RetryAfter: time.Hour, Slots: limiter.Slots{Max: 1}}
	for _, c := range []struct {
		results limiter.Results
		want    int
	}{
		{results: nil, want: -1},
		{results: limiter.Results{fits, fits}, want: -1},
		{results: limiter.Results{fits, after(0)}, want: 1},
		{results: limiter.Results{after(1), after(3), fits, after(2)}, want: 1},
		{results: limiter.Results{fits, after(2), after(2)}, want: 1},
		{results: limiter.Results{after(time.Hour), after(limiter.NoRetry)}, want: 1},
		{results: limiter.Results{after(2 * time.Second), slot}, want: 0},
		{results: limiter.Results{after(time.Millisecond), slot}, want: 1},
	} {
		require.Equal(t, c.want, Refusing(c.results), "%+v", c.results)
	}
}
