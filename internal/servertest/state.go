package servertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// ExpiryOf is the instant at which a key expires, in Unix milliseconds.
func ExpiryOf(t testing.TB, client Commander, key string) int64 {
	t.Helper()
	expiry, err := client.Do(context.Background(), ToAny(AskExpiry(t, key))...).Int64()
	require.NoError(t, err)
	return expiry
}

// AskExpiry is the command that replies when a key expires, in Unix milliseconds. Redis 6.2 has no
// PEXPIRETIME. Its PTTL replies the remaining time, which is exact if the clock shows the same time
// before and after.
func AskExpiry(t testing.TB, key string) []string {
	if Since7(t) {
		return []string{"pexpiretime", key}
	}
	const script = `
		local function now()
			local time = redis.call('time')
			return time[1] * 1000 + math.floor(time[2] / 1000)
		end
		while true do
			local before, left = now(), redis.call('pttl', KEYS[1])
			if left < 0 then return left end
			if now() == before then return before + left end
		end`
	return []string{"eval", script, "1", key}
}

// Dumps returns the value and the expiry of every key. Values have the form of DUMP.
func Dumps(t testing.TB, client *redis.Client) map[string]string {
	t.Helper()
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	require.NoError(t, err)
	dumps := map[string]string{}
	for _, key := range keys {
		dump, err := client.Dump(ctx, key).Result()
		require.NoError(t, err)
		dumps[key] = fmt.Sprintf("%x, expires at %d", dump, ExpiryOf(t, client, key))
	}
	return dumps
}
