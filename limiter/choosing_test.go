// How much of a limit a busy tenant uses when the work takes long, as docs/operations.md has it.

package limiter_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestLongestPieceOfWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ capacity, estimate, perMinute int }{
		{3_000, 2_000, 7_500},
		{10_000, 2_000, 7_500},
		{14_000, 2_000, 30_000},
		{3_000, 100, 30_000},
	} {
		t.Run(fmt.Sprint(c.capacity, " ", c.estimate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, limit := limiter.NewLocal(), limiter.PerMinute(30_000).WithCapacity(c.capacity)
				require.InDelta(t, c.perMinute, usedPerMinute(t, l, limit, c.estimate), 500)
			})
		})
	}
}

// usedPerMinute is what a tenant uses who begins a piece of work as soon as its estimate fits. It takes
// 20 seconds and 500 tokens, and is settled. The first five minutes do not count.
func usedPerMinute(t *testing.T, l *limiter.Limiter, limit limiter.Limit, estimate int) float64 {
	const warmUp, minutes, work, tokens = 5 * time.Minute, 30, 20 * time.Second, 500
	ctx, began := context.Background(), time.Now()
	var working sync.WaitGroup
	used := 0
	for time.Since(began) < warmUp+minutes*time.Minute {
		result, err := l.AllowN(ctx, "tenant", limit, estimate)
		require.NoError(t, err)
		if result.Limited() {
			time.Sleep(min(result.RetryAfter, 100*time.Millisecond)) // less, since tokens are given back
			continue
		}
		if time.Since(began) >= warmUp {
			used += tokens
		}
		working.Go(func() {
			time.Sleep(work)
			if _, err := l.Settle(ctx, &result, tokens); err != nil {
				t.Error(err)
			}
		})
	}
	working.Wait()
	return float64(used) / minutes
}
