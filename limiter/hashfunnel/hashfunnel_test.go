package hashfunnel_test

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/gcra/local"
	"funnel/internal/servertest"
	"funnel/limiter/hashfunnel"
)

// start is when the clocks of these tests begin: in a year in which no hash expires
// by the real clock.
var start = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// connect starts a server without any module.
func connect(t testing.TB) *redis.Client {
	t.Helper()
	return servertest.Start(t, servertest.Options{}).Client(t)
}

// A watch is a clock that tests set.
type watch struct{ time.Time }

func (w *watch) now() time.Time { return w.Time }

// ask is IsActionAllowed, which must not fail.
func ask(t testing.TB, funnels *hashfunnel.Funnels, user string, capacity int, leakingRate float64) bool {
	t.Helper()
	allowed, err := funnels.IsActionAllowed(context.Background(), user, "reply", capacity, leakingRate)
	require.NoError(t, err)
	return allowed
}

func TestIsActionAllowed(t *testing.T) {
	steps := []struct {
		name     string
		at       time.Duration
		capacity int
		rate     float64
		want     bool
	}{
		{"first", 0, 2, 0.5, true},
		{"second", 0, 2, 0.5, true},
		{"full", 0, 2, 0.5, false},
		{"a larger one has room", 0, 3, 0.5, true},
		{"and is full, too", 0, 3, 0.5, false},
		{"the smaller one is overfull", 2 * time.Second, 2, 0.5, false},
		{"a faster leak makes room", 2 * time.Second, 2, 1, true},
		{"but not for two", 2 * time.Second, 2, 1, false},
		{"a clock that steps back adds nothing", time.Second, 2, 0.5, false},
		{"nor is time counted twice", 3999 * time.Millisecond, 2, 0.5, false},
		{"in time", 4 * time.Second, 2, 0.5, true},
		{"empty", time.Hour, 2, 0.5, true},
		{"and no emptier than that", time.Hour, 2, 0.5, true},
		{"full again", time.Hour, 2, 0.5, false},
	}
	watch := &watch{}
	funnels := hashfunnel.New(connect(t), watch.now)
	for _, step := range steps {
		watch.Time = start.Add(step.at)
		require.Equal(t, step.want, ask(t, funnels, "laoqian", step.capacity, step.rate), step.name)
	}
}

// The textbook version counts whole seconds.
func TestExactRefill(t *testing.T) {
	client := connect(t)
	for _, rate := range []float64{0.1, 0.5, 1.0 / 3, 0.7, 1, 7, 1000, 1e5} {
		t.Run(strconv.FormatFloat(rate, 'g', -1, 64), func(t *testing.T) {
			const capacity = 15
			user := t.Name()
			watch := &watch{start}
			funnels := hashfunnel.New(client, watch.now)
			for range capacity {
				require.True(t, ask(t, funnels, user, capacity, rate))
			}
			// A millionth of a token may be early, and the clock counts microseconds.
			tooEarly := time.Duration(2e-6/rate*1e9) + 2*time.Microsecond
			for token := range 200 {
				at := start.Add(time.Duration(math.Ceil(float64(token+1)/rate*1e6)) * time.Microsecond)
				watch.Time = at.Add(-tooEarly)
				require.False(t, ask(t, funnels, user, capacity, rate), "token %d comes early", token)
				watch.Time = at
				require.True(t, ask(t, funnels, user, capacity, rate), "token %d comes in time", token)
				require.False(t, ask(t, funnels, user, capacity, rate), "token %d comes alone", token)
			}
		})
	}
}

func TestServerClock(t *testing.T) {
	ctx := context.Background()
	client := connect(t)
	funnels := hashfunnel.New(client, nil)
	require.True(t, ask(t, funnels, "laoqian", 1, 0.001))
	require.False(t, ask(t, funnels, "laoqian", 1, 0.001))

	now, err := client.Time(ctx).Result()
	require.NoError(t, err)
	lastTime, err := client.HGet(ctx, hashfunnel.Key("laoqian", "reply"), "lastTime").Int64()
	require.NoError(t, err)
	require.WithinDuration(t, now, time.UnixMicro(lastTime), servertest.Patience)

	require.Eventually(t, func() bool {
		return ask(t, funnels, "laozhang", 1, 20)
	}, servertest.Patience, time.Millisecond)
	require.Eventually(t, func() bool {
		return ask(t, funnels, "laozhang", 1, 20)
	}, servertest.Patience, time.Millisecond, "the funnel leaks by the clock of the server")
}

// The hash expires when the funnel is empty.
func TestExpiry(t *testing.T) {
	ctx := context.Background()
	client := connect(t)
	watch := &watch{start}
	funnels := hashfunnel.New(client, watch.now)
	expiry := func(user string) time.Time {
		sinceEpoch, err := client.PExpireTime(ctx, hashfunnel.Key(user, "reply")).Result()
		require.NoError(t, err)
		return time.UnixMilli(sinceEpoch.Milliseconds()).UTC()
	}
	for _, test := range []struct {
		name     string
		capacity int
		rate     float64
		pour     int
		want     time.Duration
	}{
		{"one token", 15, 0.5, 1, 2 * time.Second},
		{"full", 15, 0.5, 15, 30 * time.Second},
		{"a full one lasts longer than a day", 10, 1e-4, 10, 100_000 * time.Second},
		{"a part of a millisecond", 1, 7000, 1, time.Millisecond},
		{"a century", 1, 1.0 / (100 * 365 * 86400), 1, 100 * 365 * 24 * time.Hour},
	} {
		for range test.pour {
			require.True(t, ask(t, funnels, test.name, test.capacity, test.rate))
		}
		require.Equal(t, start.Add(test.want), expiry(test.name), test.name)
	}

	watch.Time = start.Add(-time.Hour)
	require.True(t, ask(t, funnels, "one token", 15, 0.5))
	require.Equal(t, start.Add(4*time.Second), expiry("one token"), "a funnel of a clock that is ahead")

	funnels = hashfunnel.New(client, nil)
	require.True(t, ask(t, funnels, "quick", 15, 1000))
	require.Eventually(t, func() bool {
		return client.Exists(ctx, hashfunnel.Key("quick", "reply")).Val() == 0
	}, servertest.Patience, time.Millisecond, "a funnel that has drained leaves nothing behind")
}

func TestLimitedCallsWriteNothing(t *testing.T) {
	ctx := context.Background()
	client := connect(t)
	watch := &watch{start}
	funnels := hashfunnel.New(client, watch.now)
	require.True(t, ask(t, funnels, "laoqian", 1, 0.001))
	offset := func() string {
		info, err := client.Info(ctx, "persistence").Result()
		require.NoError(t, err)
		return infoField(t, info, "rdb_changes_since_last_save")
	}
	before, dump := offset(), client.Dump(ctx, hashfunnel.Key("laoqian", "reply")).Val()
	watch.Time = start.Add(time.Minute)
	require.False(t, ask(t, funnels, "laoqian", 1, 0.001))
	require.Equal(t, before, offset())
	require.Equal(t, dump, client.Dump(ctx, hashfunnel.Key("laoqian", "reply")).Val())
}

func TestReset(t *testing.T) {
	ctx := context.Background()
	funnels := hashfunnel.New(connect(t), nil)
	require.True(t, ask(t, funnels, "laoqian", 1, 0.001))
	require.True(t, ask(t, funnels, "laozhang", 1, 0.001))
	require.NoError(t, funnels.Reset(ctx, "laoqian", "reply"))
	require.True(t, ask(t, funnels, "laoqian", 1, 0.001))
	require.False(t, ask(t, funnels, "laozhang", 1, 0.001), "another user")
}

func TestScriptIsLoadedOnDemand(t *testing.T) {
	client := connect(t)
	funnels := hashfunnel.New(client, nil)
	require.True(t, ask(t, funnels, "laoqian", 2, 0.001))
	require.NoError(t, client.ScriptFlush(context.Background()).Err())
	require.True(t, ask(t, funnels, "laoqian", 2, 0.001))
	require.False(t, ask(t, funnels, "laoqian", 2, 0.001))
}

func TestExactlyCapacityAtOneInstant(t *testing.T) {
	const capacity = 15
	client := connect(t)
	funnels := hashfunnel.New(client, func() time.Time { return start })
	var allowed atomic.Int64
	var workers sync.WaitGroup
	for range 50 {
		workers.Go(func() {
			for range 10 {
				ok, err := funnels.IsActionAllowed(context.Background(), "laoqian", "reply", capacity, 0.5)
				if err != nil {
					t.Error(err)
				}
				if ok {
					allowed.Add(1)
				}
			}
		})
	}
	workers.Wait()
	require.EqualValues(t, capacity, allowed.Load())
}

func TestCluster(t *testing.T) {
	client := servertest.StartCluster(t, 2, 15*time.Second, servertest.Options{}).Client(t)
	funnels := hashfunnel.New(client, nil)
	for i := range 20 {
		for _, want := range []bool{true, true, false} {
			require.Equal(t, want, ask(t, funnels, strconv.Itoa(i), 2, 0.001))
		}
	}
}

func TestErrors(t *testing.T) {
	ctx := context.Background()
	client := connect(t)
	funnels := hashfunnel.New(client, nil)
	for _, test := range []struct {
		capacity int
		rate     float64
		want     error
	}{
		{0, 1, hashfunnel.ErrCapacity},
		{-1, 1, hashfunnel.ErrCapacity},
		{1e9 + 1, 1, hashfunnel.ErrCapacity},
		{1, 0, local.ErrLeakingRate},
		{1, -1, local.ErrLeakingRate},
		{1, 1e9 + 1, local.ErrLeakingRate},
		{1, math.NaN(), local.ErrLeakingRate},
		{1, math.Inf(1), local.ErrLeakingRate},
		{1e9, 1e-9, gcra.ErrTolerance},
	} {
		allowed, err := funnels.IsActionAllowed(ctx, "laoqian", "reply", test.capacity, test.rate)
		require.ErrorIs(t, err, test.want, "%v", test)
		require.False(t, allowed)
	}

	key := hashfunnel.Key("laoqian", "reply")
	require.NoError(t, client.Set(ctx, key, "text", 0).Err())
	_, err := funnels.IsActionAllowed(ctx, "laoqian", "reply", 1, 1)
	require.ErrorContains(t, err, "hashfunnel: WRONGTYPE")
	require.Equal(t, time.Duration(-1), client.TTL(ctx, key).Val(), "an error changes nothing")

	require.NoError(t, client.Del(ctx, key).Err())
	require.NoError(t, client.HSet(ctx, key, "water", "much").Err())
	_, err = funnels.IsActionAllowed(ctx, "laoqian", "reply", 1, 1)
	require.ErrorContains(t, err, "the key does not hold a funnel")
	require.Equal(t, map[string]string{"water": "much"}, client.HGetAll(ctx, key).Val())

	gone := servertest.Start(t, servertest.Options{})
	funnels = hashfunnel.New(gone.Client(t, func(options *redis.Options) { options.DialerRetries = 1 }), nil)
	gone.Stop()
	allowed, err := funnels.IsActionAllowed(ctx, "laoqian", "reply", 1, 1)
	require.Error(t, err)
	require.False(t, allowed)
	require.Error(t, funnels.Reset(ctx, "laoqian", "reply"))
}

// TestBytesPerFunnel measures what the package comment says about memory.
func TestBytesPerFunnel(t *testing.T) {
	ctx := context.Background()
	client := connect(t)
	funnels := hashfunnel.New(client, nil)
	used := func() int64 {
		info, err := client.Info(ctx, "memory").Result()
		require.NoError(t, err)
		bytes, err := strconv.ParseInt(infoField(t, info, "used_memory"), 10, 64)
		require.NoError(t, err)
		return bytes
	}
	const users = 20_000
	ask(t, funnels, "laoqian", 15, 0.001)
	before := used()
	for i := range users {
		ask(t, funnels, strconv.Itoa(i), 15, 0.0013)
	}
	each := (used() - before) / users
	t.Logf("%d bytes each", each)
	require.InDelta(t, 180, each, 40)
}
