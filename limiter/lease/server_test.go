package lease_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/lease"
)

// A counting client counts round trips.
type counting struct {
	*redis.Client
	trips atomic.Int64
}

func (c *counting) Process(ctx context.Context, command redis.Cmder) error {
	c.trips.Add(1)
	return c.Client.Process(ctx, command)
}

// A clock is how long after the start it is, for Leases.
type clock struct{ atomic.Int64 }

func (c *clock) now() time.Time { return servertest.Epoch.Add(time.Duration(c.Load())) }

// withClock starts a server, and returns a function that sets its clock and that of Leases.
func withClock(t *testing.T, d time.Duration) (*counting, *lease.Leases, func(after time.Duration)) {
	client, server := servertest.StartWithClock(t)
	counted, clock := &counting{Client: client}, &clock{}
	leases := lease.New(limiter.New(counted, moduleOnly), d)
	lease.SetNow(leases, clock.now)
	set := func(after time.Duration) {
		clock.Store(int64(after))
		server.Set(t, clock.now())
	}
	set(0)
	return counted, leases, set
}

// A key that one caller asks about less than once in d sends what it sends without leases.
func TestRareKeys(t *testing.T) {
	server := servertest.StartModule(t)
	sends := func(leased bool) (all [][]string) {
		require.NoError(t, server.Client(t).FlushAll(ctx).Err())
		address, sent := servertest.HideCommands(t, server.Addr())
		l, clock := limiter.New(server.Client(t, func(options *redis.Options) { options.Addr = address })), &clock{}
		allow, leases := l.AllowN, lease.New(l, time.Second)
		if lease.SetNow(leases, clock.now); leased {
			allow = leases.AllowN
		}
		for _, quantity := range []int{1, 10, 1, 2, 0, 11, 10, 3, 80} {
			_, err := allow(ctx, "key", limiter.PerHour(100), quantity)
			require.NoError(t, err)
			clock.Add(int64(1001 * time.Millisecond))
		}
		for _, words := range sent() {
			if words[0] != "hello" && words[0] != "client" {
				all = append(all, words)
			}
		}
		return all
	}
	require.Equal(t, sends(false), sends(true))
}

// Leases keep the bound, by module and by script, and take nothing from their grants that is
// allocated. For a d of 0, test/model has the order of calls.
func TestOnServers(t *testing.T) {
	for path, client := range map[limiter.Path]*redis.Client{
		limiter.PathModule: servertest.StartClient(t), limiter.PathScript: servertest.Start(t, servertest.Options{}).Client(t),
	} {
		const span = 20 * time.Millisecond
		var allowed, byLease, byReply atomic.Int64
		leases := lease.New(limiter.New(client), span, lease.WithHook(func(_ context.Context, event limiter.Event) {
			by := map[limiter.Path]*atomic.Int64{limiter.PathLease: &byLease, path: &byReply}[event.Result.Path]
			by.Add(int64(event.Result.Allowed))
			if event.Duration < 0 || event.Duration > time.Minute {
				t.Error(event)
			}
		}))
		var callers sync.WaitGroup
		begin := time.Now()
		for range 8 {
			callers.Go(func() {
				for range 50 {
					result, err := leases.Allow(ctx, "ahead", limiter.PerSecond(1000).Burst(100))
					if err != nil {
						t.Error(err)
					}
					allowed.Add(int64(result.Allowed))
				}
			})
		}
		callers.Wait()
		require.LessOrEqual(t, allowed.Load(), 101+int64((time.Since(begin)+span)/time.Millisecond), path)
		require.Positive(t, byLease.Load(), path)

		leases, many := lease.New(limiter.New(client), time.Hour), limiter.Every(time.Microsecond).Burst(1_000_000)
		for range 10 {
			_, err := leases.AllowN(ctx, "key", many, 10_000)
			require.NoError(t, err)
		}
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if result, err := leases.Allow(ctx, "key", many); err != nil || result.Path != limiter.PathLease {
				t.Error(result, err)
			}
		}))
	}
}

// What a user may not do concerns the calls and keys for which it is denied.
func TestPermissions(t *testing.T) {
	server := servertest.StartModule(t)
	limit := limiter.Per(100, 24*time.Hour)
	allowed := func(leases *lease.Leases, key string) (allowed, byLease int) {
		for range 110 {
			result, err := leases.Allow(ctx, key, limit)
			require.NoError(t, err)
			allowed += result.Allowed
			if result.Path == limiter.PathLease {
				byLease += result.Allowed
			}
		}
		return allowed, byLease
	}
	leases := lease.New(limiter.New(server.ClientOfUser(t, "~a* +@all"), moduleOnly), time.Hour)
	for range 2 {
		for range 3 {
			_, err := leases.Allow(ctx, "denied", limit)
			require.ErrorContains(t, err, "NOPERM")
		}
		all, byLease := allowed(leases, "a")
		require.Contains(t, []int{100, 0}, all)
		require.Equal(t, all > 0, byLease > 0, "another key is leased")
	}
	var told []string
	l := limiter.New(server.ClientOfUser(t, "~* +@all -cl.take"), moduleOnly, limiter.WithHook(func(_ context.Context, event limiter.Event) { told = append(told, event.Command) }))
	all, byLease := allowed(lease.New(l, time.Hour), "b")
	require.Equal(t, []int{100, 0}, []int{all, byLease}, "limited as without leases")
	require.Contains(t, told, "take")
}

// Leases never limit a call without Redis that Redis would have allowed at that instant, whatever
// others take, whenever they call and whatever their limits.
func TestNeverLimitsWhatRedisWouldAllow(t *testing.T) {
	for _, d := range []time.Duration{0, time.Nanosecond} {
		counted, leases, set := withClock(t, d)
		others, at := limiter.New(counted.Client, moduleOnly), time.Duration(0)
		limits := rapid.Custom(func(t *rapid.T) limiter.Limit {
			return limiter.Per(rapid.IntRange(1, 100).Draw(t, "count"), time.Duration(rapid.Int64Range(1000, int64(time.Minute)).Draw(t, "period"))).
				Burst(rapid.SampledFrom([]int{1, 2, 10, 20, 50}).Draw(t, "capacity"))
		})
		spared, key := 0, 0
		rapid.Check(t, func(t *rapid.T) {
			limit := limits.Draw(t, "limit")
			key++ // leases do not notice Reset
			key := strconv.Itoa(key)
			for range 50 {
				at += time.Duration(rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 100), rapid.Int64Range(0, int64(limit.Period))).Draw(t, "wait"))
				set(at)
				if rapid.IntRange(0, 9).Draw(t, "other limit") == 0 {
					limit = limits.Draw(t, "limit")
				}
				if quantity := rapid.IntRange(1, limit.Capacity).Draw(t, "quantity"); rapid.Bool().Draw(t, "another client") {
					_, err := others.AllowN(ctx, key, limit, quantity)
					require.NoError(t, err)
					continue
				}
				quantity := 1
				if d > 0 {
					quantity = rapid.IntRange(1, max(1, limit.Capacity/10)).Draw(t, "few")
				}
				result, err := leases.AllowN(ctx, key, limit, quantity)
				require.NoError(t, err)
				if result.Path == limiter.PathLease {
					spared++
					truth, err := others.AllowN(ctx, key, limit, quantity)
					require.NoError(t, err)
					require.True(t, result.Limited())
					require.True(t, truth.Limited(), "%v of %v", quantity, limit)
					require.LessOrEqual(t, result.RetryAfter, truth.RetryAfter)
					require.LessOrEqual(t, result.ResetAfter, truth.ResetAfter)
					require.GreaterOrEqual(t, result.Remaining, 0)
				}
			}
		})
		t.Logf("d of %v: %d of %d calls were spared", d, spared, int64(spared)+counted.trips.Load())
		require.Greater(t, int64(spared), counted.trips.Load()/20)
	}
}

// In a storm of callers on small funnels, calls that Redis would limit are not sent.
func TestStorm(t *testing.T) {
	counted, leases, set := withClock(t, 0)
	random, allowed, limited := rand.New(rand.NewPCG(1, 2)), int64(0), 0
	for step := range 250 {
		set(time.Duration(step) * 20 * time.Millisecond)
		for range 100 { // of 1,000 keys: 5 calls for each key and second
			number := random.IntN(1000)
			result, err := leases.Allow(ctx, strconv.Itoa(number), limiter.Every(time.Second).Burst(1+number%10))
			require.NoError(t, err)
			if allowed += int64(result.Allowed); result.Limited() {
				limited++
			}
		}
	}
	t.Logf("%d allowed, %d limited, %d calls to Redis", allowed, limited, counted.trips.Load())
	require.Greater(t, limited, 10_000)
	require.LessOrEqual(t, counted.trips.Load(), allowed+1)
}
