// What a key holds: a TAT, with an expiry to match. A call reads it in any encoding, from any writer.

package command_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// stateOf is the TAT of each key, after the first instant. It requires that each expires at
// its TAT, rounded up to the next millisecond.
func stateOf(t *testing.T, client *redis.Client) string {
	t.Helper()
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	require.NoError(t, err)
	slices.Sort(keys)
	for i, key := range keys {
		tat, err := client.Get(ctx, key).Int64()
		require.NoError(t, err)
		require.Equal(t, tat/1e6+(tat%1e6+999_999)/1e6, servertest.ExpiryOf(t, client, key), key)
		keys[i] += "=" + time.Unix(0, tat).Sub(servertest.Epoch).String()
	}
	return strings.Join(keys, " ")
}

// withTATs writes a word such as @1s, a TAT after the first instant, as commands take it.
func withTATs(call string) string {
	words := strings.Fields(call)
	for i, word := range words {
		if after, isTAT := strings.CutPrefix(word, "@"); isTAT {
			duration, err := time.ParseDuration(after)
			if err != nil {
				panic(err)
			}
			words[i] = fmt.Sprint(servertest.Epoch.Add(duration).UnixNano())
		}
	}
	return strings.Join(words, " ")
}

// TestValuesOfOthers are read in every encoding that a server keeps them in (an integer,
// an embedded string, a raw string), and written in place or anew. redis-cell stores the
// same number as funnel, with an expiry in whole seconds. A funnel that was
// copied, renamed or restored is one, too.
func TestValuesOfOthers(t *testing.T) {
	_, client := servertest.Shared(t)
	ctx := t.Context()
	tat := fmt.Sprint(servertest.Epoch.Add(10 * time.Second).UnixNano())
	for name, write := range map[string]func(key string) error{
		"int":        func(key string) error { return client.Set(ctx, key, tat, 0).Err() },
		"raw":        func(key string) error { return client.Append(ctx, key, tat).Err() },
		"shared":     func(key string) error { return client.MSet(ctx, key, tat, "unchanged", tat).Err() },
		"redis-cell": func(key string) error { return client.Do(ctx, "set", key, tat, "ex", 10).Err() },
		"copied":     func(key string) error { return client.Copy(ctx, "funnel", key, 0, false).Err() },
		"renamed":    func(key string) error { return client.Rename(ctx, "funnel", key).Err() },
		"restored":   func(key string) error { return client.Restore(ctx, key, 0, client.Dump(ctx, "funnel").Val()).Err() },
		"short":      func(key string) error { return client.Set(ctx, key, "7", 0).Err() },
	} {
		require.NoError(t, client.FlushAll(ctx).Err())
		servertest.Call(t, client, "cl.charge funnel 15 1 1 10")
		require.NoError(t, write(name))
		client.Del(ctx, "funnel")
		level := map[bool]int{false: 10}[name == "short"]
		for call := range 3 { // the first takes nothing
			require.Equal(t, fmt.Sprintf("0 15 %d -1 %d", 15-level-call, level+call),
				servertest.Call(t, client, fmt.Sprint("cl.throttle ", name, " 15 1 1 ", min(call, 1))), "%s, call %d", name, call)
		}
		if name == "shared" {
			require.Equal(t, tat, client.GetDel(ctx, "unchanged").Val())
		}
		require.Equal(t, fmt.Sprintf("%s=%ds", name, level+2), stateOf(t, client))
	}
}
