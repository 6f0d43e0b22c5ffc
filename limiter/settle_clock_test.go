package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// onSteppedClocks runs a test by the module and in this process, with clocks that show the
// time since an instant that the test sets.
func onSteppedClocks(t *testing.T, test func(t *testing.T, l *limiter.Limiter, at func(since time.Duration))) {
	t.Run("module", func(t *testing.T) {
		client, clock := startStepped(t)
		test(t, clock.limiter(client), func(since time.Duration) { clock.advance(servertest.Epoch.Add(since).Sub(clock.now)) })
	})
	t.Run("local", func(t *testing.T) {
		l, now := limiter.NewLocal(), servertest.Epoch
		limiter.SetNow(l, func() time.Time { return now })
		test(t, l, func(since time.Duration) { now = servertest.Epoch.Add(since) })
	})
}

// The cases of Cancel that golang.org/x/time/rate tests (v0.16.0), in tenths of a second.
// There, nothing comes back after the turn, nor as much as was reserved behind it. Here, Settle
// of 0 says that the tokens were not used, whenever: those that have not leaked come back, and
// the next caller may go ahead together with the last in line. Comments tell what comes back
// there, and the turn of the last step, where they differ.
func TestSettleWhereOthersCancel(t *testing.T) {
	type step struct{ at, take, turn, perSecond int } // which takes tokens, 10 a second if 0
	const limited, back = -1, 0                       // a step that takes 0 settles the one whose index is turn, and perSecond come back
	type steps []step
	onSteppedClocks(t, func(t *testing.T, l *limiter.Limiter, at func(time.Duration)) {
		for name, c := range map[string]struct {
			burst int
			steps
		}{
			"invalid": {2, steps{{0, 2, 0, 0}, {0, 3, limited, 0}, {0, back, 1, 0}, {0, 2, 2, 0}}},
			"last":    {2, steps{{0, 2, 0, 0}, {0, 2, 2, 0}, {1, back, 1, 2}, {1, 2, 2, 0}}},
			// There 0 and 4: its turn is over. Of the two tokens one has not leaked.
			"too late": {2, steps{{0, 2, 0, 0}, {0, 2, 2, 0}, {3, back, 1, 1}, {3, 2, 3, 0}}},
			// There 0 and 3: one token was reserved behind it.
			"no tokens": {2, steps{{0, 2, 0, 0}, {0, 1, 1, 0}, {0, 1, 2, 0}, {0, back, 1, 1}, {0, 1, 2, 0}}},
			// There 1 and 4: as before.
			"one token": {2, steps{{0, 2, 0, 0}, {0, 2, 2, 0}, {0, 1, 3, 0}, {2, back, 1, 2}, {2, 2, 3, 0}}},
			// There 1, 2 and 5: one of those behind the first is left.
			"several": {4, steps{{0, 4, 0, 0}, {0, 3, 3, 0}, {0, 1, 4, 0}, {0, 1, 5, 0}, {1, back, 3, 1}, {1, back, 1, 3}, {1, 3, 4, 0}}},
			// There 1 and 4: its clock counts the time from 0 to 1 twice.
			"clock back": {2, steps{{1, 2, 1, 0}, {1, 2, 3, 0}, {1, 1, 4, 0}, {0, back, 1, 2}, {1, 2, 4, 0}}},
			// There 2 tokens and 3: it keeps tokens. Here it is a TAT, which no new rate changes.
			"new rate": {2, steps{{0, 2, 0, 5}, {0, 2, 4, 5}, {2, back, 1, 4}, {2, 2, 4, 10}}},
			// Of docs/commands.md: what has leaked does not come back, others' tokens stay taken.
			"other callers' tokens": {10, steps{{0, 10, 0, 0}, {11, 10, 11, 0}, {11, back, 0, 0}, {11, 10, 21, 0}}},
		} {
			const tick = 100 * time.Millisecond
			results := make([]limiter.Result, len(c.steps))
			for i, step := range c.steps {
				perSecond := step.perSecond
				if step.take == back || perSecond == 0 {
					perSecond = 10
				}
				limit, row := limiter.PerSecond(perSecond).Burst(c.burst), fmt.Sprintf("%s, step %d", name, i)
				at(time.Duration(step.at) * tick)
				before, err := l.Peek(t.Context(), name, limit)
				require.NoError(t, err)
				if step.take == back {
					_, err = l.Settle(t.Context(), &results[step.turn], 0)
					require.NoError(t, err)
					after, err := l.Peek(t.Context(), name, limit)
					require.NoError(t, err)
					require.Equal(t, time.Duration(step.perSecond)*tick, before.ResetAfter-after.ResetAfter, row)
					continue
				}
				results[i], err = l.Reserve(t.Context(), name, limit, step.take, time.Hour)
				require.NoError(t, err)
				if require.Equal(t, step.turn == limited, results[i].Limited(), row); !results[i].Limited() {
					require.Equal(t, time.Duration(step.turn-step.at)*tick, results[i].Wait, row)
				}
			}
		}
	})
}

// Settle leaves the TAT of a history in which the reservation took as much less as came back,
// if no earlier reservation was given back in between. A token is a nanosecond here.
func TestSettleUndoes(t *testing.T) {
	onSteppedClocks(t, func(tt *testing.T, l *limiter.Limiter, at func(time.Duration)) {
		type step struct{ at, quantity, settled, used int } // settled is the index of a Result, or -1
		ctx, limit := tt.Context(), limiter.Every(1).Burst(20)
		rapid.Check(tt, func(t *rapid.T) {
			steps, free, now := make([]step, rapid.IntRange(1, 12).Draw(t, "steps")), []int(nil), 0
			undone := rapid.IntRange(0, len(steps)-1).Draw(t, "undone")
			for i := range steps {
				now += rapid.IntRange(0, 8).Draw(t, "elapsed")
				steps[i] = step{now, rapid.IntRange(1, 12).Draw(t, "quantity"), -1, 0}
				if i == undone {
					free = nil
				} else if len(free) > 0 && rapid.Bool().Draw(t, "settle") {
					of := rapid.IntRange(0, len(free)-1).Draw(t, "of")
					steps[i].settled, steps[i].used = free[of], rapid.IntRange(0, steps[free[of]].quantity).Draw(t, "used")
					free = append(free[:of:of], free[of+1:]...)
				} else {
					free = append(free, i)
				}
			}
			level := func(result limiter.Result, err error) int {
				require.NoError(t, err)
				return int(result.ResetAfter)
			}
			run := func(less int) (int, *limiter.Result) {
				at(0)
				require.NoError(t, l.Reset(ctx, "key"))
				results, err := make([]limiter.Result, len(steps)), error(nil)
				for i, step := range steps {
					at(time.Duration(step.at))
					if i == undone {
						step.quantity -= less
					}
					if step.settled >= 0 {
						_, err = l.Settle(ctx, &results[step.settled], step.used)
					} else {
						results[i], err = l.Reserve(ctx, "key", limit, step.quantity, time.Hour)
					}
					require.NoError(t, err)
				}
				return level(l.Peek(ctx, "key", limit)), &results[undone]
			}
			before, result := run(0)
			_, err := l.Settle(ctx, result, rapid.IntRange(0, result.Allowed).Draw(t, "used at last"))
			require.NoError(t, err)
			after := level(l.Peek(ctx, "key", limit))
			want, _ := run(before - after)
			require.Equal(t, want, after)
		})
	})
}
