package command_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestBothProtocols carry the same bytes.
func TestBothProtocols(t *testing.T) {
	server, _ := servertest.Shared(t)
	const empty = "*6\r\n:0\r\n:10\r\n:10\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\n0\r\n"
	for _, protocol := range []string{"2", "3"} {
		wire := server.Wire(t)
		wire.MustDo(t, "hello", protocol)
		for _, c := range []struct{ call, reply string }{
			{"CL.THROTTLE {u}:s 10 10 1 1", "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n"},
			{"CL.REFUND {u}:s 10 10 1 1", "*3\r\n:0\r\n$1\r\n0\r\n*1\r\n" + empty},
			{"CL.TAKE {u}:s 10 10 1 12", "*4\r\n:1\r\n$3\r\n0.1\r\n*1\r\n*6\r\n:1\r\n:10\r\n:0\r\n$3\r\n0.1\r\n$1\r\n1\r\n$19\r\n4102444801000000000\r\n:10\r\n"},
			{"CL.REFUND {u}:s 10 10 1 12 4102444801000000000", "*3\r\n:0\r\n$1\r\n0\r\n*1\r\n" + empty},
			{"CL.PEEK {u}:s 10 10 1 1 {u}:h 10 10 1 11", "*3\r\n:1\r\n$2\r\n-1\r\n*2\r\n" + empty + strings.NewReplacer(":0", ":1", "$1\r\n0\r\n$1\r\n0\r\n$", "$2\r\n-1\r\n$1\r\n0\r\n$").Replace(empty)},
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

// TestOnReplicas: CL.PEEK answers there, from read-only scripts too, and writes nothing.
func TestOnReplicas(t *testing.T) {
	t.Parallel()
	options := servertest.Options{Module: servertest.DebugModule(t), Config: []string{"--save", "", "--hz", "100"}}
	server := servertest.Start(t, options)
	client, replica := server.Client(t), servertest.StartReplica(t, server, options).Client(t)
	servertest.ClockOf(client).Set(t, servertest.Epoch)
	servertest.ClockOf(replica).Set(t, servertest.Epoch)
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
