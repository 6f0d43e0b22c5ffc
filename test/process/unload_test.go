package process_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestUnloadIsRefused, however it is asked for, and funnel goes on.
func TestUnloadIsRefused(t *testing.T) {
	unload := []any{"module", "unload", "funnel"}
	for name, ask := range map[string]func(t *testing.T, client *redis.Conn) error{
		"by a command": func(t *testing.T, client *redis.Conn) error {
			return client.Do(t.Context(), unload...).Err()
		},
		"in a transaction": func(t *testing.T, client *redis.Conn) error {
			ctx := t.Context()
			commands, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Do(ctx, "cl.throttle", "key", 15, 1, servertest.StillPeriod)
				pipe.Do(ctx, unload...)
				pipe.Do(ctx, "cl.throttle", "key", 15, 1, servertest.StillPeriod)
				return nil
			})
			require.Equal(t, []int64{0, 0}, servertest.LimitedOf(t, []redis.Cmder{commands[0], commands[2]}))
			return err
		},
		// Read ahead and looked up before the first has run, by servers that do so.
		"in a pipeline": func(t *testing.T, client *redis.Conn) error {
			ctx := t.Context()
			commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Do(ctx, unload...)
				pipe.Do(ctx, "cl.throttle", "key", 15, 1, servertest.StillPeriod)
				pipe.Do(ctx, "cl.throttle", "key", 15, 1, servertest.StillPeriod)
				return nil
			})
			require.Equal(t, []int64{0, 0}, servertest.LimitedOf(t, commands[1:]))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := servertest.StartModule(t)
			admin := server.Client(t)
			ctx := context.Background()
			client := server.Client(t).Conn()
			defer client.Close()
			servertest.Throttle(t, client, "key", 15, 1, servertest.StillPeriod)
			servertest.AwaitCron(t, admin)

			before := servertest.Throttle(t, client, "key", 15, 1, servertest.StillPeriod, 0)[2]
			require.EqualError(t, ask(t, client), servertest.RefusedUnload)
			require.Regexp(t, `<funnel> MODULE UNLOAD is refused: .+`, server.Log())
			require.Contains(t, server.Log(), "OnUnload failed", "the server's own words")

			after := servertest.Throttle(t, client, "key", 15, 1, servertest.StillPeriod, 0)[2]
			require.Contains(t, []int64{0, 2}, before-after)
			require.Contains(t, admin.Do(ctx, "module", "list").String(), "funnel")
			require.NoError(t, admin.ClientList(ctx).Err(), "names the last command of each client")
			require.Equal(t, servertest.Reply{0, 15, 14, -1, 2}, servertest.Throttle(t, admin, "another key", 15, 30, 60))
		})
	}
}

// TestUnloadIsRefusedAtOnce: a client that has called the command, or queued it, points at it
// before the server's periodic work has begun.
func TestUnloadIsRefusedAtOnce(t *testing.T) {
	for name, before := range map[string][]string{"called": nil, "queued": {"multi"}} {
		t.Run(name, func(t *testing.T) {
			server := servertest.Start(t, servertest.Options{Config: []string{"--save", "", "--hz", "1"}}) // once a second
			admin, client := server.Wire(t), server.Wire(t)
			do := func(wire *servertest.Wire, words ...string) any {
				got, err := wire.Do(words...)
				require.NoError(t, err)
				return got
			}
			do(admin, "module", "load", servertest.Module(t))
			if before != nil {
				do(client, before...)
			}
			do(client, "cl.throttle", "key", "15", "30", "60")
			require.Equal(t, servertest.ErrorReply(servertest.RefusedUnload), do(admin, "module", "unload", "funnel"))
			if before != nil {
				require.Equal(t, []any{[]any{int64(0), int64(15), int64(14), int64(-1), int64(2)}}, do(client, "exec"))
			}
			require.Equal(t, "PONG", do(client, "ping"))
		})
	}
}

// TestScriptsMayNotUnload: servers allow no script to, and it harms nothing.
func TestScriptsMayNotUnload(t *testing.T) {
	client := servertest.StartClient(t)
	ctx := context.Background()
	servertest.AwaitCron(t, client)
	const script = `
		local before = redis.call('cl.throttle', KEYS[1], 2, 1, ARGV[1])
		local refused = redis.pcall('module', 'unload', 'funnel')
		local after = redis.call('cl.throttle', KEYS[1], 2, 1, ARGV[1])
		return {before[3], after[3], refused.err}`
	got, err := client.Eval(ctx, script, []string{"key"}, servertest.StillPeriod).Slice()
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(0)}, got[:2])
	require.Regexp(t, "(?i)not allowed from", got[2])
	require.Equal(t, servertest.Reply{1, 2, 0, servertest.StillPeriod, 2 * servertest.StillPeriod}, servertest.Throttle(t, client, "key", 2, 1, servertest.StillPeriod))
}

// TestServersEndCleanly although the module refuses to be unloaded: Valkey 9 unloads
// every module then, and says so when one refuses.
func TestServersEndCleanly(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, server *servertest.Server){
		"SIGTERM": func(t *testing.T, server *servertest.Server) {
			require.NoError(t, server.Signal(syscall.SIGTERM))
		},
		"SHUTDOWN": func(t *testing.T, server *servertest.Server) {
			server.Client(t).Shutdown(context.Background()) // has no answer
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := servertest.StartModule(t)
			client := server.Client(t)
			servertest.Throttle(t, client, "key", 15, 30, 60)
			servertest.AwaitCron(t, client)
			require.EqualError(t, client.Do(context.Background(), "module", "unload", "funnel").Err(), servertest.RefusedUnload)
			lines := strings.Count(server.Log(), "MODULE UNLOAD is refused")
			require.Equal(t, 1, lines)

			end(t, server)
			state, err := server.Wait()
			require.NoError(t, err)
			require.Zero(t, state.ExitCode(), "%v", state)
			log := server.Log()
			require.Contains(t, log, "ready to exit")
			require.NotContains(t, log, "crashed")
			require.Equal(t, lines, strings.Count(log, "MODULE UNLOAD is refused"))
		})
	}
}

// TestLoadWithAnUnknownSettingFails and is taken back by the server after OnLoad, which
// the module has to allow: Redis 8 ends itself otherwise. A good load succeeds later.
func TestLoadWithAnUnknownSettingFails(t *testing.T) {
	servertest.NeedSince7(t, "MODULE LOADEX")
	server := servertest.Start(t, servertest.Options{})
	client := server.Client(t)
	ctx := context.Background()
	for range 2 {
		require.ErrorContains(t, client.Do(ctx, "module", "loadex", servertest.Module(t),
			"config", "funnel.burst", "1").Err(), "Error loading the extension")
		require.NoError(t, client.Ping(ctx).Err())
		servertest.RequireError(t, client, "ERR unknown command", "key", 15, 30, 60)
		servertest.AwaitCron(t, client)
		require.NoError(t, client.Ping(ctx).Err())
	}
	require.NoError(t, client.Do(ctx, "module", "loadex", servertest.Module(t),
		"config", "funnel.compat", "redis-cell").Err())
	require.Equal(t, servertest.Reply{0, 16, 15, -1, 2}, servertest.Throttle(t, client, "key", 15, 30, 60))
	servertest.AwaitCron(t, client)
	require.EqualError(t, client.Do(ctx, "module", "unload", "funnel").Err(), servertest.RefusedUnload)
}

// TestLoadAfterAFailedOneTakesTheNewFile: what failed does not stay in the process, so a
// better file of the same name is read. It has to come by rename: writing into a file that
// is loaded crashes the server.
func TestLoadAfterAFailedOneTakesTheNewFile(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	client := server.Client(t)
	ctx := context.Background()
	path := filepath.Join(server.Dir, "funnel.so")

	place(t, servertest.Module(t), path)
	require.ErrorContains(t, client.Do(ctx, "module", "load", path, "compat", "dragonfly").Err(), "Error loading the extension")
	require.Contains(t, server.Log(), "'dragonfly'")
	servertest.RequireError(t, client, "ERR unknown command", "key", 15, 30, 60)

	// The debug build has one command more.
	place(t, servertest.DebugModule(t), path)
	require.NoError(t, client.Do(ctx, "module", "load", path, "compat", "none").Err())
	require.Equal(t, servertest.Reply{0, 15, 14, -1, 2}, servertest.Throttle(t, client, "key", 15, 30, 60))
	servertest.ClockOf(client).Set(t, servertest.Epoch)
}

// place puts a copy of a module at a path at once, as an installation should.
func place(t testing.TB, module, path string) {
	t.Helper()
	content, err := os.ReadFile(module)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".new", content, 0o755))
	require.NoError(t, os.Rename(path+".new", path))
}

// TestTakingOverFromAnotherModule: unloading that, and loading funnel, in one
// transaction leaves no instant without the command.
//
// The clients that call meanwhile do so from a script. A client whose last command was
// one of the other module's may crash the server: that is the server's fault with any
// module, and the reason why funnel refuses to be unloaded.
func TestTakingOverFromAnotherModule(t *testing.T) {
	other := filepath.Join(t.TempDir(), "standin.so")
	compiler, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err)
	arguments := append(strings.Fields(string(compiler)), "-shared", "-fPIC", "-nostdlib", "-o", other, "testdata/standin.c")
	output, err := exec.Command(arguments[0], arguments[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", output)

	server := servertest.Start(t, servertest.Options{Module: other})
	ctx := context.Background()
	const capacity, period = 1_000_000, 1000 // nothing leaks meanwhile
	const script = `return redis.call('cl.throttle', KEYS[1], ARGV[1], '1', ARGV[2])`
	call := func(client servertest.Commander) (limit int64, err error) {
		got, err := client.Do(ctx, "eval", script, 1, "key", capacity, period).Int64Slice()
		if err != nil {
			return 0, err
		}
		return got[1], nil
	}

	var byOther, byFunnel atomic.Int64
	stop := make(chan struct{})
	failed := make(chan error, 4)
	for range cap(failed) {
		client := server.Client(t)
		go func() {
			for {
				limit, err := call(client)
				switch {
				case err != nil:
					failed <- err
					return
				case limit == 0:
					byOther.Add(1)
				default:
					byFunnel.Add(1)
				}
				select {
				case <-stop:
					failed <- nil
					return
				default:
				}
			}
		}()
	}
	// A client ends early only by an error.
	servertest.Eventually(t, "the other module is called", func() bool { return byOther.Load() > 100 || len(failed) > 0 })

	client := server.Client(t)
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Do(ctx, "module", "unload", "standin")
		pipe.Do(ctx, "module", "load", servertest.Module(t))
		return nil
	})
	require.NoError(t, err)
	after := byOther.Load()
	servertest.Eventually(t, "funnel is called", func() bool { return byFunnel.Load() > 100 || len(failed) > 0 })
	close(stop)
	for range cap(failed) {
		require.NoError(t, <-failed)
	}
	// Each client may have had one answer on its way.
	require.LessOrEqual(t, byOther.Load()-after, int64(cap(failed)))
	require.EqualValues(t, capacity-byFunnel.Load(), servertest.Throttle(t, client, "key", capacity, 1, period, 0)[2])
	servertest.AwaitCron(t, client)
	require.EqualError(t, client.Do(ctx, "module", "unload", "funnel").Err(), servertest.RefusedUnload)
	t.Logf("%d calls answered by the other module, then %d by funnel", byOther.Load(), byFunnel.Load())
}
