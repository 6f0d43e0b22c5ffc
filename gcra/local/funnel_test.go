package local_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/gcra/local"
)

func TestWateringUntilFull(t *testing.T) {
	var clock fakeClock
	funnel := local.NewFunnel(mustRate(t, 15, 30, time.Minute), clock.now)
	for call := int64(1); call <= 15; call++ {
		decision, err := funnel.Watering(1)
		if err != nil || decision.Limited || decision.Remaining != 15-call {
			t.Fatalf("call %d: %+v, %v", call, decision, err)
		}
	}
	decision, err := funnel.Watering(1)
	if err != nil || !decision.Limited || decision.RetryAfter() != int64(2*time.Second) {
		t.Fatalf("call 16: %+v, %v", decision, err)
	}
	clock.advance(time.Duration(decision.RetryAfter()) - 1)
	if decision, err := funnel.Watering(1); err != nil || !decision.Limited {
		t.Fatalf("a nanosecond early: %+v, %v", decision, err)
	}
	clock.advance(1)
	if decision, err := funnel.Watering(1); err != nil || decision.Limited {
		t.Fatalf("after the wait: %+v, %v", decision, err)
	}
}

// A Funnel is gcra.Decide and a stored TAT, on any clock.
func TestFunnelIsDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var clock fakeClock
		rate := rates.Draw(t, "rate")
		funnel, tat := local.NewFunnel(rate, clock.now), gcra.Empty
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			clock.advance(rapid.OneOf(waits, steps).Draw(t, "step"))
			quantity := quantities.Draw(t, "quantity")
			got, gotErr := funnel.Watering(quantity)
			want, wantErr := rate.Decide(tat, clock.nanoseconds(), quantity)
			if got != want || gotErr != wantErr {
				t.Fatalf("got  %+v, %v\nwant %+v, %v", got, gotErr, want, wantErr)
			}
			if wantErr == nil {
				tat = want.TAT
			}
		}
	})
}

func TestWateringErrors(t *testing.T) {
	var clock fakeClock
	rate := mustRate(t, 15, 30, time.Minute)
	for _, test := range []struct {
		name     string
		rate     gcra.Rate
		quantity int64
		err      error
	}{
		{"zero Rate", gcra.Rate{}, 1, gcra.ErrCapacity},
		{"zero Rate, quantity 0", gcra.Rate{}, 0, gcra.ErrCapacity},
		{"negative quantity", rate, -1, gcra.ErrQuantity},
		{"endless quantity", rate, 1 << 62, gcra.ErrIncrement},
	} {
		decision, err := local.NewFunnel(test.rate, clock.now).Watering(test.quantity)
		if err != test.err || decision != (gcra.Decision{}) {
			t.Errorf("%s: %+v, %v; want %v", test.name, decision, err, test.err)
		}
	}
}

// Between reading the TAT and storing the new one, a call reads the clock; this clock
// makes another call then.
func TestPouringMeanwhileIsNotLost(t *testing.T) {
	var (
		clock     fakeClock
		funnel    *local.Funnel
		meanwhile func()
	)
	funnel = local.NewFunnel(mustRate(t, 1, 1, time.Second), func() time.Time {
		if pour := meanwhile; pour != nil {
			meanwhile = nil
			pour()
		}
		return clock.now()
	})
	meanwhile = func() {
		if decision, err := funnel.Watering(1); err != nil || decision.Limited {
			t.Errorf("the other call: %+v, %v; want allowed", decision, err)
		}
	}
	if decision, err := funnel.Watering(1); err != nil || !decision.Limited {
		t.Errorf("%+v, %v; want limited, the other call took the only token", decision, err)
	}
	if meanwhile != nil {
		t.Error("the clock was not read")
	}
}

func TestManyGoroutinesPourIntoOneFunnel(t *testing.T) {
	var clock fakeClock
	funnel := local.NewFunnel(mustRate(t, 1000, 1, time.Second), clock.now)
	through := atGoroutines(t, 64, 50, func(int, int) (bool, error) {
		decision, err := funnel.Watering(1)
		return !decision.Limited, err
	})
	if through != 1000 {
		t.Errorf("%d calls were allowed, want 1000", through)
	}
}

// atGoroutines makes all the calls at once and returns how many were allowed.
func atGoroutines(t *testing.T, goroutines, calls int, allowed func(goroutine, call int) (bool, error)) int64 {
	t.Helper()
	var (
		through atomic.Int64
		ready   = make(chan struct{})
		done    sync.WaitGroup
	)
	for goroutine := range goroutines {
		done.Go(func() {
			<-ready
			for call := range calls {
				ok, err := allowed(goroutine, call)
				if err != nil {
					t.Error(err)
				}
				if ok && err == nil {
					through.Add(1)
				}
			}
		})
	}
	close(ready)
	done.Wait()
	return through.Load()
}
