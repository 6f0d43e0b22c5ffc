package replication_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestEffectsAreReplicated: of a call that wrote, replicas and the append-only file receive
// SET key TAT PXAT expiry, with the primary's own TAT and expiry; of any other, nothing at
// all. So wherever the call comes from. The replica has no module.
func TestEffectsAreReplicated(t *testing.T) {
	ctx := context.Background()
	primary := startPrimary(t, "--appendonly", "yes", "--appendfsync", "always", "--repl-ping-replica-period", "3600")
	replica := startServer(t, "", replicaConfig(primary.Port)).Client(t)
	client := primary.Client(t)
	const script = `
		for _ = 1, 3 do redis.call('cl.throttle', KEYS[1], 2, 1, 10000) end
		return redis.pcall('cl.throttle', KEYS[1], 'x', 1, 1).err`
	if servertest.Since7(t) {
		library := "#!lua name=limits\nredis.register_function('pour', function(KEYS)" + script + "\nend)"
		require.NoError(t, client.FunctionLoad(ctx, library).Err())
	}
	calls := func(count int, arguments ...any) func(pipe redis.Pipeliner, key string) {
		return func(pipe redis.Pipeliner, key string) {
			for range count {
				pipe.Do(ctx, append([]any{"cl.throttle", key}, arguments...)...)
			}
		}
	}
	for _, c := range []struct {
		name       string
		send       func(pipe redis.Pipeliner, key string)
		replicated string
	}{
		{"allowed", calls(1, 1, 1, 10000), "SET"},
		{"allowed thrice", calls(3, 9, 1, "10000.000000001", 2), "SET SET SET"},
		{"allowed once, then limited", calls(3, 1, 1, 10000), "SET"},
		{"limited for ever", calls(1, 1, 1, 10000, 2), ""},
		{"peeked", calls(1, 1, 1, 10000, 0), ""},
		{"in error", calls(1, "x", 1, 1), ""},
		{"in a transaction", func(pipe redis.Pipeliner, key string) {
			pipe.Do(ctx, "multi")
			calls(3, 2, 1, 10000)(pipe, key)
			pipe.Do(ctx, "exec")
		}, "MULTI SET SET EXEC"},
		{"in a script", func(pipe redis.Pipeliner, key string) { pipe.Eval(ctx, script, []string{key}) }, "MULTI SET SET EXEC"},
		{"in a function", func(pipe redis.Pipeliner, key string) { pipe.FCall(ctx, "pour", []string{key}) }, "MULTI SET SET EXEC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "in a function" {
				servertest.NeedSince7(t, "functions")
			}
			logged := len(servertest.ReadAppendOnlyFile(t, primary))
			offset := servertest.InfoField(t, client, "replication", "master_repl_offset")
			_, _ = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				c.send(pipe, c.name)
				return nil
			})

			var words, set []string
			for _, command := range servertest.ReadAppendOnlyFile(t, primary)[logged:] {
				if word := strings.ToUpper(command[0]); word != "SELECT" { // which some put inside, some before
					words = append(words, word)
				}
				if len(command) == 5 {
					set = command
				}
			}
			if !servertest.Since7(t) && strings.Contains(c.replicated, "SET") {
				words = slices.DeleteFunc(words, func(word string) bool { return word == "MULTI" || word == "EXEC" })
				c.replicated = strings.TrimSuffix(strings.TrimPrefix(c.replicated, "MULTI "), " EXEC")
			}
			require.Equal(t, c.replicated, strings.Join(words, " "))
			if c.replicated == "" {
				require.Equal(t, offset, servertest.InfoField(t, client, "replication", "master_repl_offset"))
				require.Zero(t, client.Exists(ctx, c.name).Val())
				return
			}
			tat, expiry := client.Get(ctx, c.name).Val(), servertest.ExpiryOf(t, client, c.name)
			require.Equal(t, []string{"SET", c.name, tat, "PXAT", strconv.FormatInt(expiry, 10)}, set)
			servertest.Eventually(t, "the replica has the same TAT", func() bool { return replica.Get(ctx, c.name).Val() == tat })
			require.Equal(t, expiry, servertest.ExpiryOf(t, replica, c.name))
		})
	}
	servertest.RequireError(t, replica, "ERR unknown command", "key", 1, 1, 1)
}

// TestScriptOfMillionsOfCallsReplicates: until it is over, all that it has written waits
// to be sent, each SET with a reference to the shared word PXAT. Redis 8.6 counts 2^23
// references to a string at the most, and ends itself at one more.
func TestScriptOfMillionsOfCallsReplicates(t *testing.T) {
	if os.Getenv("FUNNEL_LONG") == "" {
		t.Skip("takes a minute and some gigabytes: set FUNNEL_LONG")
	}
	server := startServer(t, servertest.Module(t), []string{"--save", "", "--appendonly", "yes", "--appendfsync", "no",
		"--auto-aof-rewrite-percentage", "0", "--crash-memcheck-enabled", "no"}) // a server that crashes here may hang in it
	client := server.Client(t, func(options *redis.Options) { options.ReadTimeout = 5 * time.Minute })
	const calls = 8_450_000
	const script = `
		for _ = 1, tonumber(ARGV[1]) do redis.call('cl.throttle', KEYS[1], ARGV[1], '1', '800') end
		return 1`
	start := time.Now()
	require.NoError(t, client.Eval(context.Background(), script, []string{"key"}, calls).Err())
	t.Logf("%d calls in %v", calls, time.Since(start).Round(time.Millisecond))
	require.EqualValues(t, calls, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
	require.EqualValues(t, 1, servertest.Throttle(t, client, "key", calls, 1, 800)[0])
}
