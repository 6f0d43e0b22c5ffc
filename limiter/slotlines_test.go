package limiter

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A slot that comes free wakes each line in which somebody waits for it. A caller that is just
// joining counts, or nobody would ask before a pause is over. A caller that has left, or that was
// turned away, does not count.
func TestLinesKnowTheirKeys(t *testing.T) {
	slots := []slotsRow{{"a", Slots{Max: 1, TTL: time.Second}}, {"b", Slots{Max: 2, TTL: time.Second}}}
	var l slotLines
	known := 0
	l = newSlotLines(func() time.Duration { // is called when the caller joins
		known = len(l.linesOf("a")) + len(l.linesOf("b"))
		return 0
	})
	_, leave := l.join(slots, nil, math.MaxInt)
	require.Equal(t, 2, known, "both keys know the line before it has the caller")
	place, _ := l.join(slots, nil, 1)
	require.Nil(t, place, "one waits already")
	require.Len(t, l.waiting, 2)
	leave()
	require.Empty(t, l.waiting, "nobody waits")
}
