package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// A handler finds the Results on tokens, and no others.
func TestResultsFrom(t *testing.T) {
	_, ok := ResultFrom(t.Context())
	require.False(t, ok)
	require.Empty(t, ResultsFrom(t.Context()))
	for name, c := range map[string]struct {
		options []Option[string]
		want    []string // keys
	}{
		"one limit":   {want: []string{"{own:key}:rate"}},
		"with slots":  {options: slotsOf(1), want: []string{"{own:key}:rate"}},
		"two limits":  {options: also(slow(9)), want: []string{"{own:key}:rate", "{all:key}:rate"}},
		"all of that": {options: append(slotsOf(1), also(slow(9))...), want: []string{"{own:key}:rate", "{all:key}:rate"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := New("test", limiter.NewLocal(), "own", slow(5), callerOf, c.options...)
			d, err := p.Check(t.Context(), "key")
			require.NoError(t, err)
			require.Len(t, d.Names, len(d.Results), name)
			ctx, end := d.Begin(t.Context())
			defer end()
			got := []string{}
			for _, result := range ResultsFrom(ctx) {
				got = append(got, result.Key)
			}
			require.Equal(t, c.want, got, name)
			first, ok := ResultFrom(ctx)
			require.True(t, ok, name)
			require.Equal(t, d.Results[0], first, name)
		})
	}
}

// A request takes its cost from each limit. A cost of 0 is decided, and takes nothing. A cost that
// never fits is told as it is, even if the Limiter could not compute with it.
func TestCosts(t *testing.T) {
	for _, c := range []struct {
		cost      int
		refuses   bool
		remaining int
	}{
		{cost: 0, remaining: 5},
		{cost: 1, remaining: 4},
		{cost: 5, remaining: 0},
		{cost: 6, refuses: true, remaining: 5},
		{cost: math.MaxInt, refuses: true, remaining: 5},
	} {
		for name, options := range map[string][]Option[string]{"one limit": nil, "two": also(slow(9)), "slots": slotsOf(1)} {
			synctest.Test(t, func(t *testing.T) {
				cost := WithCost(func(string) int { return c.cost })
				p := New("test", limiter.NewLocal(), "own", slow(5), callerOf, append(options, cost)...)
				d, err := p.Check(t.Context(), "key")
				require.NoError(t, err)
				require.Equal(t, c.refuses, d.Refusing() == 0, "%d, %s", c.cost, name)
				require.Equal(t, c.cost, d.Results[0].Quantity, "%d, %s", c.cost, name)
				require.Equal(t, c.remaining, d.Results[0].Remaining, "%d, %s", c.cost, name)
				_, end := d.Begin(t.Context())
				end()
			})
		}
	}
}

// A part of a request takes tokens and no slot.
func TestCheckTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New("test", limiter.NewLocal(), "own", slow(3), callerOf, slotsOf(1)...)
		d, err := p.Check(t.Context(), "key")
		require.NoError(t, err)
		_, end := d.Begin(t.Context())
		defer end()
		for _, want := range []int{1, 0} {
			d, err := p.CheckTokens(t.Context(), "key")
			require.NoError(t, err)
			require.Equal(t, -1, d.Refusing())
			require.Equal(t, want, d.Results[0].Remaining)
			require.Len(t, d.Results, 1)
		}
		d, err = p.CheckTokens(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, 0, d.Refusing())
	})
}

func TestSkips(t *testing.T) {
	p := New("test", limiter.NewLocal(), "own", slow(1), callerOf)
	require.False(t, p.Skips("key"))
	p = New("test", limiter.NewLocal(), "own", slow(1), callerOf, WithSkip(func(r string) bool { return r == "key" }))
	require.True(t, p.Skips("key"))
	require.False(t, p.Skips("other"))
}

// A key of an option takes the place of the default.
func TestWithKey(t *testing.T) {
	p := New("test", limiter.NewLocal(), "own", slow(1), callerOf, WithKey(func(string) string { return "all" }))
	d, err := p.Check(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, "{own:all}:rate", d.Results[0].Key)
}
