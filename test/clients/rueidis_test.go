package clients

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func connectRueidis(t *testing.T, addresses ...string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addresses})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// ask is a call of one token by the typed builder.
func ask(client rueidis.Client, key string, capacity int64) rueidis.Completed {
	return client.B().ClThrottle().Key(key).MaxBurst(capacity).CountPerPeriod(30).Period(60).Build()
}

func TestRueidisBuilder(t *testing.T) {
	ctx := context.Background()
	client := connectRueidis(t, withModule(t).Addr())

	reply, err := client.Do(ctx, ask(client, "laoqian:reply", 15)).AsIntSlice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 15, 14, -1, 2}, reply)

	quantity := client.B().ClThrottle().Key("laoqian:reply").MaxBurst(15).CountPerPeriod(30).Period(60).Quantity(15).Build()
	reply, err = client.Do(ctx, quantity).AsIntSlice()
	require.NoError(t, err)
	require.EqualValues(t, []int64{1, 15, 14}, reply[:3])
	require.InDelta(t, 2, reply[3], 1)

	fraction := client.B().Arbitrary("CL.THROTTLE").Keys("fraction").Args("15", "30", "0.5").Build()
	reply, err = client.Do(ctx, fraction).AsIntSlice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 15, 14, -1, 1}, reply)

	failure, ok := rueidis.IsRedisErr(client.Do(ctx, ask(client, "laoqian:reply", 0)).Error())
	require.True(t, ok)
	require.ErrorContains(t, failure, "capacity must be an integer from 1")
}

// In the mode of redis-cell the builder's MaxBurst means what its name says.
func TestRueidisBuilderInTheModeOfRedisCell(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t), ModuleArguments: []string{"compat", "redis-cell"},
	})
	client := connectRueidis(t, server.Addr())
	reply, err := client.Do(context.Background(), ask(client, "laoqian:reply", 15)).AsIntSlice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 16, 15, -1, 2}, reply)
}

// Funnels can be read through the cache of the client, which is invalidated by each call
// that pours, and by no other.
func TestRueidisClientSideCaching(t *testing.T) {
	ctx := context.Background()
	server := withModule(t)
	reader, caller := connectRueidis(t, server.Addr()), connectRueidis(t, server.Addr())
	pour := func() int64 {
		reply, err := caller.Do(ctx, ask(caller, "laoqian:reply", 2)).AsIntSlice()
		require.NoError(t, err)
		return reply[0]
	}
	read := func() (tat string, cached bool) {
		result := reader.DoCache(ctx, reader.B().Get().Key("laoqian:reply").Cache(), time.Hour)
		tat, err := result.ToString()
		require.NoError(t, err)
		return tat, result.IsCacheHit()
	}

	require.EqualValues(t, 0, pour())
	first, cached := read()
	require.False(t, cached)
	_, cached = read()
	require.True(t, cached)

	require.EqualValues(t, 0, pour())
	require.Eventually(t, func() bool {
		tat, _ := read()
		return tat > first
	}, servertest.Patience, time.Millisecond, "a call that pours invalidates")

	require.Eventually(t, func() bool { _, cached := read(); return cached }, servertest.Patience, time.Millisecond)
	require.EqualValues(t, 1, pour())
	// Its invalidation would come before that of this later key.
	require.NoError(t, reader.DoCache(ctx, reader.B().Get().Key("other").Cache(), time.Hour).NonRedisError())
	require.NoError(t, caller.Do(ctx, caller.B().Set().Key("other").Value("changed").Build()).Error())
	require.Eventually(t, func() bool {
		other, err := reader.DoCache(ctx, reader.B().Get().Key("other").Cache(), time.Hour).ToString()
		return err == nil && other == "changed"
	}, servertest.Patience, time.Millisecond)
	_, cached = read()
	require.True(t, cached, "a call that is limited invalidates nothing")
}

func TestRueidisCluster(t *testing.T) {
	ctx := context.Background()
	cluster := servertest.StartCluster(t, 2, 15*time.Second, servertest.Options{Module: servertest.Module(t)})
	client := connectRueidis(t, cluster.Primaries[0].Addr())
	for i := range 20 {
		for _, want := range []int64{0, 0, 1} {
			reply, err := client.Do(ctx, ask(client, strconv.Itoa(i), 2)).AsIntSlice()
			require.NoError(t, err)
			require.Equal(t, want, reply[0])
		}
	}
}

func TestRueidisScript(t *testing.T) {
	client := connectRueidis(t, bare(t).Addr())
	script := rueidis.NewLuaScript(limiter.Script())
	reply, err := script.Exec(context.Background(), client, []string{"user:42"}, []string{"reserve", "15", "30", "60", "1"}).ToAny()
	require.NoError(t, err)
	require.Equal(t, []any{int64(0), "0", []any{[]any{int64(0), int64(15), int64(14), "0", "2"}}}, reply)
}
