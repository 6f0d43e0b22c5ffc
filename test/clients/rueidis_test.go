package clients_test

import (
	"context"
	"testing"

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
	client := connectRueidis(t, servertest.StartModule(t).Addr())

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

func TestRueidisScript(t *testing.T) {
	client := connectRueidis(t, servertest.Start(t, servertest.Options{}).Addr())
	script := rueidis.NewLuaScript(limiter.Script)
	reply, err := script.Exec(context.Background(), client, []string{"user:42"}, []string{"15", "30", "60"}).ToArray()
	require.NoError(t, err)
	require.Len(t, reply, 7)
	for i, want := range []int64{0, 15, 14, -1, 2, -1, 2_000_000_000} {
		got, err := reply[i].AsInt64()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
