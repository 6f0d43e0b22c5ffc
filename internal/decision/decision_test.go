package decision_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/decision"
)

// An allowed call has no retry_after, even if it has to wait before going ahead.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name string
		decision.Decision
		want int64
	}{
		{name: "limited", Decision: decision.Decision{Limited: true, Wait: 5}, want: 5},
		{name: "limited for ever", Decision: decision.Decision{Limited: true, Wait: decision.Never}, want: -1},
		{name: "allowed", Decision: decision.Decision{Remaining: 5, ResetAfter: 5}, want: -1},
		{name: "allowed ahead of time", Decision: decision.Decision{Wait: 5}, want: -1},
	} {
		require.Equal(t, c.want, c.RetryAfter(), c.name)
	}
}

func TestLonger(t *testing.T) {
	waits := []int64{0, 1, 2, math.MaxInt64, decision.Never} // from the shortest to the longest
	for i, shorter := range waits {
		for _, longer := range waits[i:] {
			require.Equal(t, longer, decision.Longer(shorter, longer), "%d, %d", shorter, longer)
			require.Equal(t, longer, decision.Longer(longer, shorter), "%d, %d", longer, shorter)
		}
	}
}
