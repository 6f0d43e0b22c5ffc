package local_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"funnel/gcra"
	"funnel/gcra/local"
)

// today is where the fake clocks start.
var today = time.Date(2027, time.January, 15, 8, 0, 0, 0, time.UTC)

// A fakeClock shows what the test sets it to.
type fakeClock struct{ sinceToday atomic.Int64 }

func (c *fakeClock) now() time.Time {
	return today.Add(time.Duration(c.sinceToday.Load()))
}

func (c *fakeClock) advance(by time.Duration) { c.sinceToday.Add(int64(by)) }

// nanoseconds is the same instant as package gcra writes it.
func (c *fakeClock) nanoseconds() int64 { return today.UnixNano() + c.sinceToday.Load() }

func mustRate(t testing.TB, capacity, count int64, period time.Duration) gcra.Rate {
	t.Helper()
	rate, err := gcra.NewRate(capacity, count, int64(period))
	if err != nil {
		t.Fatal(err)
	}
	return rate
}

// Inside a synctest bubble time.Now moves when all goroutines sleep.
func TestNilIsTheSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := mustRate(t, 1, 1, 2*time.Second)
		funnels, funnel := local.New(nil), local.NewFunnel(rate, nil)
		for _, step := range []struct {
			sleep   time.Duration
			limited bool
		}{
			{0, false},
			{0, true},
			{2*time.Second - 1, true},
			{1, false},
			{0, true},
		} {
			time.Sleep(step.sleep)
			inSet, err := funnels.Water("key", rate, 1)
			if err != nil {
				t.Fatal(err)
			}
			alone, err := funnel.Watering(1)
			if err != nil {
				t.Fatal(err)
			}
			if inSet.Limited != step.limited || alone != inSet {
				t.Errorf("after %v: %+v in the set, %+v alone; want limited %t",
					step.sleep, inSet, alone, step.limited)
			}
			if want := time.Now().UnixNano() + inSet.ResetAfter; inSet.TAT != want {
				t.Errorf("TAT %d, want %d", inSet.TAT, want)
			}
		}
	})
}

func TestClocksOutOfRange(t *testing.T) {
	rate := mustRate(t, 3, 1, time.Second)
	for _, now := range []time.Time{
		{},
		time.Unix(0, 0),
		time.Unix(-1, 0),
		time.Unix(1<<62, 0),
		time.Date(2262, time.April, 11, 23, 47, 16, 854775807, time.UTC),
		time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC),
	} {
		// Outside 1970 to 2262 two promises are left: nothing panics, and no
		// more than the capacity is allowed.
		funnels := local.New(func() time.Time { return now })
		through := 0
		for range 10 {
			decision, err := funnels.Water("key", rate, 1)
			if err == nil && !decision.Limited {
				through++
			}
		}
		if through > 3 {
			t.Errorf("at %v %d of 3 got through", now, through)
		}
	}
}
