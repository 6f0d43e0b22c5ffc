package local_test

import (
	"strconv"
	"testing"
	"time"

	"funnel/gcra"
	"funnel/gcra/local"
)

// Calls on a funnel that is there, and peeks, allocate nothing.
func TestNothingIsAllocated(t *testing.T) {
	var clock fakeClock
	rate := mustRate(t, 1_000_000, 1, time.Second)
	funnels, funnel := local.New(clock.now), local.NewFunnel(rate, clock.now)
	if _, err := funnels.Water("known", rate, 1); err != nil {
		t.Fatal(err)
	}
	for _, cost := range []struct {
		name string
		call func() (gcra.Decision, error)
	}{
		{"Water", func() (gcra.Decision, error) { return funnels.Water("known", rate, 1) }},
		{"Water, limited", func() (gcra.Decision, error) { return funnels.Water("new", rate, 1_000_001) }},
		{"Watering", func() (gcra.Decision, error) { return funnel.Watering(1) }},
	} {
		var err error
		allocations := testing.AllocsPerRun(100, func() { _, err = cost.call() })
		if err != nil || allocations != 0 {
			t.Errorf("%s: %v allocations, %v", cost.name, allocations, err)
		}
	}
}

// manyKeys are keys for benchmarks, made before the timer starts.
func manyKeys(count int) []string {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(1e10+i)
	}
	return keys
}

func BenchmarkWater(b *testing.B) {
	rate := mustRate(b, 1<<30, 1, time.Microsecond)

	b.Run("one key", func(b *testing.B) {
		funnels := local.New(nil)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := funnels.Water("key", rate, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one key, all processors", func(b *testing.B) {
		funnels := local.New(nil)
		b.RunParallel(func(loop *testing.PB) {
			for loop.Next() {
				if _, err := funnels.Water("key", rate, 1); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("100000 keys", func(b *testing.B) {
		keys := manyKeys(100_000)
		long := mustRate(b, 1<<20, 1, time.Second)
		funnels := local.New(nil)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := funnels.Water(keys[i%len(keys)], long, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	// Every call adds a funnel and removes one that has drained.
	b.Run("come and go", func(b *testing.B) {
		var clock fakeClock
		keys := manyKeys(1 << 20)
		short := mustRate(b, 1, 1, time.Millisecond)
		funnels := local.New(clock.now)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			clock.advance(10 * time.Nanosecond)
			if _, err := funnels.Water(keys[i%len(keys)], short, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkIsActionAllowed(b *testing.B) {
	funnels := local.New(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := funnels.IsActionAllowed("laoqian", "reply", 15, 0.5); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWatering(b *testing.B) {
	rate := mustRate(b, 1<<30, 1, time.Microsecond)
	b.Run("one processor", func(b *testing.B) {
		funnel := local.NewFunnel(rate, nil)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := funnel.Watering(1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("all processors", func(b *testing.B) {
		funnel := local.NewFunnel(rate, nil)
		b.RunParallel(func(loop *testing.PB) {
			for loop.Next() {
				if _, err := funnel.Watering(1); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
