package command_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestFunnelsInScripts: what reads is free to call CL.PEEK, and nothing else.
func TestFunnelsInScripts(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	const script = `return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))`
	arguments := func(command string) []any { return append([]any{command}, callOf(command)[2:]...) }
	keys := []string{"user:1"}
	for _, c := range []struct{ command, reply string }{
		{"cl.reserve", "0 0 [0 2 1 0 1000]"}, {"cl.charge", "0 0 [0 2 0 0 2000]"}, {"cl.peek", "1 1000 [1 2 0 1000 2000]"},
		{"cl.refund", "0 0 [0 2 1 0 1000]"},
	} {
		require.Equal(t, c.reply, servertest.ToFunnelsReply(t, client.Eval(ctx, script, keys, arguments(c.command)...)), c.command)
	}

	if !servertest.Since7(t) {
		return // it has neither EVAL_RO nor functions
	}
	const library = "#!lua name=funnels\n" +
		`local function call(keys, arguments) return redis.call(arguments[1], keys[1], unpack(arguments, 2)) end
		redis.register_function{function_name='any', callback=call}
		redis.register_function{function_name='reading', callback=call, flags={'no-writes'}}`
	require.NoError(t, client.FunctionLoad(ctx, library).Err())
	before := servertest.Dumps(t, client)
	for _, command := range funnelsCommands {
		calls := map[string]*redis.Cmd{
			"EVAL_RO":         client.EvalRO(ctx, script, keys, arguments(command)...),
			"FCALL_RO":        client.FCallRO(ctx, "reading", keys, arguments(command)...),
			"FCALL no-writes": client.FCall(ctx, "reading", keys, arguments(command)...),
		}
		for how, call := range calls {
			if command == "cl.peek" {
				require.Equal(t, "0 0 [0 2 1 0 1000]", servertest.ToFunnelsReply(t, call), how)
			} else {
				require.ErrorContains(t, call.Err(), "Write commands are not allowed from read-only scripts", how)
			}
		}
	}
	require.Equal(t, before, servertest.Dumps(t, client))
	require.Equal(t, "0 0 [0 2 0 0 2000]", servertest.ToFunnelsReply(t, client.FCall(ctx, "any", keys, arguments("cl.reserve")...)))
}

// TestFunnelsOnReplicas: CL.PEEK answers there, from scripts too, and writes nothing.
func TestFunnelsOnReplicas(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	replica := servertest.StartReplica(t, server, servertest.Options{Module: servertest.DebugModule(t)}).Client(t)
	ctx := context.Background()
	for _, client := range []*redis.Client{client, replica} {
		servertest.ClockOf(client).Set(t, servertest.Epoch)
	}
	servertest.Funnels(t, client, "cl.charge user:1 2 1 1000 1 full 2 1 1 3")
	servertest.AwaitReplicas(t, client, replica)
	before := servertest.Dumps(t, replica)
	const want = "1 2 [1 2 0 2 3] [0 2 1 0 1000] [0 5 5 0 0]"
	const words = "full 2 1 1 1 user:1 2 1 1000 1 new 5 1 1 5"
	require.Equal(t, want, servertest.Funnels(t, replica, "cl.peek "+words))
	if servertest.Since7(t) {
		const script = `return redis.call('cl.peek', KEYS[1], 2, 1, 1, 1, KEYS[2], 2, 1, 1000, 1, KEYS[3], 5, 1, 1, 5)`
		require.Equal(t, want, servertest.ToFunnelsReply(t, replica.EvalRO(ctx, script, []string{"full", "user:1", "new"})))
	}
	for _, command := range []string{"cl.reserve", "cl.charge", "cl.refund"} {
		require.ErrorContains(t, replica.Do(ctx, callOf(command)...).Err(), "READONLY", command)
		require.ErrorContains(t, replica.Do(ctx, servertest.Words(command+" user:1 2 1 1 0")...).Err(), "READONLY", command)
	}
	require.Equal(t, before, servertest.Dumps(t, replica))
}

// TestFunnelsOfServersInTrouble: without memory, replicas or a disk to save to.
func TestFunnelsOfServersInTrouble(t *testing.T) {
	for _, trouble := range []struct {
		name    string
		refused []string
		begin   func(t *testing.T, server *servertest.Server, client *redis.Client)
	}{
		{"OOM", []string{"cl.reserve", "cl.charge"}, func(t *testing.T, _ *servertest.Server, client *redis.Client) {
			require.NoError(t, client.ConfigSet(context.Background(), "maxmemory", "1").Err())
		}},
		{"NOREPLICAS", []string{"cl.reserve", "cl.charge", "cl.refund"}, func(t *testing.T, _ *servertest.Server, client *redis.Client) {
			require.NoError(t, client.ConfigSet(context.Background(), "min-replicas-to-write", "1").Err())
		}},
		{"MISCONF", []string{"cl.reserve", "cl.charge", "cl.refund"}, func(t *testing.T, server *servertest.Server, client *redis.Client) {
			ctx := context.Background()
			require.NoError(t, os.Mkdir(filepath.Join(server.Dir, "dump.rdb"), 0o755))
			require.NoError(t, client.ConfigSet(ctx, "save", "3600 1000000").Err())
			// Else the server would not stop before it has saved.
			t.Cleanup(func() { client.ConfigSet(ctx, "save", "") })
			require.NoError(t, client.BgSave(ctx).Err())
			servertest.Eventually(t, "saving fails", func() bool {
				return strings.Contains(client.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
			})
		}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			server := servertest.StartModule(t)
			client := server.Client(t)
			ctx := context.Background()
			servertest.Funnels(t, client, "cl.charge user:1 2 1 1000 1 user:2 2 1 1000 2")
			before := servertest.Dumps(t, client)
			trouble.begin(t, server, client)
			for _, command := range trouble.refused {
				require.ErrorContains(t, client.Do(ctx, callOf(command)...).Err(), trouble.name, command)
			}
			require.Equal(t, before, servertest.Dumps(t, client))
			require.Regexp(t, `^0 0 \[0 2 1 0 `, servertest.Funnels(t, client, "cl.peek user:1 2 1 1000 1"))
			if !slices.Contains(trouble.refused, "cl.refund") {
				require.Regexp(t, `^0 0 \[0 2 2 0 0\] \[0 2 1 0 `, servertest.Funnels(t, client, "cl.refund user:1 2 1 1000 1 user:2 2 1 1000 1"))
				require.EqualValues(t, 1, client.DBSize(ctx).Val())
			}
		})
	}
}

// TestFunnelsInTransactions: MULTI queues the calls like any other.
func TestFunnelsInTransactions(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	lines := []string{"cl.reserve a 2 1 1 1 b 2 1 1 2", "cl.reserve a 2 1 1 1 b 2 1 1 1", "cl.peek a 2 1 1 1",
		"cl.charge a 2 1 1 2", "cl.refund a 2 1 1 3", "cl.charge a 2 1 1 x"}
	commands, err := client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
		for _, line := range lines {
			pipeline.Do(ctx, servertest.Words(line)...)
		}
		return nil
	})
	require.ErrorContains(t, err, "ERR quantity must")
	for i, want := range []string{"0 0 [0 2 1 0 1] [0 2 0 0 2]", "1 1 [0 2 1 0 1] [1 2 0 1 2]", "0 0 [0 2 1 0 1]",
		"1 1 [1 2 0 1 3]", "0 0 [0 2 2 0 0]"} {
		require.Equal(t, want, servertest.ToFunnelsReply(t, commands[i].(*redis.Cmd)), lines[i])
	}
	require.Equal(t, "b=2s", stateOf(t, client))
}
