package local_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/gcra/local"
)

// today is where the fake clocks start.
var today = time.Date(2027, time.January, 15, 8, 0, 0, 0, time.UTC)

// A fakeClock shows what the test sets it to.
type fakeClock struct{ sinceToday atomic.Int64 }

func (c *fakeClock) now() time.Time { return today.Add(time.Duration(c.sinceToday.Load())) }

func (c *fakeClock) advance(by time.Duration) { c.sinceToday.Add(int64(by)) }

// nanoseconds is the same instant as package gcra writes it.
func (c *fakeClock) nanoseconds() int64 { return c.now().UnixNano() }

func mustRate(t testing.TB, capacity, count int64, period time.Duration) gcra.Rate {
	t.Helper()
	rate, err := gcra.NewRate(capacity, count, int64(period))
	require.NoError(t, err)
	return rate
}

// Inside a synctest bubble time.Now moves when all goroutines sleep. A Funnel decides like one
// of a set, and an error changes nothing.
func TestNilIsTheSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := mustRate(t, 2, 1, time.Second)
		funnels, funnel := local.New(nil), local.NewFunnel(rate, nil)
		for _, step := range []struct {
			sleep   time.Duration
			limited bool
		}{{0, false}, {0, true}, {2*time.Second - 1, true}, {1, false}, {0, true}} {
			time.Sleep(step.sleep)
			inSet, err := funnels.Take("key", rate, 2)
			require.NoError(t, err)
			require.Equal(t, step.limited, inSet.Limited)
			require.Equal(t, time.Now().UnixNano()+inSet.ResetAfter, inSet.TAT)
			alone, err := funnel.Take(2)
			require.NoError(t, err)
			require.Equal(t, inSet, alone)
			_, err = funnel.Take(-1)
			require.Equal(t, gcra.ErrQuantity, err)
		}
	})
}
