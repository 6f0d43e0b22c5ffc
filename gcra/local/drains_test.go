package local

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The first is always one of the earliest, and nothing gets lost.
func TestTheFirstDrainIsTheEarliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var heap drains
		var plain []int64
		times := rapid.Int64Range(0, 20)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
			case step < 3 || len(plain) == 0:
				at := times.Draw(t, "add")
				heap.add(drain{at: at})
				plain = append(plain, at)
			case step == 3:
				heap.removeFirst()
				plain = slices.Delete(plain, 0, 1)
			default:
				at := times.Draw(t, "replace")
				heap.replaceFirst(drain{at: at})
				plain[0] = at
			}
			slices.Sort(plain)
			if len(heap) != len(plain) {
				t.Fatalf("%d drains, want %d", len(heap), len(plain))
			}
			if len(plain) > 0 && heap[0].at != plain[0] {
				t.Fatalf("first is %d, want %d", heap[0].at, plain[0])
			}
		}
		for _, at := range plain {
			if heap[0].at != at {
				t.Fatalf("next is %d, want %d", heap[0].at, at)
			}
			heap.removeFirst()
		}
	})
}
