package local_test

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/gcra/local"
)

// Beside an error the answer is false.
func TestIsActionAllowedErrors(t *testing.T) {
	// One second before the end of 63 bits.
	funnels := local.New(func() time.Time { return time.Unix(0, math.MaxInt64-1e9) })
	for _, test := range []struct {
		leakingRate float64
		err         error
	}{{0, local.ErrLeakingRate}, {0.5, gcra.ErrTAT}} {
		allowed, err := funnels.IsActionAllowed("laoqian", "reply", 15, test.leakingRate)
		require.Equal(t, test.err, err)
		require.False(t, allowed)
	}
}

// The clock moves, keys come and go and the tables shrink while many goroutines use
// all methods; no key allows more than the capacity and what leaked meanwhile.
func TestManyGoroutinesTakeFromManyKeys(t *testing.T) {
	const goroutines, calls, shared, capacity = 8, 3000, 4, 5
	var clock fakeClock
	funnels := local.New(clock.now)
	rate := mustRate(t, capacity, 1, 100*time.Microsecond)
	var through atomic.Int64
	var done sync.WaitGroup
	for goroutine := range goroutines {
		done.Go(func() {
			for call := range calls {
				clock.advance(50 * time.Nanosecond)
				own := fmt.Sprint(goroutine, ":", call)
				if decision, err := funnels.Take(own, rate, 1); err != nil || decision.Limited {
					t.Errorf("%s: %+v, %v; want allowed", own, decision, err)
				}
				local.SetOf(funnels).Raise(own, clock.now().Add(time.Second/2))
				if decision, err := local.SetOf(funnels).Peek(own, rate, 1); err != nil || !decision.Limited {
					t.Errorf("%s: %+v, %v; want limited", own, decision, err)
				}
				local.SetOf(funnels).Empty(own)
				funnels.Len()
				if decision, err := funnels.Take("shared "+strconv.Itoa(call%shared), rate, 1); err != nil {
					t.Error(err)
				} else if !decision.Limited {
					through.Add(1)
				}
			}
		})
	}
	done.Wait()
	elapsed := clock.nanoseconds() - today.UnixNano()
	require.GreaterOrEqual(t, through.Load(), int64(shared*capacity))
	require.LessOrEqual(t, through.Load(), shared*(capacity+elapsed/rate.EmissionInterval()))
	clock.advance(time.Second)
	forgetDrained(t, funnels, goroutines*calls)
	require.Zero(t, funnels.Len())
}

// forgetDrained peeks until that many drained funnels must be removed: a hundred at a
// call, as removalsPerCall says.
func forgetDrained(t *testing.T, funnels *local.Funnels, count int) {
	t.Helper()
	rate := mustRate(t, 1, 1, time.Second)
	for range (count + 99) / 100 {
		before := funnels.Len()
		_, err := funnels.Take("peek", rate, 0)
		require.NoError(t, err)
		require.LessOrEqual(t, before-funnels.Len(), 100)
	}
}

// Calls on a funnel that is there, and peeks, allocate nothing.
func TestNothingIsAllocated(t *testing.T) {
	var clock fakeClock
	rate := mustRate(t, 1_000_000, 1, time.Second)
	funnels, funnel := local.New(clock.now), local.NewFunnel(rate, clock.now)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, take := range []func() (gcra.Decision, error){
			func() (gcra.Decision, error) { return funnels.Take("known", rate, 1) },
			func() (gcra.Decision, error) { return funnels.Take("new", rate, 1_000_001) },
			func() (gcra.Decision, error) { return funnel.Take(1) },
		} {
			_, err := take()
			require.NoError(t, err)
		}
	}))
}
