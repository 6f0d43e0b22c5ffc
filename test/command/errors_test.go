package command_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// What the errors say is tested in module/throttle, and by ../../integration_test.go.

// requireErrors requires an error of each kind that the arguments can have.
func requireErrors(t *testing.T, client *redis.Client, key string) {
	t.Helper()
	servertest.RequireError(t, client, "ERR wrong number of arguments", key, 15, 30)
	servertest.RequireError(t, client, "ERR capacity must be", key, "x", "y", "z", "w")
	servertest.RequireError(t, client, "ERR count must be", key, 15, "y", "z", "w")
	servertest.RequireError(t, client, "ERR period must be", key, 15, 1, "z", "w")
	servertest.RequireError(t, client, "ERR quantity must be", key, 15, 1, 1, "w")
	servertest.RequireError(t, client, "ERR count is too large for period", key, 15, 1000000001, 1)
	servertest.RequireError(t, client, "ERR capacity and period are too large together", key, math.MaxInt64, 1, 1)
	servertest.RequireError(t, client, "ERR quantity and period are too large together", key, 15, 1, 1, math.MaxInt64)
}

// TestBadArgumentsLeaveTheKeyAlone, whatever it holds, with its encoding and the time of
// its last use; a key that has expired is not even deleted.
func TestBadArgumentsLeaveTheKeyAlone(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	require.NoError(t, client.ConfigSet(ctx, "lfu-log-factor", "0").Err()) // every use counts
	require.NoError(t, client.ConfigSet(ctx, "maxmemory-policy", "allkeys-lfu").Err())
	require.NoError(t, client.Do(ctx, "debug", "set-active-expire", 0).Err())
	const tat = "4102444800000000000"
	require.NoError(t, client.Set(ctx, "int", tat, 0).Err())
	require.NoError(t, client.Set(ctx, "embstr", "a word", 0).Err())
	require.NoError(t, client.Append(ctx, "raw", tat[:9]).Err())
	require.NoError(t, client.Append(ctx, "raw", tat[9:]).Err())
	require.NoError(t, client.RPush(ctx, "list", "a").Err())
	for _, key := range []string{"int", "embstr", "raw", "list"} {
		look := func() []any {
			return []any{client.ObjectEncoding(ctx, key).Val(), client.MemoryUsage(ctx, key).Val(), client.ObjectFreq(ctx, key).Val()}
		}
		before := look()
		requireErrors(t, client, key)
		require.Equal(t, before, look(), key)
	}
	requireErrors(t, client, "no key")
	require.EqualValues(t, 4, client.DBSize(ctx).Val())

	require.NoError(t, client.Set(ctx, "key", 1, time.Millisecond).Err())
	expiry := time.Now().Add(time.Millisecond)
	servertest.Eventually(t, "the key expires", func() bool { return time.Now().After(expiry.Add(time.Millisecond)) })
	requireErrors(t, client, "key")
	require.EqualValues(t, 5, client.DBSize(ctx).Val())
	servertest.Throttle(t, client, "key", 15, 30, 60, 0)
	require.EqualValues(t, 4, client.DBSize(ctx).Val(), "a call that is fine finds it expired")
}

// TestErrorsOfAnyBytes are a line, not a flood, and let nothing into the protocol.
func TestErrorsOfAnyBytes(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	require.Contains(t, servertest.RequireError(t, client, "ERR capacity", "key", "a\r\nb\x00\xff", 30, 60), "not 'a??b??'")
	long := strings.Repeat("9", 1<<20)
	for _, arguments := range [][]any{{"key", long, 1, 1}, {"key", 1, long, 1}, {"key", 1, 1, "1." + long}, {"key", 1, 1, 1, long}} {
		require.Less(t, len(servertest.RequireError(t, client, "ERR", arguments...)), 512)
	}
	require.Equal(t, "PONG", client.Ping(ctx).Val(), "the connection is still in step")
}

// TestKeysThatHoldNoFunnel, of other types or with other values: they reply an error, also
// to a peek, and stay as they are.
func TestKeysThatHoldNoFunnel(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	for _, write := range [][]any{
		{"rpush", "list", "a"}, {"sadd", "set", "a"}, {"hset", "hash", "a", 1}, {"zadd", "sorted", 1, "a"}, {"xadd", "stream", "*", "a", 1},
		{"set", "nothing", ""}, {"set", "negative", "-5"}, {"set", "2^63", "9223372036854775808"}, {"set", "zero byte", "5\x00"},
		{"set", "leading zeros", "005"}, {"set", "binary", "\xff\xfe\x00\x01"}, {"set", "10 MB of digits", strings.Repeat("1", 10<<20)},
	} {
		require.NoError(t, client.Do(ctx, write...).Err())
		key, want := write[1].(string), "ERR the key does not hold a funnel"
		if write[0] != "set" {
			want = client.Get(ctx, key).Err().Error() // WRONGTYPE, in the words of the server
		}
		before := client.Dump(ctx, key).Val()
		servertest.RequireError(t, client, want, key, 15, 30, 60)
		servertest.RequireError(t, client, want, key, 15, 30, 60, 0)
		require.True(t, before == client.Dump(ctx, key).Val(), key)
		require.EqualValues(t, -1, client.PTTL(ctx, key).Val(), "no expiry was added")
	}
}
