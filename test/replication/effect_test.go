package replication_test

import (
	"context"
	"os"
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
	ctx := t.Context()
	primary := startPrimary(t, "--appendonly", "yes", "--appendfsync", "always", "--repl-ping-replica-period", "3600")
	replica := startReplica(t, "", primary.Port)
	client := primary.Client(t)
	const script = `
		for _ = 1, 3 do redis.call('cl.throttle', KEYS[1], 2, 1, 10000) end
		return redis.pcall('cl.throttle', KEYS[1], 'x', 1, 1).err`
	if servertest.Since7(t) {
		library := "#!lua name=limits\nredis.register_function('pour', function(KEYS)" + script + "\nend)"
		require.NoError(t, client.FunctionLoad(ctx, library).Err())
	}
	hash, err := client.ScriptLoad(ctx, script).Result()
	require.NoError(t, err)
	thrice := func(command string) string { return strings.Repeat(command+"\n", 3) }
	for _, c := range []struct{ name, commands, replicated string }{
		{"allowed", "cl.throttle KEY 1 1 10000", "SET"},
		{"allowed thrice", thrice("cl.throttle KEY 9 1 10000.000000001 2"), "SET SET SET"},
		{"allowed once, then limited", thrice("cl.throttle KEY 1 1 10000"), "SET"},
		{"limited for ever", "cl.throttle KEY 1 1 10000 2", ""},
		{"peeked", "cl.throttle KEY 1 1 10000 0", ""},
		{"in error", "cl.throttle KEY x 1 1", ""},
		{"in a transaction", "multi\n" + thrice("cl.throttle KEY 2 1 10000") + "exec", "MULTI SET SET EXEC"},
		{"in a script", "evalsha " + hash + " 1 KEY", "MULTI SET SET EXEC"},
		{"in a function", "fcall pour 1 KEY", "MULTI SET SET EXEC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "in a function" {
				servertest.NeedSince7(t, "functions")
			}
			logged := len(servertest.ReadAppendOnlyFile(t, primary))
			offset := replicationOffset(t, client)
			_, _ = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for line := range strings.Lines(strings.ReplaceAll(c.commands, "KEY", t.Name())) {
					pipe.Do(ctx, servertest.ToAny(strings.Fields(line))...)
				}
				return nil
			})

			var words, last []string
			for _, command := range servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, primary)[logged:]) {
				if word := strings.ToUpper(command[0]); word != "SELECT" { // which some put inside, some before
					words = append(words, word)
				}
				if len(command) > 1 {
					last = command
				}
			}
			if !servertest.Since7(t) {
				c.replicated = strings.NewReplacer("MULTI ", "", " EXEC", "").Replace(c.replicated)
			}
			require.Equal(t, c.replicated, strings.Join(words, " "))
			if c.replicated == "" {
				require.Equal(t, offset, replicationOffset(t, client))
				require.Zero(t, client.Exists(ctx, t.Name()).Val())
				return
			}
			tat, expiry := client.Get(ctx, t.Name()).Val(), servertest.ExpiryOf(t, client, t.Name())
			require.Equal(t, []string{"SET", t.Name(), tat, "PXAT", strconv.FormatInt(expiry, 10)}, last)
			awaitReplicated(t, primary, replica)
			require.Equal(t, tat, replica.Client(t).Get(ctx, t.Name()).Val())
			require.Equal(t, expiry, servertest.ExpiryOf(t, replica.Client(t), t.Name()))
		})
	}
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
	require.NoError(t, client.Eval(context.Background(), script, []string{"key"}, calls).Err())
	require.EqualValues(t, calls, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
	require.EqualValues(t, 1, servertest.Throttle(t, client, "key", calls, 1, 800)[0])
}
