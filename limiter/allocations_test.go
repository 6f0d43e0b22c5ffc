package limiter_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A call allocates no more often than one of redis_rate, which was 19 times.
func TestAllocations(t *testing.T) {
	l, ctx := limiter.New(servertest.StartClient(t)), context.Background()
	got := testing.AllocsPerRun(1000, func() {
		if _, err := l.Allow(ctx, "key", limiter.PerMinute(30).Burst(15)); err != nil {
			t.Error(err)
		}
	})
	t.Log(got)
	require.LessOrEqual(t, got, 19.0)
}
