package clients_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestInsideTheServer: a script or function pushes until the funnel is full, and fails
// from then on.
func TestInsideTheServer(t *testing.T) {
	ctx := context.Background()
	keys := []string{"{user:42}", "{user:42}:posts"}
	for _, kind := range []string{"lua", "function"} {
		t.Run(kind, func(t *testing.T) {
			client := servertest.StartClient(t)
			post := func() *redis.Cmd { return client.Eval(ctx, snippet(t, "lua"), keys, "hello") }
			if kind == "function" {
				servertest.NeedSince7(t, "functions")
				require.NoError(t, client.FunctionLoad(ctx, snippet(t, "function")).Err())
				post = func() *redis.Cmd { return client.FCall(ctx, "post", keys, "hello") }
			}
			for call := 1; call <= 20; call++ {
				length, err := post().Int()
				if call > 15 {
					require.Regexp(t, `^LIMITED retry in 1\.\d+ seconds, remaining 0`, err.Error())
					continue
				}
				require.NoError(t, err)
				require.Equal(t, call, length)
			}
			require.EqualValues(t, 15, client.LLen(ctx, keys[1]).Val())
		})
	}
}

func TestPeriodsWithFractionsAreStringsInLua(t *testing.T) {
	ctx := context.Background()
	client := servertest.StartClient(t)
	err := client.Eval(ctx, `return redis.call('CL.THROTTLE', KEYS[1], 15, 30, 0.1)`, []string{"user:42"}).Err()
	if err != nil { // newer servers send the shortest decimal
		require.ErrorContains(t, err, "not '0.10000000000000001'")
	}
	require.NoError(t, client.Eval(ctx, `return redis.call('CL.THROTTLE', KEYS[1], 15, 30, '0.1')`, []string{"user:42"}).Err())
}
