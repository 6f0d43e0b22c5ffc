package gcra_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
)

// paths are the ways through the package.
var paths = map[string]struct {
	numbers
	limited bool
	err     error
}{
	"allowed":               {numbers{15, 30, 60 * second, gcra.Empty, today, 1}, false, nil},
	"limited":               {numbers{15, 30, 60 * second, today + 30*second, today, 1}, true, nil},
	"error of the rate":     {numbers{0, 30, 60 * second, gcra.Empty, today, 1}, false, gcra.ErrCapacity},
	"error of the quantity": {numbers{15, 30, 60 * second, gcra.Empty, today, -1}, false, gcra.ErrQuantity},
}

// The module runs this without the Go runtime, which means without its allocator.
func TestNothingIsAllocated(t *testing.T) {
	for name, path := range paths {
		var decision gcra.Decision
		var err error
		require.Zero(t, testing.AllocsPerRun(100, func() { decision, err = path.decide() }), name)
		require.Equal(t, path.limited, decision.Limited, name)
		require.Equal(t, path.err, err, name)
	}
}

func BenchmarkDecide(b *testing.B) {
	for name, path := range paths {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = path.decide()
			}
		})
	}
}
