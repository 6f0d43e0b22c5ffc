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
