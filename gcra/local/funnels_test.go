package local_test

import (
	"testing"
	"time"

	"funnel/gcra"
	"funnel/gcra/local"
)

func TestTwentyCallsOnTheTextbookFunnel(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	for call := 1; call <= 20; call++ {
		allowed, err := funnels.IsActionAllowed("laoqian", "reply", 15, 0.5)
		if err != nil || allowed != (call <= 15) {
			t.Errorf("call %d: %t, %v", call, allowed, err)
		}
	}
	// 0.5 tokens per second: one more every two seconds.
	for range 3 {
		clock.advance(2*time.Second - 1)
		if allowed, err := funnels.IsActionAllowed("laoqian", "reply", 15, 0.5); err != nil || allowed {
			t.Errorf("a nanosecond early: %t, %v", allowed, err)
		}
		clock.advance(1)
		if allowed, err := funnels.IsActionAllowed("laoqian", "reply", 15, 0.5); err != nil || !allowed {
			t.Errorf("after two seconds: %t, %v", allowed, err)
		}
	}
}

func TestEachKeyIsAFunnelOfItsOwn(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	pairs := []struct{ user, action string }{
		{"a", "b"}, {"b", "a"}, {"a:b", "c"}, {"a", "b:c"}, {"a%3Ab", "c"}, {"a", "%3Ab:c"},
		{"", ""}, {"", ":"}, {":", ""}, {"%", ""}, {"", "%"}, {"\x00", ""}, {"", "\x00"}, {"\xff", "\xfe"},
	}
	for _, want := range []bool{true, false} {
		for _, pair := range pairs {
			allowed, err := funnels.IsActionAllowed(pair.user, pair.action, 1, 1)
			if err != nil || allowed != want {
				t.Errorf("%q does %q: %t, %v; want %t", pair.user, pair.action, allowed, err, want)
			}
		}
	}
	if funnels.Len() != len(pairs) {
		t.Errorf("%d funnels, want %d", funnels.Len(), len(pairs))
	}
}

// IsActionAllowed pours into the funnel of Key.
func TestIsActionAllowedPoursIntoTheFunnelOfItsKey(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	if _, err := funnels.IsActionAllowed("laoqian", "reply", 15, 0.5); err != nil {
		t.Fatal(err)
	}
	got, err := funnels.Water(local.Key("laoqian", "reply"), mustRate(t, 15, 30, time.Minute), 0)
	if err != nil || got.Remaining != 14 || got.ResetAfter != int64(2*time.Second) {
		t.Errorf("%+v, %v; want one token of 15 used", got, err)
	}
}

func TestRatesMayDifferFromCallToCall(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	slow, fast := mustRate(t, 10, 1, 10*time.Second), mustRate(t, 10, 1, time.Second)
	for _, step := range []struct {
		rate                  gcra.Rate
		quantity              int64
		limited               bool
		remaining, retryAfter int64
	}{
		{slow, 5, false, 5, gcra.Never},             // a level of 50 seconds
		{fast, 1, true, 0, int64(41 * time.Second)},   // holds 10 seconds only
		{fast, 0, true, 0, int64(40 * time.Second)},   // overfull
		{slow, 5, false, 0, gcra.Never},             // untouched by that
		{fast, 10, true, 0, int64(100 * time.Second)}, // all of it must leak
		{fast, 11, true, 0, gcra.Never},             // never fits
		{slow, 1, true, 0, int64(10 * time.Second)},   // full
		{slow, 10, true, 0, int64(100 * time.Second)}, // full
		{mustRate(t, 20, 1, 10*time.Second), 10, false, 0, // a larger one has room
			gcra.Never},
	} {
		got, err := funnels.Water("key", step.rate, step.quantity)
		if err != nil || got.Limited != step.limited ||
			got.Remaining != step.remaining || got.RetryAfter() != step.retryAfter {
			t.Errorf("%d of %+v: %+v, %v", step.quantity, step.rate, got, err)
		}
	}
}

// forgetDrained peeks until that many drained funnels must be removed; each call
// removes a hundred.
func forgetDrained(t *testing.T, funnels *local.Funnels, count int) {
	t.Helper()
	rate := mustRate(t, 1, 1, time.Second)
	for range count/100 + 1 {
		if _, err := funnels.Water("peek", rate, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// Calls that pour nothing leave no funnel.
func TestOnlyFunnelsWithTokensAreKept(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	rate := mustRate(t, 15, 30, time.Minute)
	for _, test := range []struct {
		name     string
		rate     gcra.Rate
		quantity int64
		err      error
	}{
		{"a peek", rate, 0, nil},
		{"more than the capacity", rate, 16, nil},
		{"zero Rate", gcra.Rate{}, 1, gcra.ErrCapacity},
		{"zero Rate, quantity 0", gcra.Rate{}, 0, gcra.ErrCapacity},
		{"negative quantity", rate, -1, gcra.ErrQuantity},
		{"endless quantity", rate, 1 << 62, gcra.ErrIncrement},
	} {
		if _, err := funnels.Water(test.name, test.rate, test.quantity); err != test.err {
			t.Errorf("%s: %v, want %v", test.name, err, test.err)
		}
		if funnels.Len() != 0 {
			t.Fatalf("%s left a funnel", test.name)
		}
	}
	if _, err := funnels.Water("a token", rate, 1); err != nil || funnels.Len() != 1 {
		t.Errorf("%v, %d funnels; want 1", err, funnels.Len())
	}
}

func TestIsActionAllowedErrors(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	for _, test := range []struct {
		capacity    int64
		leakingRate float64
		err         error
	}{
		{0, 0.5, gcra.ErrCapacity},
		{15, 0, local.ErrLeakingRate},
		{1 << 62, 0.5, gcra.ErrTolerance},
		// Within 292 years of the clock, but not of 1970.
		{250, 1. / (365 * 24 * 3600), gcra.ErrTAT},
	} {
		allowed, err := true, error(nil)
		for calls := 0; allowed && calls < 250; calls++ {
			allowed, err = funnels.IsActionAllowed("laoqian", "reply", test.capacity, test.leakingRate)
		}
		if allowed || err != test.err {
			t.Errorf("capacity %d, leaking rate %v: %t, %v; want %v",
				test.capacity, test.leakingRate, allowed, err, test.err)
		}
	}
}

func TestAClockThatStepsBack(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	rate := mustRate(t, 15, 30, time.Minute)
	if _, err := funnels.Water("key", rate, 1); err != nil {
		t.Fatal(err)
	}
	clock.advance(-time.Hour)
	got, err := funnels.Water("key", rate, 1)
	want := gcra.Decision{
		Limited: true, Limit: 15, Remaining: 0,
		RetryAfter: int64(time.Hour + 2*time.Second - 28*time.Second),
		ResetAfter: int64(time.Hour + 2*time.Second),
		TAT:        today.Add(2 * time.Second).UnixNano(),
	}
	if got != want || err != nil {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	clock.advance(time.Duration(got.RetryAfter()))
	if got, err := funnels.Water("key", rate, 1); err != nil || got.Limited {
		t.Errorf("after the wait: %+v, %v", got, err)
	}
}

func TestManyGoroutinesPourIntoOneKey(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	rate := mustRate(t, 1000, 1, time.Second)
	through := atGoroutines(t, 64, 50, func(int, int) (bool, error) {
		decision, err := funnels.Water("key", rate, 1)
		return !decision.Limited, err
	})
	if through != 1000 {
		t.Errorf("%d calls were allowed, want 1000", through)
	}
}

// The clock moves, keys come and go and the tables shrink while many goroutines pour;
// no key allows more than the capacity and what leaked meanwhile.
func TestManyGoroutinesPourIntoManyKeys(t *testing.T) {
	const goroutines, calls, shared = 8, 3000, 4
	var clock fakeClock
	funnels := local.New(clock.now)
	rate := mustRate(t, 5, 1, 100*time.Microsecond)
	through := atGoroutines(t, goroutines, calls, func(goroutine, call int) (bool, error) {
		clock.advance(50 * time.Nanosecond)
		own := local.Key(string(rune('A'+goroutine)), time.Duration(call).String())
		if decision, err := funnels.Water(own, rate, 1); err != nil || decision.Limited {
			t.Errorf("%s: %+v, %v; want allowed", own, decision, err)
		}
		funnels.Len()
		decision, err := funnels.Water(string(rune('a'+call%shared)), rate, 1)
		return !decision.Limited, err
	})
	elapsed := clock.nanoseconds() - today.UnixNano()
	least, most := int64(shared*5), shared*(5+elapsed/rate.EmissionInterval())
	if through < least || through > most {
		t.Errorf("%d calls were allowed, want %d to %d", through, least, most)
	}
	clock.advance(time.Second)
	forgetDrained(t, funnels, goroutines*calls)
	if funnels.Len() != 0 {
		t.Errorf("%d drained funnels are left", funnels.Len())
	}
}
