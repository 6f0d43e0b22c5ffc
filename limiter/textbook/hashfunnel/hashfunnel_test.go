package hashfunnel_test

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/gcra/local"
	"funnel/internal/servertest"
	"funnel/limiter/textbook/hashfunnel"
)

// start is when the clocks of these tests begin: in a year in which no hash expires
// by the real clock.
var start = servertest.Epoch

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

// Capacity and rate may change, and the clock may step back. A limited call writes nothing.
func TestIsActionAllowed(t *testing.T) {
	client, watch := connect(t), &watch{}
	funnels := hashfunnel.New(client, watch.now)
	state := func() [2]any {
		changes := servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")
		return [2]any{changes, client.Dump(context.Background(), hashfunnel.Key("laoqian", "reply")).Val()}
	}
	for _, step := range []struct {
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
		{"but takes its token at the later time", time.Second, 3, 0.5, true},
		{"nor is time counted twice", 5999 * time.Millisecond, 2, 0.5, false},
		{"in time", 6 * time.Second, 2, 0.5, true},
		{"empty", time.Hour, 2, 0.5, true},
		{"and no emptier than that", time.Hour, 2, 0.5, true},
		{"full again", time.Hour, 2, 0.5, false},
	} {
		watch.Time = start.Add(step.at)
		before := state()
		require.Equal(t, step.want, ask(t, funnels, "laoqian", step.capacity, step.rate), step.name)
		require.Equal(t, !step.want, before == state(), step.name)
	}
}

// Without a clock of its own, a funnel leaks, and its hash expires, by that of the
// server.
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

	for range 2 {
		servertest.Eventually(t, "a token has leaked", func() bool { return ask(t, funnels, "laozhang", 1, 20) })
	}
	servertest.Eventually(t, "nothing is left of a funnel that has drained", func() bool {
		return client.Exists(ctx, hashfunnel.Key("laozhang", "reply")).Val() == 0
	})
}

// The hash expires when the funnel is empty.
func TestExpiry(t *testing.T) {
	client := connect(t)
	watch := &watch{start}
	funnels := hashfunnel.New(client, watch.now)
	for _, test := range []struct {
		name     string
		at       time.Duration
		capacity int
		rate     float64
		calls    int
		want     time.Duration
	}{
		{"one token", 0, 15, 0.5, 1, 2 * time.Second},
		{"full", 0, 15, 0.5, 15, 30 * time.Second},
		{"a full one lasts longer than a day", 0, 10, 1e-4, 10, 100_000 * time.Second},
		{"a part of a millisecond", 0, 1, 7000, 1, time.Millisecond},
		{"a century", 0, 1, 1.0 / (100 * 365 * 86400), 1, 100 * 365 * 24 * time.Hour},
		// By a clock that is an hour behind.
		{"one token", -time.Hour, 15, 0.5, 1, 4 * time.Second},
	} {
		watch.Time = start.Add(test.at)
		for range test.calls {
			require.True(t, ask(t, funnels, test.name, test.capacity, test.rate))
		}
		require.Equal(t, start.Add(test.want).UnixMilli(),
			servertest.ExpiryOf(t, client, hashfunnel.Key(test.name, "reply")), test.name)
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
		{1e9 + 1, 1, hashfunnel.ErrCapacity},
		{1, 0, local.ErrLeakingRate},
		{1, math.NaN(), local.ErrLeakingRate},
		{1e9, 1e-9, gcra.ErrTolerance},
	} {
		allowed, err := funnels.IsActionAllowed(ctx, "laoqian", "reply", test.capacity, test.rate)
		require.ErrorIs(t, err, test.want, "%v", test)
		require.False(t, allowed)
	}
	require.True(t, ask(t, funnels, "the largest", 1e9, 1e9))

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
	require.ErrorContains(t, err, "hashfunnel: ")
	require.False(t, allowed)
	require.ErrorContains(t, funnels.Reset(ctx, "laoqian", "reply"), "hashfunnel: ")
}

// TestBytesPerFunnel measures what the package comment says about memory.
func TestBytesPerFunnel(t *testing.T) {
	client := connect(t)
	funnels := hashfunnel.New(client, nil)
	used := func() int64 { return servertest.InfoField(t, client, "memory", "used_memory") }
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
