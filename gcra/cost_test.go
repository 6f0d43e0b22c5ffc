package gcra_test

import (
	"testing"

	"funnel/gcra"
)

// costs are the paths through the package.
var costs = []struct {
	name               string
	capacity           int64
	tat, now, quantity int64
	limited            bool
	err                error
}{
	{"allowed", 15, gcra.Empty, today, 1, false, nil},
	{"limited", 15, today + 30*second, today, 1, true, nil},
	{"error of the rate", 0, gcra.Empty, today, 1, false, gcra.ErrCapacity},
	{"error of the quantity", 15, gcra.Empty, today, -1, false, gcra.ErrQuantity},
}

// The module runs this without the Go runtime, which means without its allocator.
func TestNothingIsAllocated(t *testing.T) {
	for _, cost := range costs {
		var decision gcra.Decision
		var err error
		allocations := testing.AllocsPerRun(100, func() {
			decision, err = answer(cost.capacity, 30, 60*second, cost.tat, cost.now, cost.quantity)
		})
		if decision.Limited != cost.limited || err != cost.err {
			t.Errorf("%s: %+v, %v", cost.name, decision, err)
		}
		if allocations != 0 {
			t.Errorf("%s: %v allocations", cost.name, allocations)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, cost := range costs {
		b.Run(cost.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = answer(cost.capacity, 30, 60*second, cost.tat, cost.now, cost.quantity)
			}
		})
	}
}
