package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// The cases of Cancel that golang.org/x/time/rate tests (v0.16.0), in tenths of a second.
// There, nothing comes back after the turn, nor as much as was reserved behind it. Here, Settle
// of 0 says that the tokens were not used, whenever: those that have not leaked come back, and
// the next caller may go ahead together with the last in line. Comments tell what comes back
// there, and the turn of the last step, where they differ. The funnels are those of this
// process; test/command has those of the module.
func TestSettleWhereOthersCancel(t *testing.T) {
	type step struct{ at, take, turn, perSecond int } // which takes tokens, 10 a second if 0
	const limited, back = -1, 0                       // a step that takes 0 settles the one whose index is turn, and perSecond come back
	type steps []step
	l, now := limiter.NewLocal(), servertest.Epoch
	limiter.SetNow(l, func() time.Time { return now })
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
			now = servertest.Epoch.Add(time.Duration(step.at) * tick)
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
}
