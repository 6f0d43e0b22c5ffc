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

func TestRueidisBuilder(t *testing.T) {
	ctx := context.Background()
	client := connectRueidis(t, servertest.StartModule(t).Addr())
	typed := client.B().ClThrottle().Key("user:42").MaxBurst(15).CountPerPeriod(30).Period(60).Quantity(15)
	reply, err := client.Do(ctx, typed.Build()).AsIntSlice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 15, 0, -1, 30}, reply)

	fraction := client.B().Arbitrary("CL.THROTTLE").Keys("fraction").Args("15", "30", "0.5")
	reply, err = client.Do(ctx, fraction.Build()).AsIntSlice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 15, 14, -1, 1}, reply)

	gcra := client.B().Gcra().Key("gcra").MaxBurst(15).TokensPerPeriod(30).Period(60)
	for _, command := range []rueidis.Completed{gcra.Count(1).Build(), client.B().Gcra().Key("other").MaxBurst(15).TokensPerPeriod(1).Period(0.000001).Build()} {
		reply, err = client.Do(ctx, command).AsIntSlice()
		require.NoError(t, err)
		require.Equal(t, []int64{0, 16, 15, -1}, reply[:4])
	}
}

// TestRedisson sends the commands of its RGcra: until 4.6 one, and from 4.7 on a script, which reads
// the limit from a hash beside the key.
func TestRedisson(t *testing.T) {
	client := servertest.StartClient(t)
	const acquire = `local limit = redis.call('HMGET', KEYS[1], 'maxBurst', 'rate', 'period')
		return redis.call('GCRA', KEYS[2], limit[1], limit[2], limit[3], unpack(ARGV))`
	require.NoError(t, client.HSet(t.Context(), "{k}:config", "maxBurst", "2", "rate", "4", "period", "0.5").Err())
	require.Equal(t, "0 3 2 -1 1", servertest.Call(t, client, "GCRA k 2 4 0.5"))
	require.Equal(t, "0 3 0 -1 1", servertest.Line(client.Eval(t.Context(), acquire, []string{"{k}:config", "k"}, "TOKENS", 2)))
	require.Equal(t, "1 3 0 1 1", servertest.Line(client.Eval(t.Context(), acquire, []string{"{k}:config", "k"})))
}

func TestRueidisScript(t *testing.T) {
	client := connectRueidis(t, servertest.Start(t, servertest.Options{}).Addr())
	script := rueidis.NewLuaScript(limiter.Script())
	reply, err := script.Exec(context.Background(), client, []string{"user:42"}, []string{"reserve", "15", "30", "60", "1"}).ToAny()
	require.NoError(t, err)
	row := reply.([]any)[2].([]any)[0].([]any)
	require.Equal(t, []any{int64(0), "0", []any{[]any{int64(0), int64(15), int64(14), "0", "2", row[5]}}}, reply)
	require.Regexp(t, `^\d{19}$`, row[5])
}
