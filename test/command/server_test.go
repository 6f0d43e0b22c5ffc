package command_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestBothProtocols carry the same bytes.
func TestBothProtocols(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	servertest.ClockOf(server.Client(t)).Set(t, servertest.Epoch)
	for _, protocol := range []string{"2", "3"} {
		wire := server.Wire(t)
		wire.MustDo(t, "hello", protocol)
		for _, c := range []struct{ call, reply string }{
			{"CL.THROTTLE {u}:s 10 10 1 1", "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n"},
			{"CL.REFUND {u}:s 10 10 1 1", "*3\r\n:0\r\n$1\r\n0\r\n*1\r\n*6\r\n:0\r\n:10\r\n:10\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\n0\r\n"},
			{"CL.TAKE {u}:s 10 10 1 12", "*4\r\n:1\r\n$3\r\n0.1\r\n*1\r\n*6\r\n:1\r\n:10\r\n:0\r\n$3\r\n0.1\r\n$1\r\n1\r\n$19\r\n4102444801000000000\r\n:10\r\n"},
			{"CL.REFUND {u}:s 10 10 1 12 4102444801000000000", "*3\r\n:0\r\n$1\r\n0\r\n*1\r\n*6\r\n:0\r\n:10\r\n:10\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\n0\r\n"},
			{"CL.PEEK {u}:s 10 10 1 1 {u}:h 1000 1000 3600 1001", "*3\r\n:1\r\n$2\r\n-1\r\n*2\r\n" +
				"*6\r\n:0\r\n:10\r\n:10\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\n0\r\n" + "*6\r\n:1\r\n:1000\r\n:1000\r\n$2\r\n-1\r\n$1\r\n0\r\n$1\r\n0\r\n"},
		} {
			_, err := wire.Write(servertest.AppendCommand(nil, strings.Fields(c.call)...))
			require.NoError(t, err)
			got := make([]byte, len(c.reply))
			_, err = io.ReadFull(wire, got)
			require.NoError(t, err)
			require.Equal(t, c.reply, string(got), c.call)
		}
	}
}

// TestInReadOnlyScripts: they may call CL.PEEK, and no other command. The fuzzer of ../model calls
// all from other scripts and functions, and the scripts of docs/clients.md run in ../clients.
func TestInReadOnlyScripts(t *testing.T) {
	if !servertest.Since7(t) {
		t.Skip("there are none")
	}
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	const script = `return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))`
	const library = "#!lua name=funnels\n" +
		`local function call(keys, arguments) return redis.call(arguments[1], keys[1], unpack(arguments, 2)) end
		redis.register_function{function_name='reading', callback=call, flags={'no-writes'}}`
	require.NoError(t, client.FunctionLoad(ctx, library).Err())
	keys := []string{"user:1"}
	before := servertest.Dumps(t, client)
	for _, c := range commands {
		words := servertest.Words(strings.Replace(c.calls("user:1")[0], " user:1", "", 1))
		for how, call := range map[string]*redis.Cmd{
			"EVAL_RO":         client.EvalRO(ctx, script, keys, words...),
			"FCALL_RO":        client.FCallRO(ctx, "reading", keys, words...),
			"FCALL no-writes": client.FCall(ctx, "reading", keys, words...),
		} {
			if c.is("readonly") {
				require.Equal(t, servertest.Call(t, client, c.calls("user:2")[0]), servertest.Line(call), how)
			} else {
				require.Contains(t, servertest.Line(call), "Write commands are not allowed from read-only scripts", how)
			}
		}
	}
	require.Equal(t, before, servertest.Dumps(t, client))
}

// TestOnReplicas: CL.PEEK answers there, from scripts too, and writes nothing.
func TestOnReplicas(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	replica := servertest.StartReplica(t, server, servertest.Options{Module: servertest.DebugModule(t)}).Client(t)
	for _, client := range []*redis.Client{client, replica} {
		servertest.ClockOf(client).Set(t, servertest.Epoch)
	}
	servertest.Call(t, client, "cl.charge user:1 2 1 1000 1 full 2 1 1 3")
	servertest.AwaitReplicas(t, client, replica)
	before := servertest.Dumps(t, replica)
	const want = "1 2 [1 2 0 2 3] [0 2 1 0 1000] [0 5 5 0 0]"
	require.Equal(t, want, servertest.Call(t, replica, "cl.peek full 2 1 1 1 user:1 2 1 1000 1 new 5 1 1 5"))
	if servertest.Since7(t) {
		const script = `return redis.call('cl.peek', KEYS[1], 2, 1, 1, 1, KEYS[2], 2, 1, 1000, 1, KEYS[3], 5, 1, 1, 5)`
		require.Equal(t, want, servertest.Line(replica.EvalRO(t.Context(), script, []string{"full", "user:1", "new"})))
	}
	for _, c := range commands {
		for _, line := range c.calls("user:1") {
			require.Equal(t, c.is("write"), strings.Contains(servertest.Try(replica, line), "READONLY"), line)
		}
	}
	require.Equal(t, before, servertest.Dumps(t, replica))
}

// TestServersInTrouble, without memory, replicas or a disk to save to, refuse commands by
// their flags.
func TestServersInTrouble(t *testing.T) {
	set := func(setting, value string) func(*testing.T, *servertest.Server, *redis.Client) {
		return func(t *testing.T, _ *servertest.Server, client *redis.Client) {
			require.NoError(t, client.ConfigSet(t.Context(), setting, value).Err())
		}
	}
	for _, trouble := range []struct {
		name, refused string
		begin         func(t *testing.T, server *servertest.Server, client *redis.Client)
	}{
		{"OOM", "denyoom", set("maxmemory", "1")},
		{"NOREPLICAS", "write", set("min-replicas-to-write", "1")},
		{"MISCONF", "write", func(t *testing.T, server *servertest.Server, client *redis.Client) {
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
			servertest.Call(t, client, "cl.charge user:1 2 1 1000 1")
			before := servertest.Dumps(t, client)
			trouble.begin(t, server, client)
			for _, c := range commands {
				if reply := servertest.Try(client, c.calls("user:1")[0]); c.is(trouble.refused) {
					require.Contains(t, reply, trouble.name, c.name)
					require.Equal(t, before, servertest.Dumps(t, client), c.name)
				} else {
					require.Regexp(t, `^0 0 \[0 2 [12] 0 `, reply, c.name)
				}
			}
		})
	}
}
