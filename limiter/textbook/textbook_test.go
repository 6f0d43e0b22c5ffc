// The three limiters decide as their pages say, on any limit and at any time, for all callers of a key together.
// What they store expires, and an error is no permission.

package textbook_test

import (
	"context"
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter/textbook"
)

// rdb is a client of the server that all tests share. It has no module.
var rdb *redis.Client

func TestMain(m *testing.M) {
	server, err := servertest.Run(servertest.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb = server.NewClient()
	m.Run()
}

// A limiter is what the three have in common.
type limiter interface {
	Allow(ctx context.Context, key string) (bool, error)
}

var kinds = []string{"local", "hash", "window"}

// open returns a limiter that allows capacity calls at once, and as many again after the period.
func open(kind string, rdb *redis.Client, capacity int, period time.Duration, now func() time.Time) limiter {
	leakingRate := float64(capacity) / period.Seconds()
	switch kind {
	case "local":
		local := must(textbook.NewLocal(capacity, leakingRate))
		local.Now = now
		return local
	case "hash":
		hash := must(textbook.NewHash(rdb, capacity, leakingRate))
		hash.Now = now
		return hash
	}
	window := must(textbook.NewWindow(rdb, capacity, period))
	window.Now = now
	return window
}

func must[Value any](value Value, err error) Value {
	if err != nil {
		panic(err)
	}
	return value
}

// A clock shows what the test sets it to. It starts in a year in which no key expires by the
// server's clock.
type clock struct{ time.Time }

func newClock() *clock { return &clock{servertest.Epoch} }

func (c *clock) now() time.Time { return c.Time }

func allow(t require.TestingT, limiter limiter, key string) bool {
	allowed, err := limiter.Allow(context.Background(), key)
	require.NoError(t, err)
	return allowed
}

// Callers at the same time, each with its own connection, get the capacity and no more.
func TestConcurrency(t *testing.T) {
	const callers, calls, keys, capacity = 8, 180, 3, 15
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var allowed [keys]atomic.Int64
			var done sync.WaitGroup
			begin := make(chan bool)
			limiter := open(kind, rdb, capacity, time.Hour, newClock().now)
			for range callers {
				if kind != "local" {
					client := redis.NewClient(rdb.Options())
					defer client.Close()
					limiter = open(kind, client, capacity, time.Hour, newClock().now)
				}
				done.Go(func() {
					<-begin
					for call := range calls {
						ok, err := limiter.Allow(t.Context(), t.Name()+strconv.Itoa(call%keys))
						if err != nil {
							t.Error(err)
						}
						if ok {
							allowed[call%keys].Add(1)
						}
					}
				})
			}
			close(begin)
			done.Wait()
			for key := range allowed {
				require.EqualValues(t, capacity, allowed[key].Load())
			}
		})
	}
}

// The hash and the window go by the server's clock, and their keys expire by it.
func TestServerClock(t *testing.T) {
	hash, window := must(textbook.NewHash(rdb, 1, 20)), must(textbook.NewWindow(rdb, 1, 50*time.Millisecond))
	before := must(rdb.Time(t.Context()).Result()).UnixMicro()
	require.True(t, allow(t, hash, "hash by the clock"))
	lastTime := must(rdb.HGet(t.Context(), "hash by the clock", "lastTime").Int64())
	require.True(t, allow(t, window, "window by the clock"))
	score := must(rdb.ZRangeWithScores(t.Context(), "window by the clock", 0, -1).Result())[0].Score
	after := must(rdb.Time(t.Context()).Result()).UnixMicro()
	require.IsNonDecreasing(t, []int64{before, lastTime, int64(score), after})
	servertest.Eventually(t, "both keys expire", func() bool {
		return rdb.Exists(t.Context(), "hash by the clock", "window by the clock").Val() == 0
	})
}

// The local funnel goes by time.Now, which moves in a bubble when all goroutines sleep. Keys that were used once
// leave no memory behind.
func TestLocalForgetsIdleKeys(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var statistics runtime.MemStats
		runtime.ReadMemStats(&statistics)
		return statistics.HeapAlloc
	}
	synctest.Test(t, func(t *testing.T) {
		local := must(textbook.NewLocal(15, 1))
		before := heap()
		for user := range 100_000 { // which would be 8 MB
			time.Sleep(time.Second)
			require.True(t, allow(t, local, strconv.Itoa(user)))
		}
		require.Less(t, heap(), before+1<<19)
		runtime.KeepAlive(local)
	})
}

// The fullest and slowest funnel there can be drains in 30 million years.
func TestSlowestFunnel(t *testing.T) {
	hash := must(textbook.NewHash(rdb, 1e6, 1e-9))
	rdb.HSet(t.Context(), "slowest", "water", 999_999, "lastTime", time.Now().UnixMicro())
	require.True(t, allow(t, hash, "slowest"))
	require.InEpsilon(t, 1e18, servertest.ExpiryOf(t, rdb, "slowest"), 1e-3)
}

func TestArguments(t *testing.T) {
	for _, test := range []struct {
		capacity    int
		leakingRate float64
		want        string
	}{
		{0, 1, "capacity must be from 1 to 1e6 tokens, not 0"},
		{1e6 + 1, 1, "capacity must be from 1 to 1e6 tokens, not 1000001"},
		{1, 9e-10, "leaking rate must be from 1e-9 to 1e6 tokens per second, not 9e-10"},
		{1, 1e6 + 1, "leaking rate must be from 1e-9 to 1e6 tokens per second, not 1.000001e+06"},
		{1, math.NaN(), "leaking rate must be from 1e-9 to 1e6 tokens per second, not NaN"},
	} {
		_, err := textbook.NewLocal(test.capacity, test.leakingRate)
		require.EqualError(t, err, "textbook: "+test.want)
		_, err = textbook.NewHash(rdb, test.capacity, test.leakingRate)
		require.EqualError(t, err, "textbook: "+test.want)
	}
	_, err := textbook.NewWindow(rdb, 0, time.Minute)
	require.EqualError(t, err, "textbook: maxCount must be at least 1 call, not 0")
	_, err = textbook.NewWindow(rdb, 1, time.Microsecond-1)
	require.EqualError(t, err, "textbook: period must be at least 1µs, not 999ns")
	must(textbook.NewHash(rdb, 1, 1e6))
	must(textbook.NewWindow(rdb, 1, time.Microsecond))
}

// An error is no permission, and changes nothing.
func TestErrors(t *testing.T) {
	gone := servertest.Start(t, servertest.Options{})
	unreachable := gone.Client(t, func(options *redis.Options) { options.DialerRetries = 1 })
	gone.Stop()
	requireError := func(limiter limiter, key, want string) {
		before := servertest.Dumps(t, rdb)
		allowed, err := limiter.Allow(t.Context(), key)
		require.ErrorContains(t, err, "textbook: ")
		require.ErrorContains(t, err, want)
		require.False(t, allowed)
		require.Equal(t, before, servertest.Dumps(t, rdb))
	}
	require.NoError(t, rdb.Set(t.Context(), t.Name(), "text", 0).Err())
	for _, kind := range kinds[1:] {
		requireError(open(kind, rdb, 1, time.Second, nil), t.Name(), "WRONGTYPE")
		requireError(open(kind, unreachable, 1, time.Second, nil), t.Name(), "refused")
	}
	hash := must(textbook.NewHash(rdb, 1, 1))
	for _, field := range []string{"water", "lastTime"} {
		require.NoError(t, rdb.HSet(t.Context(), t.Name()+field, field, "much").Err())
		requireError(hash, t.Name()+field, "the fields water and lastTime are not numbers")
	}
}

// Both funnels decide like package gcra. When a clock goes back, nothing leaks until it is where it was. A call
// that comes too early by two microseconds, or by a millionth of a token, may be allowed: it is moved to its
// time. Limited calls store nothing, and a hash expires when its funnel has drained.
func TestFunnelsAreGCRA(t *testing.T) {
	keys := 0
	rapid.Check(t, func(rt *rapid.T) {
		keys++
		key := t.Name() + strconv.Itoa(keys)
		capacity := rapid.IntRange(1, 20).Draw(rt, "capacity")
		token := rapid.SampledFrom([]time.Duration{2 * time.Hour, 10 * time.Second, 3 * time.Second, time.Second,
			700 * time.Millisecond, 30 * time.Millisecond, time.Millisecond, 70 * time.Microsecond}).Draw(rt, "token")
		rate := must(gcra.NewRate(int64(capacity), 1, int64(token)))
		local := must(textbook.NewLocal(capacity, 1/token.Seconds()))
		hash := must(textbook.NewHash(rdb, capacity, 1/token.Seconds()))
		clock := newClock()
		local.Now, hash.Now = clock.now, clock.now

		var tat int64
		var stored map[string]string
		var last time.Time
		for range rapid.IntRange(1, 80).Draw(rt, "calls") {
			shares := []time.Duration{0, 0, 0, 1, 33, 90, 100, 250, 1000, -150}
			share := rapid.SampledFrom(shares).Draw(rt, "hundredths of a token")
			clock.Time = clock.Add(token * share / 100).Truncate(time.Microsecond)
			now := clock.Time
			if now.Before(last) {
				now = last
			}
			margin := 2*time.Microsecond + token/1e6
			want := must(rate.Decide(tat, now.UnixNano(), 1))
			if early := time.Duration(want.RetryAfter()); want.Limited {
				if early > margin && rapid.Bool().Draw(rt, "just too early") {
					now = now.Add(early - margin).Truncate(time.Microsecond)
					clock.Time = now
				} else if early <= margin || rapid.Bool().Draw(rt, "just in time") {
					now = now.Add(early)
					clock.Time = now
				}
				want = must(rate.Decide(tat, now.UnixNano(), 1))
			}
			require.Equal(rt, !want.Limited, allow(rt, local, key))
			require.Equal(rt, !want.Limited, allow(rt, hash, key))
			if want.Limited {
				require.Equal(rt, stored, rdb.HGetAll(t.Context(), key).Val())
			} else {
				tat, last, stored = want.TAT, now, rdb.HGetAll(t.Context(), key).Val()
			}
			require.InDelta(rt, float64(tat)/1e6+0.5, servertest.ExpiryOf(t, rdb, key), 0.51, "in milliseconds, rounded up")
		}
	})
}

// The limit of a hash may change, with the water that it has.
func TestHashOfAnotherLimit(t *testing.T) {
	clock := newClock()
	allows := func(capacity int, period time.Duration) bool {
		return allow(t, open("hash", rdb, capacity, period, clock.now), t.Name())
	}
	for _, capacity := range []int{2, 2, 3} {
		require.True(t, allows(capacity, time.Duration(2*capacity)*time.Second))
	}
	require.False(t, allows(3, 6*time.Second))
	clock.Time = clock.Add(2 * time.Second)
	require.False(t, allows(2, 4*time.Second))
	require.True(t, allows(2, 2*time.Second))
	require.False(t, allows(2, 2*time.Second))
}

// The window allows a call where it has allowed fewer in the period before, holds the times of those, and
// expires when the last is forgotten. On a clock that goes back, calls count as at the latest time.
func TestWindowIsALog(t *testing.T) {
	keys, all := 0, t
	rapid.Check(t, func(t *rapid.T) {
		keys++
		key := "log" + strconv.Itoa(keys)
		maxCount := rapid.IntRange(1, 6).Draw(t, "maxCount")
		period := time.Duration(rapid.IntRange(1, 40).Draw(t, "period")) * time.Microsecond
		window := must(textbook.NewWindow(rdb, maxCount, period))
		clock := newClock()
		window.Now = clock.now
		var log []int64
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			step := rapid.SampledFrom([]time.Duration{0, 0, 1, 7, period / time.Microsecond, -5}).Draw(t, "step")
			clock.Time = clock.Add(step * time.Microsecond)
			now := clock.UnixMicro()
			if len(log) > 0 {
				now = max(now, log[len(log)-1])
			}
			kept := len(log)
			for kept > 0 && now-log[len(log)-kept] >= period.Microseconds() {
				kept--
			}
			want := kept < maxCount
			if want {
				log = append(log, now)
				kept++
			}
			require.Equal(t, want, allow(t, window, key))
			members := must(rdb.ZRangeWithScores(context.Background(), key, 0, -1).Result())
			require.Len(t, members, kept)
			for i, member := range members {
				require.Equal(t, float64(log[len(log)-kept+i]), member.Score)
				require.Len(t, member.Member, 26, "longer ones take more memory than the comment says")
			}
			expiry := log[len(log)-1] + period.Microseconds()
			require.Equal(t, (expiry+999)/1000, servertest.ExpiryOf(all, rdb, key), "in milliseconds, rounded up")
		}
	})
}

// No two pairs of user and action share a key.
func TestKey(t *testing.T) {
	require.Equal(t, "a%3Ab%25:c", textbook.Key("a:b%", "c"))
	text := rapid.StringOfN(rapid.SampledFrom([]rune(":%25A3a")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		user, action := text.Draw(t, "user"), text.Draw(t, "action")
		key := textbook.Key(user, action)
		for _, letters := range []string{user + ":" + action, key} {
			for i, letter := range letters {
				if other := letters[:i]; letter == ':' && other != user {
					require.NotEqual(t, key, textbook.Key(other, letters[i+1:]), "user %q and user %q", user, other)
				}
			}
		}
	})
}
