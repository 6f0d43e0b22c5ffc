// Replies byte by byte, as clients of RESP2 and RESP3 read them.

package command_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestBothProtocols: clients of RESP2 and RESP3 read the same bytes.
func TestBothProtocols(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	servertest.ClockOf(server.Client(t)).Set(t, servertest.Epoch)
	const empty = "*6\r\n:0\r\n:10\r\n:10\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\n0\r\n"
	never := strings.NewReplacer(":0", ":1", "$1\r\n0\r\n$1\r\n0\r\n$", "$2\r\n-1\r\n$1\r\n0\r\n$")
	for _, protocol := range []string{"2", "3"} {
		wire := server.Wire(t)
		wire.MustDo(t, "hello", protocol)
		for _, c := range []struct{ call, reply string }{
			{"CL.THROTTLE {u}:s 10 10 1 1", "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n"},
			{"CL.TAKE {u}:s 10 10 1 12",
				"*4\r\n:1\r\n$3\r\n0.1\r\n" +
					"*1\r\n*6\r\n:1\r\n:10\r\n:0\r\n$3\r\n0.1\r\n$1\r\n1\r\n$19\r\n4102444801000000000\r\n:9\r\n"},
			{"CL.REFUND {u}:s 10 10 1 12 4102444801000000000", "*3\r\n:0\r\n$1\r\n0\r\n*1\r\n" + empty},
			{"CL.PEEK {u}:h 10 10 1 1 {u}:i 10 10 1 11",
				"*3\r\n:1\r\n$2\r\n-1\r\n*2\r\n" + empty + never.Replace(empty)},
			{"CL.RESERVE {u}:slots 2 SLOTS 0.5 me",
				"*3\r\n:0\r\n$1\r\n0\r\n*1\r\n*6\r\n:0\r\n:2\r\n:1\r\n$1\r\n0\r\n$3\r\n0.5\r\n$1\r\n0\r\n"},
			{"CL.REFUND {u}:slots 10 SLOTS 1 me",
				"*3\r\n:0\r\n$1\r\n0\r\n*1\r\n" + strings.TrimSuffix(empty, "$1\r\n0\r\n") + "$3\r\n0.5\r\n"},
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
