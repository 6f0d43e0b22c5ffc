package clients

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// requireFifteenPosts requires that a script or function pushes until the funnel is
// full, and fails from then on.
func requireFifteenPosts(t *testing.T, client *redis.Client, post func() *redis.Cmd) {
	t.Helper()
	for call := 1; call <= 20; call++ {
		length, err := post().Int()
		if call > 15 {
			require.ErrorContains(t, err, "LIMITED retry in ")
			require.ErrorContains(t, err, " seconds")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, call, length)
	}
	require.EqualValues(t, 15, client.LLen(context.Background(), "{user:42}:posts").Val())
}

func TestScriptInsideTheServer(t *testing.T) {
	ctx := context.Background()
	client := withModule(t).Client(t)
	keys := []string{"{user:42}", "{user:42}:posts"}
	text := snippet(t, "lua")
	requireFifteenPosts(t, client, func() *redis.Cmd { return client.Eval(ctx, text, keys, "hello") })
}

func TestFunctionInsideTheServer(t *testing.T) {
	ctx := context.Background()
	client := withModule(t).Client(t)
	if client.Do(ctx, "function", "list").Err() != nil {
		t.Skip("needs a server with FUNCTION, Redis 7.0 or newer")
	}
	require.NoError(t, client.FunctionLoad(ctx, snippet(t, "function")).Err())
	keys := []string{"{user:42}", "{user:42}:posts"}
	requireFifteenPosts(t, client, func() *redis.Cmd { return client.FCall(ctx, "post", keys, "hello") })
}

func TestPeriodsWithFractionsAreStringsInLua(t *testing.T) {
	ctx := context.Background()
	client := withModule(t).Client(t)
	err := client.Eval(ctx, `return redis.call('CL.THROTTLE', KEYS[1], 15, 30, 0.1)`, []string{"user:42"}).Err()
	require.ErrorContains(t, err, "not '0.10000000000000001'")
	require.NoError(t, client.Eval(ctx, `return redis.call('CL.THROTTLE', KEYS[1], 15, 30, '0.1')`, []string{"user:42"}).Err())
}
