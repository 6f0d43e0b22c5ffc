package command_test

import (
	"context"
	"funnel/internal/servertest"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestErrors goes through the table of errors in the contract: each names what
// was wrong, and changes nothing.
func TestErrors(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	const (
		arity    = "ERR wrong number of arguments for 'cl.throttle' command"
		capacity = "ERR capacity must be an integer from 1 to 9223372036854775807"
		count    = "ERR count must be an integer from 1 to 9223372036854775807"
		period   = "ERR period must be seconds above 0"
		quantity = "ERR quantity must be an integer from 0 to 9223372036854775807"
		interval = "ERR count is too large for period"
		drain    = "ERR capacity and period are too large together"
		leak     = "ERR quantity and period are too large together"
	)
	type arguments = []any
	cases := []struct {
		name      string
		prefix    string
		arguments arguments
	}{
		{"nothing", arity, arguments{}},
		{"a key alone", arity, arguments{"key"}},
		{"no period", arity, arguments{"key", 15, 30}},
		{"too many", arity, arguments{"key", 15, 30, 60, 1, 1}},

		{"capacity 0", capacity, arguments{"key", 0, 30, 60}},
		{"capacity below 0", capacity, arguments{"key", -1, 30, 60}},
		{"capacity a word", capacity, arguments{"key", "many", 30, 60}},
		{"capacity empty", capacity, arguments{"key", "", 30, 60}},
		{"capacity a decimal", capacity, arguments{"key", "1.5", 30, 60}},
		{"capacity with a sign", capacity, arguments{"key", "+15", 30, 60}},
		{"capacity with a space", capacity, arguments{"key", " 15", 30, 60}},
		{"capacity with a zero byte", capacity, arguments{"key", "15\x00", 30, 60}},
		{"capacity with leading zeros", capacity, arguments{"key", "015", 30, 60}},
		{"capacity 2^63", capacity, arguments{"key", "9223372036854775808", 30, 60}},
		{"capacity of 20 digits", capacity, arguments{"key", "10000000000000000000", 30, 60}},
		{"capacity of 1 MB", capacity, arguments{"key", strings.Repeat("9", 1<<20), 30, 60}},

		{"count 0", count, arguments{"key", 15, 0, 60}},
		{"count below 0", count, arguments{"key", 15, -30, 60}},
		{"count a word", count, arguments{"key", 15, "x", 60}},
		{"count 2^63", count, arguments{"key", 15, "9223372036854775808", 60}},

		{"period 0", period, arguments{"key", 15, 30, 0}},
		{"period 0.0", period, arguments{"key", 15, 30, "0.000000000"}},
		{"period below 0", period, arguments{"key", 15, 30, -60}},
		{"period a word", period, arguments{"key", 15, 30, "minute"}},
		{"period in exponents", period, arguments{"key", 15, 30, "1e3"}},
		{"period infinite", period, arguments{"key", 15, 30, "inf"}},
		{"period with a point and nothing behind it", period, arguments{"key", 15, 30, "60."}},
		{"period with a point and nothing before it", period, arguments{"key", 15, 30, ".5"}},
		{"period with two points", period, arguments{"key", 15, 30, "1.2.3"}},
		{"period with 10 fraction digits", period, arguments{"key", 15, 30, "60.0000000001"}},
		{"period beyond 63 bits", period, arguments{"key", 15, 30, "9223372036.854775808"}},
		{"period of 1 MB", period, arguments{"key", 15, 30, "1." + strings.Repeat("0", 1<<20)}},

		{"quantity below 0", quantity, arguments{"key", 15, 30, 60, -1}},
		{"quantity a word", quantity, arguments{"key", 15, 30, 60, "x"}},
		{"quantity empty", quantity, arguments{"key", 15, 30, 60, ""}},
		{"quantity 2^63", quantity, arguments{"key", 15, 30, 60, "9223372036854775808"}},

		{"emission interval below 1 ns", interval, arguments{"key", 15, 1000000001, 1}},
		{"tolerance of 2^63", drain, arguments{"key", math.MaxInt64, 30, 60}},
		{"increment of 2^63", leak, arguments{"key", 15, 1, 1, math.MaxInt64}},
		{"new TAT beyond 63 bits", leak, arguments{"key", 1, 1, "9223372036.854775807"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")
			message := servertest.RequireError(t, client, c.prefix, c.arguments...)
			require.Less(t, len(message), 512, "an error is a line, not a flood")
			require.Zero(t, client.Exists(ctx, "key").Val())
			require.Equal(t, before, servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save"))
		})
	}
}

// TestArgumentsAreJudgedBeforeTheKey, as commands of the server do, and from the left.
func TestArgumentsAreJudgedBeforeTheKey(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	require.NoError(t, client.RPush(ctx, "list", "a").Err())
	require.NoError(t, client.Set(ctx, "word", "abc", 0).Err())
	for _, key := range []string{"list", "word"} {
		servertest.RequireError(t, client, "ERR capacity must be", key, "x", "y", "z", "w")
		servertest.RequireError(t, client, "ERR count must be", key, 15, "y", "z", "w")
		servertest.RequireError(t, client, "ERR period must be", key, 15, 1, "z", "w")
		servertest.RequireError(t, client, "ERR quantity must be", key, 15, 1, 1, "w")
		servertest.RequireError(t, client, "ERR count is too large for period", key, 15, 1000000001, 1)
		servertest.RequireError(t, client, "ERR capacity and period are too large together", key, math.MaxInt64, 1, 1)
		servertest.RequireError(t, client, "ERR quantity and period are too large together", key, 15, 1, 1, math.MaxInt64)
	}
}

// TestBadArgumentsLeaveTheKeyAlone, with its encoding and the time of its
// last use; a key that has expired is not even deleted.
func TestBadArgumentsLeaveTheKeyAlone(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	require.NoError(t, client.ConfigSet(ctx, "lfu-log-factor", "0").Err()) // every use counts
	require.NoError(t, client.ConfigSet(ctx, "maxmemory-policy", "allkeys-lfu").Err())
	require.NoError(t, client.Do(ctx, "debug", "set-active-expire", 0).Err())
	wrong := func(key string) {
		t.Helper()
		servertest.RequireError(t, client, "ERR capacity", key, "x", 30, 60)
		servertest.RequireError(t, client, "ERR count", key, 15, 0, 60)
		servertest.RequireError(t, client, "ERR quantity", key, 15, 30, 60, -1)
		servertest.RequireError(t, client, "ERR quantity and period", key, 15, 1, 1, math.MaxInt64)
	}
	const tat = "4102444800000000000"
	for encoding, write := range map[string]func(key string) error{
		"int":    func(key string) error { return client.Set(ctx, key, tat, 0).Err() },
		"embstr": func(key string) error { return client.Set(ctx, key, "a word", 0).Err() },
		"raw": func(key string) error {
			require.NoError(t, client.Append(ctx, key, tat[:9]).Err())
			return client.Append(ctx, key, tat[9:]).Err()
		},
	} {
		require.NoError(t, write(encoding))
		require.Equal(t, encoding, client.ObjectEncoding(ctx, encoding).Val())
		usage := client.MemoryUsage(ctx, encoding).Val()
		uses := client.ObjectFreq(ctx, encoding).Val()
		wrong(encoding)
		require.Equal(t, encoding, client.ObjectEncoding(ctx, encoding).Val())
		require.Equal(t, usage, client.MemoryUsage(ctx, encoding).Val(), encoding)
		require.Equal(t, uses, client.ObjectFreq(ctx, encoding).Val(), encoding)
	}

	require.NoError(t, client.FlushAll(ctx).Err())
	require.NoError(t, client.Set(ctx, "key", 1, time.Millisecond).Err())
	expiry := time.Now().Add(time.Millisecond)
	servertest.Eventually(t, "the key expires", func() bool { return time.Now().After(expiry.Add(time.Millisecond)) })
	wrong("key")
	require.EqualValues(t, 1, client.DBSize(ctx).Val())
	servertest.Throttle(t, client, "key", 15, 30, 60, 0)
	require.Zero(t, client.DBSize(ctx).Val(), "a call that is fine finds it expired")
}

// TestErrorsRepeatTheWrongValue without letting its bytes into the protocol.
func TestErrorsRepeatTheWrongValue(t *testing.T) {
	client := servertest.StartClient(t)
	require.Contains(t, servertest.RequireError(t, client, "ERR capacity", "key", "lots", 30, 60), "not 'lots'")
	require.Contains(t, servertest.RequireError(t, client, "ERR capacity", "key", "a\r\nb\x00\xff", 30, 60), "not 'a??b??'")
	require.Contains(t, servertest.RequireError(t, client, "ERR capacity", "key", strings.Repeat("y", 100), 30, 60),
		"not '"+strings.Repeat("y", 40)+"' and more")
	require.Contains(t, servertest.RequireError(t, client, "ERR count", "key", 15, 1000000001, 1, 7),
		"not capacity 15, count 1000000001, period 1, quantity 7")
	require.Equal(t, "PONG", client.Ping(context.Background()).Val(), "the connection is still in step")
}

// TestKeysOfOtherTypes: they reply the error of Redis and stay as they are.
func TestKeysOfOtherTypes(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	require.NoError(t, client.RPush(ctx, "list", "a").Err())
	require.NoError(t, client.SAdd(ctx, "set", "a").Err())
	require.NoError(t, client.HSet(ctx, "hash", "a", 1).Err())
	require.NoError(t, client.Do(ctx, "zadd", "sorted", 1, "a").Err())
	require.NoError(t, client.Do(ctx, "xadd", "stream", "*", "a", 1).Err())
	for _, key := range []string{"list", "set", "hash", "sorted", "stream"} {
		before := client.Dump(ctx, key).Val()
		message := servertest.RequireError(t, client, "WRONGTYPE ", key, 15, 30, 60)
		require.Equal(t, client.Get(ctx, key).Err().Error(), message, key)
		require.Equal(t, before, client.Dump(ctx, key).Val(), key)
	}
}

// TestStringsThatHoldNoFunnel: they reply an error and stay as they are.
func TestStringsThatHoldNoFunnel(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	values := map[string]string{
		"a word":               "abc",
		"nothing":              "",
		"negative":             "-5",
		"20 digits":            "99999999999999999999",
		"2^63":                 "9223372036854775808",
		"a decimal":            "1.5",
		"a sign":               "+5",
		"spaces":               " 5 ",
		"leading zeros":        "005",
		"a zero byte":          "5\x00",
		"binary":               "\xff\xfe\x00\x01",
		"10 MB of digits":      strings.Repeat("1", 10<<20),
		"a float as INCR sees": "1e18",
	}
	for name, value := range values {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, client.Set(ctx, "key", value, 0).Err())
			servertest.RequireError(t, client, "ERR the key does not hold a funnel", "key", 15, 30, 60)
			servertest.RequireError(t, client, "ERR the key does not hold a funnel", "key", 15, 30, 60, 0)
			require.Equal(t, value, client.Get(ctx, "key").Val())
			require.EqualValues(t, -1, client.PTTL(ctx, "key").Val(), "no expiry was added")
		})
	}
}
