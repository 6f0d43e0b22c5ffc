package funnel_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A server frees the commands of a module that it unloads, and goes on to use them
// for clients whose last command, or queued command, was one of them (redis/redis
// issue 4826 and pull request 10259; Redis 8 crashes at the next call). So those
// clients are disconnected, and no others.
func TestUnloadingDisconnectsWhoWouldCrashTheServer(t *testing.T) {
	server := startServer(t)
	admin := server.Wire(t)
	for _, c := range []struct {
		name         string
		before       [][]string
		after        []string
		disconnected bool
	}{
		{"the last command", [][]string{{"cl.throttle", "key", "15", "30", "60"}}, []string{"cl.throttle", "key", "15", "30", "60"}, true},
		{"a queued command", [][]string{{"multi"}, {"cl.throttle", "key", "15", "30", "60"}}, []string{"exec"}, true},
		{"any queue", [][]string{{"multi"}, {"cl.throttle", "key", "15", "30", "60"}, {"ping"}}, []string{"exec"}, true},
		{"a command before the last", [][]string{{"cl.throttle", "key", "15", "30", "60"}, {"echo", "cl.throttle"}}, []string{"echo", "here"}, false},
		{"an empty transaction", [][]string{{"multi"}}, []string{"exec"}, false},
		{"a name like the command", [][]string{{"client", "setname", "cmd=cl.throttle"}}, []string{"echo", "here"}, false},
		{"nothing", nil, []string{"ping"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := server.Wire(t)
			for _, command := range c.before {
				_, err := wire.Do(command...)
				require.NoError(t, err)
			}
			_, err := admin.Do("module", "unload", "funnel")
			require.NoError(t, err)
			_, err = wire.Do(c.after...)
			require.Equal(t, c.disconnected, err != nil, "%v", err)
			for _, question := range [][]string{{"ping"}, {"client", "list"}, {"module", "load", servertest.Module(t)}} {
				_, err := admin.Do(question...)
				require.NoError(t, err, question)
			}
		})
	}
}

// The module is exchanged again and again under load: the server lives, whoever is
// disconnected comes back, and no token is granted twice.
func TestExchangingTheModuleUnderLoad(t *testing.T) {
	for name, config := range map[string][]string{
		"one thread":  {"--save", ""},
		"I/O threads": {"--save", "", "--io-threads", "4"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			server := servertest.Start(t, servertest.Options{Module: servertest.Module(t), Config: config})
			exchanges := quickOrLong(30, 1000)
			done := make(chan struct{})
			var allowed, disconnected atomic.Int64
			var group sync.WaitGroup
			for range 8 {
				client := server.Client(t)
				group.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
						}
						reply, err := client.Do(ctx, "cl.throttle", "key", 100, 1, 24*60*60).Int64Slice()
						var refusal redis.Error
						switch {
						case err == nil && reply[0] == 0:
							allowed.Add(1)
						case errors.As(err, &refusal):
							t.Errorf("a client met a server without the command: %v", err)
							return
						case err != nil:
							disconnected.Add(1)
						}
					}
				})
			}
			admin := server.Client(t)
			for range exchanges {
				_, err := admin.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
					pipe.Do(ctx, "module", "unload", "funnel")
					pipe.Do(ctx, "module", "load", servertest.Module(t))
					return nil
				})
				require.NoError(t, err)
			}
			close(done)
			group.Wait()
			// A call whose connection was closed may have been allowed before.
			require.LessOrEqual(t, allowed.Load(), int64(100))
			require.Positive(t, allowed.Load())
			left := throttle(t, admin, "key", 100, 1, 24*60*60, 0)
			require.LessOrEqual(t, allowed.Load(), 100-left[2])
			t.Logf("%d exchanges, %d calls disconnected, %d allowed", exchanges, disconnected.Load(), allowed.Load())
		})
	}
}

// oneConnection is for whoever unloads the module in between: a second connection of
// a pool, whose last command was CL.THROTTLE, would be closed.
func oneConnection(t testing.TB, server *servertest.Server) *redis.Conn {
	connection := server.Client(t).Conn()
	t.Cleanup(func() { connection.Close() })
	return connection
}
