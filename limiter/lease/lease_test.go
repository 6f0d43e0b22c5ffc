// Wrong calls, hooks, the memory that Leases keep, and a server without the module.

package lease_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
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

// A terse Limiter leaves out who decided.
type terse struct {
	*limiter.Limiter
	asked int
}

func (l *terse) AllowN(ctx context.Context, key string, limit limiter.Limit, n int) (limiter.Result, error) {
	l.asked++
	result, err := l.Limiter.AllowN(ctx, key, limit, n)
	result.Source = ""
	return result, err
}

func TestALimiterIsAskedOnce(t *testing.T) {
	l := &terse{Limiter: limiter.NewLocal()}
	result, err := lease.New(l, time.Second).Allow(ctx, "key", perSecond100)
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{result.Allowed, l.asked})
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

// A call waits for its hooks. Hooks may ask the Leases, which then do not wait for that call.
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
	const keys, rejectedKeys = 2000, 20
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
			// Redis allows one call of each key that is rejected then. If d is not 0, it limits a
			// second one.
			commands := 2*keys + rejectedKeys
			if d > 0 {
				commands += rejectedKeys
			}
			require.Len(f, f.newCommands(), commands)
		})
	}
}

// What the script grants is kept ahead, too, by the clock of this process. A decision without Redis
// allocates nothing, takes tokens that no other caller gets, and can be settled by the Limiter.
func TestByScript(t *testing.T) {
	client := servertest.Start(t, servertest.Options{}).Client(t)
	l := limiter.New(client)
	leases, limit := lease.New(l, time.Hour), limiter.Per(1_000_000, 24*time.Hour)
	var result limiter.Result
	for range 10 {
		result, _ = leases.AllowN(ctx, "key", limit, 10_000)
	}
	require.Equal(t, limiter.FromLease, result.Source)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		result, err := leases.Allow(ctx, "key", limit)
		if err != nil || result.Source != limiter.FromLease {
			t.Error(result, err)
		}
	}))

	var receipts sync.Map
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 5000 {
				own, err := leases.Allow(ctx, "key", limit)
				_, others := receipts.LoadOrStore(own.Receipt, true)
				if others || err != nil {
					t.Error("two callers have one token", own, err)
				}
			}
		})
	}
	callers.Wait()

	before, _ := client.Get(ctx, "key").Int64()
	_, err := l.Settle(ctx, &result, 4000)
	require.NoError(t, err)
	after, _ := client.Get(ctx, "key").Int64()
	require.Equal(t, 6000*int64(24*time.Hour)/1_000_000, before-after)
	require.Equal(t, []int64{4000, 0}, []int64{int64(result.Allowed), result.Receipt})

	leases = lease.New(l, 20*time.Millisecond)
	for _, source := range []limiter.Source{limiter.FromLease, limiter.FromScript} {
		servertest.Eventually(t, string(source), func() bool {
			result, err := leases.Allow(ctx, "short", limiter.PerSecond(1_000_000))
			return err == nil && result.Source == source
		})
	}
}
