// Replicas and files receive the writes of a call, never the call: they need no module and no
// clock.

package replication_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// TestEffectsAreReplicated: replicas and the append-only file receive SET with PXAT or DEL for
// funnels and quotas, and ZADD or ZREM for slots, never a command of the module. All writes of a
// call, a transaction, a script or a function are one transaction. A call that writes nothing sends
// nothing. TestEffects has more calls.
//
// A replica holds the same values, even if its clock is wrong or it lacks the module. So does a
// server without the module that reads the file. CL.PEEK is the only command that a replica
// executes.
func TestEffectsAreReplicated(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	primary := servertest.Start(t, servertest.WithLog(servertest.DebugModule(t), "always",
		"--hz", "100", "--repl-ping-replica-period", "3600"))
	client := primary.Client(t, func(options *redis.Options) { options.PoolSize = 1 }) // MULTI belongs to a connection
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	replicas := []*redis.Client{
		servertest.StartReplica(t, primary, servertest.Options{Module: servertest.DebugModule(t)}).Client(t),
		servertest.StartReplica(t, primary, servertest.Options{}).Client(t),
	}
	servertest.ClockOf(replicas[0]).Set(t, servertest.Epoch.Add(-time.Hour))

	const script = `
		for _ = 1, 3 do redis.call('cl.throttle', KEYS[1], 2, 1, 1) end
		redis.call('cl.charge', KEYS[2], 3, 1, 1, 4, KEYS[3], 3, 1, 1, 1)
		return redis.pcall('cl.throttle', KEYS[1], 'x', 1, 1).err`
	calls := [][2]string{
		{"cl.reserve a 3 1 1 1 s 1 SLOTS 30 h q 9 UNTIL 4102448400 2", "MULTI SET a ZADD s PEXPIREAT s SET q EXEC"},
		{"cl.reserve a 3 1 1 9", ""},
		{"multi\ncl.peek a 3 1 1 1\ncl.charge b 3 1 1 1\ncl.refund b 3 1 1 9\nexec", "MULTI SET b DEL b EXEC"},
		{"multi\ncl.reserve s 2 SLOTS 60 i\ncl.refund s 1 SLOTS 1 h\ncl.reserve s 1 SLOTS 9 h\nexec",
			"MULTI ZADD s PEXPIREAT s ZREM s EXEC"},
		{"evalsha " + client.ScriptLoad(ctx, script).Val() + " 3 c d e", "MULTI SET c SET c SET d SET e EXEC"},
	}
	if servertest.Since7(t) {
		require.NoError(t, client.FunctionLoad(ctx,
			"#!lua name=limits\nredis.register_function('take', function(KEYS)"+script+"\nend)").Err())
		calls = append(calls, [2]string{"fcall take 3 f g h", "MULTI SET f SET f SET g SET h EXEC"})
	}
	for _, c := range calls {
		logged := len(servertest.ReadAppendOnlyFile(t, primary))
		offset := replicationOffset(t, client)
		for line := range strings.Lines(c[0]) {
			servertest.Call(t, client, line)
		}
		var got []string
		for _, words := range servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, primary)[logged:]) {
			words[0] = strings.ToUpper(words[0])
			if words[0] != "SELECT" { // it may be inside or before the transaction
				require.True(t, words[0] != "SET" || words[3] == "PXAT", "%q", words)
				got = append(got, words[:min(len(words), 2)]...)
			}
		}
		want := strings.Fields(c[1])
		if !servertest.Since7(t) {
			want = slices.DeleteFunc(want, func(word string) bool { return word == "MULTI" || word == "EXEC" })
		}
		require.Equal(t, want, append([]string{}, got...), c[0])
		require.Equal(t, c[1] == "", offset == replicationOffset(t, client), c[0])
	}

	want := servertest.Dumps(t, client)
	servertest.AwaitReplicas(t, client, replicas...)
	for _, replica := range replicas {
		require.Equal(t, want, servertest.Dumps(t, replica))
	}
	servertest.ClockOf(replicas[0]).Set(t, servertest.Epoch)
	for _, command := range contract.Commands {
		reply := servertest.Try(replicas[0], command.Name+" d 3 1 1 1")
		if command.Name != "cl.peek" {
			require.Contains(t, reply, "READONLY", command.Name)
			continue
		}
		require.Equal(t, "1 2 [1 3 0 2 4]", reply)
		if servertest.Since7(t) {
			peek := replicas[0].EvalRO(ctx, `return redis.call('cl.peek', KEYS[1], 3, 1, 1, 1)`, []string{"d"})
			require.Equal(t, reply, servertest.Line(peek))
		}
	}
	require.Equal(t, want, servertest.Dumps(t, replicas[0]))
	primary.Kill()
	primary.Reconfigure(func(options *servertest.Options) { options.Module = "" })
	primary.Restart(t)
	require.Equal(t, want, servertest.Dumps(t, primary.Client(t)), "a server without the module")
}

// TestScriptOfMillionsOfCallsReplicates: the writes of a script are sent when it ends. Until then,
// each SET holds a reference to the shared word PXAT. Redis 8.6 counts at most 2^23 references to a
// string: with one more, the server ends itself.
func TestScriptOfMillionsOfCallsReplicates(t *testing.T) {
	servertest.NeedsLong(t, "takes a minute and some gigabytes")
	server := servertest.Start(t, servertest.WithLog(servertest.Module(t), "no", "--auto-aof-rewrite-percentage", "0",
		"--crash-memcheck-enabled", "no")) // a server that crashes here may hang in it
	client := server.Client(t, func(options *redis.Options) { options.ReadTimeout = 5 * time.Minute })
	const calls = 8_450_000
	const script = `
		for _ = 1, tonumber(ARGV[1]) do redis.call('cl.throttle', KEYS[1], ARGV[1], '1', '800') end
		return 1`
	require.NoError(t, client.Eval(context.Background(), script, []string{"key"}, calls).Err())
	require.EqualValues(t, calls, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
	require.Regexp(t, "^1 ", servertest.Call(t, client, fmt.Sprint("cl.throttle key ", calls, " 1 800")))
}
