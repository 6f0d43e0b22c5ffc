// Wrong calls, hooks, and the memory that Leases keep.

package lease_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/lease"
)

func TestNewPanics(t *testing.T) {
	for _, none := range []lease.Limiter{nil, (*limiter.Limiter)(nil)} {
		require.PanicsWithValue(t, "lease: New needs a Limiter, not nil", func() { lease.New(none, 0) })
	}
}

func TestWrongCalls(t *testing.T) {
	leases := lease.New(limiter.NewLocal(), time.Minute)
	_, err := leases.AllowN(ctx, "key", perSecond100, -1)
	require.ErrorContains(t, err, "quantity")
	_, err = leases.Allow(ctx, "key", limiter.Limit{})
	require.ErrorContains(t, err, "count")
}

// The Limiter decides on each call for a quota.
func TestQuotas(t *testing.T) {
	asked := 0
	l := limiter.NewLocal(limiter.WithHook(func(context.Context, limiter.Event) { asked++ }))
	leases, quota := lease.New(l, time.Minute), limiter.Until(1000, time.Now().Add(time.Hour))
	for i := range 10 {
		result, err := leases.Allow(ctx, "key", quota)
		require.NoError(t, err)
		require.Equal(t, limiter.FromLocal, result.Source)
		require.Equal(t, []int{999 - i, i + 1}, []int{result.Remaining, asked})
	}
	require.Zero(t, lease.Count(leases))
}

// Hooks run where a call waits for them. They may ask the Leases, which then wait for no call.
func TestHooksMayAsk(t *testing.T) {
	var f *fixture
	type nested struct{}
	hook := func(ctx context.Context, _ limiter.Event) {
		if ctx.Value(nested{}) != nil {
			return
		}
		result, err := f.leases.Allow(context.WithValue(ctx, nested{}, true), "key", perSecond100)
		require.NoError(t, err)
		require.Equal(t, 1, result.Allowed)
	}
	test(t, "hooks of the Limiter and of the Leases", perSecond100, time.Minute, func(of *fixture) {
		f = of
		f.hook = hook
		callers := f.startThree()
		f.pass(time.Minute)
		for _, c := range callers {
			require.Equal(f, 1, c.Allowed)
		}
	}, limiter.WithHook(hook), limiter.WithTimeout(5*time.Second))
}

// New keys remove idle keys. Keys that are rejected here stay.
func TestMemory(t *testing.T) {
	const keys, rejectedKeys = 6000, 20
	hourly := limiter.Every(time.Hour).WithCapacity(1)
	for _, d := range []time.Duration{0, time.Second} {
		test(t, "with d of "+d.String(), perSecond100, d, func(f *fixture) {
			f.latency(0)
			allow := func(key string, limit limiter.Limit) {
				_, err := f.leases.Allow(ctx, key, limit)
				require.NoError(f, err)
			}
			for i := range keys {
				allow(strconv.Itoa(i), perSecond100)
			}
			require.Greater(f, lease.Count(f.leases), keys-keys/50)
			f.pass(2100 * time.Millisecond) // all are idle
			for i := range keys {
				time.Sleep(100 * time.Microsecond)
				allow("rejected:"+strconv.Itoa(i%rejectedKeys), hourly)
				allow(strconv.Itoa(keys+i), perSecond100)
			}
			require.Less(f, lease.Count(f.leases), keys+keys/6)
			// Redis allows one call of each key that is rejected then. If d is not 0, it limits a second one.
			commands := 2*keys + rejectedKeys
			if d > 0 {
				commands += rejectedKeys
			}
			require.Len(f, f.newCommands(), commands)
		})
	}
}
