package local_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/gcra/local"
)

// More than rapid's 100 checks by default; -rapid.checks on the command line
// overrides it.
func init() {
	if err := flag.Set("rapid.checks", "1500"); err != nil {
		panic(err)
	}
}

// Numbers small enough that funnels often fill, drain and meet at one instant.
var (
	rates = rapid.Custom(func(t *rapid.T) gcra.Rate {
		rate, err := gcra.NewRate(
			rapid.Int64Range(1, 5).Draw(t, "capacity"),
			rapid.Int64Range(1, 3).Draw(t, "count"),
			rapid.OneOf(rapid.Int64Range(3, 10), rapid.Int64Range(1e9, 10e9)).Draw(t, "period"))
		if err != nil {
			t.Fatal(err)
		}
		return rate
	})
	quantities = rapid.OneOf(rapid.Just[int64](1), rapid.Int64Range(-1, 6), rapid.Just[int64](1<<62))
	keys       = rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "f", "g"})

	waits = rapid.OneOf(
		rapid.Just(time.Duration(0)),
		rapid.Map(rapid.Int64Range(0, 10), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, 30), func(n int64) time.Duration { return time.Duration(n) * time.Second }),
	)
	steps = rapid.Map(waits, func(wait time.Duration) time.Duration { return -wait })
)

// watering draws a call, makes it, and compares it with Decide on the TATs of a
// plain map, which it updates.
func watering(t *rapid.T, funnels *local.Funnels, now int64, tats map[string]int64) {
	key, rate, quantity := keys.Draw(t, "key"), rates.Draw(t, "rate"), quantities.Draw(t, "quantity")
	got, gotErr := funnels.Water(key, rate, quantity)
	want, wantErr := rate.Decide(tats[key], now, quantity)
	if wantErr == nil {
		tats[key] = want.TAT
	}
	// Of a drained funnel, one may keep the TAT and the other not; they mean the
	// same.
	if got.TAT == gcra.Empty && want.TAT <= now {
		got.TAT = want.TAT
	}
	if got != want || gotErr != wantErr {
		t.Fatalf("got  %+v, %v\nwant %+v, %v", got, gotErr, want, wantErr)
	}
}

// notEmpty counts the TATs ahead of now.
func notEmpty(tats map[string]int64, now int64) int {
	count := 0
	for _, tat := range tats {
		if tat > now {
			count++
		}
	}
	return count
}

// A set that removes drained funnels decides like one that keeps all, and it keeps no
// more than the funnels that are not empty.
func TestRemovingDoesNotChangeDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var clock fakeClock
		funnels, tats := local.New(clock.now), map[string]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			clock.advance(waits.Draw(t, "wait"))
			watering(t, funnels, clock.nanoseconds(), tats)
			if want := notEmpty(tats, clock.nanoseconds()); funnels.Len() != want {
				t.Fatalf("%d funnels kept, %d are not empty", funnels.Len(), want)
			}
		}
	})
}

// Raise makes a funnel fuller and never emptier, Empty empties it, and Look changes
// nothing, whatever else happens.
func TestRaiseEmptyAndLook(t *testing.T) {
	rate := mustRate(t, 1, 1, time.Second)
	rapid.Check(t, func(t *rapid.T) {
		var clock fakeClock
		funnels, tats := local.New(clock.now), map[string]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			clock.advance(waits.Draw(t, "wait"))
			key, level := keys.Draw(t, "key"), rapid.OneOf(waits, steps).Draw(t, "level")
			switch rapid.IntRange(0, 3).Draw(t, "method") {
			case 0:
				funnels.Raise(key, clock.now().Add(level))
				tats[key] = max(tats[key], clock.nanoseconds()+int64(level))
			case 1:
				funnels.Empty(key)
				delete(tats, key)
			case 2:
				rate, quantity := rates.Draw(t, "rate"), quantities.Draw(t, "quantity")
				got, gotErr := funnels.Look(key, rate, quantity)
				want, wantErr := rate.Decide(tats[key], clock.nanoseconds(), quantity)
				got.TAT, want.TAT = 0, 0 // of a drained funnel, any means the same
				if got != want || gotErr != wantErr {
					t.Fatalf("got  %+v, %v\nwant %+v, %v", got, gotErr, want, wantErr)
				}
			default:
				watering(t, funnels, clock.nanoseconds(), tats)
			}
		}
		// What was emptied is removed when it would have drained.
		clock.advance(time.Hour)
		for funnels.Len() > 0 {
			before := funnels.Len()
			if _, err := funnels.Look("", rate, 0); err != nil || funnels.Len() >= before {
				t.Fatalf("%d funnels are never removed: %v", funnels.Len(), err)
			}
		}
	})
}

// On a clock that steps back, a funnel is empty if it had drained at some earlier
// call, and else as full as its TAT says.
func TestRemovingOnAClockThatStepsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var clock fakeClock
		funnels, tats := local.New(clock.now), map[string]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			clock.advance(rapid.OneOf(waits, waits, steps).Draw(t, "step"))
			now := clock.nanoseconds()
			for key, tat := range tats {
				if tat <= now {
					delete(tats, key)
				}
			}
			watering(t, funnels, now, tats)
			if want := notEmpty(tats, now); funnels.Len() != want {
				t.Fatalf("%d funnels kept, %d are not empty", funnels.Len(), want)
			}
		}
	})
}

// Many funnels, most of which drain together so that the tables shrink and grow,
// still decide like a plain map.
func TestRemovingAmongManyDoesNotChangeDecisions(t *testing.T) {
	const many, every = 5000, 20
	var clock fakeClock
	funnels, tats := local.New(clock.now), map[string]int64{}
	rate := mustRate(t, 3, 1, time.Second)
	water := func(key string) {
		t.Helper()
		got, err := funnels.Water(key, rate, 1)
		want, wantErr := rate.Decide(tats[key], clock.nanoseconds(), 1)
		if got != want || err != wantErr {
			t.Fatalf("%s:\ngot  %+v, %v\nwant %+v, %v", key, got, err, want, wantErr)
		}
		tats[key] = want.TAT
	}
	for round := range 4 {
		for i := range many {
			for range i%3 + 1 {
				water(fmt.Sprint(i))
			}
		}
		// Of one, two and three tokens, those of one have drained.
		clock.advance(1500 * time.Millisecond)
		forgetDrained(t, funnels, many)
		for i := 0; i < many; i += every {
			clock.advance(8 * time.Millisecond)
			water(fmt.Sprint(i))
		}
		// Of those, few are left, and only they.
		clock.advance(500 * time.Millisecond)
		forgetDrained(t, funnels, many)
		want := notEmpty(tats, clock.nanoseconds())
		if want == 0 || want > many/every {
			t.Fatalf("round %d: %d are not empty, so this test does not test", round, want)
		}
		if funnels.Len() != want {
			t.Errorf("round %d: %d funnels kept, %d are not empty", round, funnels.Len(), want)
		}
	}
}
