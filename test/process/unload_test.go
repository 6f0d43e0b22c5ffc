// A server never loses the module while clients use it, and ends cleanly with it.

package process_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestUnloadIsRefused to all who ask, and the module goes on: as soon as a client has
// called the command, queued it or sent it, and after the server's periodic work.
func TestUnloadIsRefused(t *testing.T) {
	t.Parallel()
	const refused = servertest.ErrorReply(servertest.RefusedUnload)
	call, unload := []string{"cl.throttle", "key", "15", "1", "1000000"}, []string{"module", "unload", "funnel"}
	reply := func(calls int64) []any { return []any{int64(0), int64(15), 15 - calls, int64(-1)} }
	for _, c := range []struct {
		name    string
		later   bool       // than a call of another client, and than the first periodic work
		sent    [][]string // at once, as some servers read and look up ahead
		replies []any
	}{
		{"after a call, later", true, [][]string{unload, call}, []any{refused, reply(2)}},
		{"before a call", false, [][]string{unload, call, call}, []any{refused, reply(1), reply(2)}},
		{"in a transaction", false, [][]string{{"multi"}, call, unload, call, {"exec"}},
			[]any{"OK", "QUEUED", "QUEUED", "QUEUED", []any{reply(1), refused, reply(2)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := servertest.Start(t, servertest.Options{Config: []string{"--save", "", "--hz", "1"}})
			defer server.Kill() // a shutdown would wait for the periodic work
			client, other := server.Wire(t), server.Wire(t)
			require.Equal(t, "OK", client.MustDo(t, "module", "load", servertest.Module(t)))
			if c.later {
				require.Equal(t, reply(1), withoutReset(other.MustDo(t, call...)))
				servertest.AwaitCron(t, server.Client(t))
			}
			var sent []byte
			for _, words := range c.sent {
				sent = servertest.AppendCommand(sent, words...)
			}
			_, err := client.Write(sent)
			require.NoError(t, err)
			for _, want := range c.replies {
				got, err := client.Receive()
				require.NoError(t, err)
				require.Equal(t, want, withoutReset(got))
			}
			require.Regexp(t, `<funnel> MODULE UNLOAD is refused: .+`, server.Log())
			require.NotEmpty(t, other.MustDo(t, "client", "list"), "names the last command of each client")
		})
	}
}

// withoutReset leaves the time until the funnel is empty out of replies: it runs.
func withoutReset(reply any) any {
	row, isArray := reply.([]any)
	if isArray && len(row) == 5 {
		return row[:4]
	}
	for i := range row {
		row[i] = withoutReset(row[i])
	}
	return reply
}

// TestServersEndCleanly although the module refuses to be unloaded: Valkey 9 unloads
// every module then, and says so when one refuses.
func TestServersEndCleanly(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	require.EqualError(t, server.Client(t).Do(t.Context(), "module", "unload", "funnel").Err(), servertest.RefusedUnload)
	require.NoError(t, server.Signal(syscall.SIGTERM))
	state, err := server.Wait()
	require.NoError(t, err)
	require.Zero(t, state.ExitCode(), "%v", state)
	require.Contains(t, server.Log(), "ready to exit")
	require.Equal(t, 1, strings.Count(server.Log(), "MODULE UNLOAD is refused"))
}
