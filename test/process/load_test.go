// Which files a server loads as the module, with which arguments, and beside which other modules. A
// server never unloads the module while clients use it, and ends cleanly with it.

package process_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

const refusedUnload = "ERR Error unloading module: operation not possible."

// TestLoad: a load with unknown or contradictory arguments fails, and the log says why. A file that
// failed to load does not stay in the process: another file at the same path is read. That file has
// to be put there by rename, because writing into a file that is loaded crashes the server. A
// second load changes nothing.
func TestLoad(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{})
	client := server.Client(t)
	path := filepath.Join(server.Dir, "funnel.so")
	place(t, servertest.Module(t), path)
	load := func(arguments string) error {
		return client.Do(t.Context(), servertest.Words("module load "+path+" "+arguments)...).Err()
	}
	for _, c := range []struct{ arguments, log string }{
		{"compat", "load argument 'compat' must be 'none' or 'redis-cell', not ''"},
		{"compat none compat redis-cell", "load argument 'compat' is given twice, as 'none' and as 'redis-cell'"},
		{"compat none\x00more", "load argument 'compat' must be 'none' or 'redis-cell', not 'none"},
		{"burst 1", "unknown load argument 'burst': funnel knows 'compat none' and 'compat redis-cell'"},
		{"compat\x00more none", "unknown load argument 'compat"},
	} {
		before := len(server.Log())
		require.ErrorContains(t, load(c.arguments), "Error loading the extension", "%q", c.arguments)
		require.Contains(t, server.Log()[before:], c.log)
	}
	require.Regexp(t, "^ERR unknown command", servertest.Try(client, "cl.throttle key 15 30 60"))

	place(t, servertest.DebugModule(t), path) // it has one more command
	require.NoError(t, load("COMPAT Redis-Cell compat redis-CELL"))
	require.Contains(t, server.Log(), " loaded, compat redis-cell\n")
	require.Contains(t, client.Info(t.Context(), "funnel").Val(), "funnel_compat:redis-cell\r\n")
	require.Equal(t, "0 16 15 -1 2", servertest.Call(t, client, "cl.throttle key 15 30 60"))
	require.Regexp(t, "^INVALID capacity must be an integer from 0 to", servertest.Try(client, "cl.throttle key x 30 60"))
	require.Contains(t, servertest.Try(client, "cl.peek key 0 30 60 1"), "capacity must be an integer from 1 to")
	servertest.ClockOf(client).Set(t, servertest.Epoch)

	// A second load, from the same path or another one, fails, and the module goes on as it was.
	for tries, again := range []string{path, servertest.Module(t)} {
		require.ErrorContains(t, client.Do(t.Context(), "module", "load", again, "compat", "none").Err(),
			"Error loading the extension")
		require.Equal(t, tries+1, strings.Count(server.Log(),
			"funnel is not loaded: a module of that name is already loaded"))
	}
	require.Regexp(t, "^0 16 ", servertest.Call(t, client, "cl.throttle key 15 30 60"))
	require.EqualValues(t, 2, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
}

// place puts a copy of a module at a path atomically, as an installation should.
func place(t testing.TB, module, path string) {
	content, err := os.ReadFile(module)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".new", content, 0o755))
	require.NoError(t, os.Rename(path+".new", path))
}

// TestServerThatIsTooOld: Redis before 6.2.8 lacks a function that the module needs. Here, every
// server lacks one, because the module misspells its name.
func TestServerThatIsTooOld(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(servertest.Module(t))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "funnel.so")
	content = bytes.Replace(content, []byte("RedisModule_SetAbsExpire\x00"), []byte("RedisModule_SetAbsExpirx\x00"), 1)
	require.NoError(t, os.WriteFile(path, content, 0o755))
	server := servertest.Start(t, servertest.Options{})
	require.ErrorContains(t, server.Client(t).Do(t.Context(), "module", "load", path).Err(), "Error loading the extension")
	require.Contains(t, server.Log(), "<funnel> funnel is not loaded: this server lacks RedisModule_SetAbsExpir")
}

// otherModule builds another module that has a command of that name.
func otherModule(t *testing.T, command string) (path string) {
	return servertest.CompileModule(t, "testdata/standin.c", "-nostdlib", "-DCOMMAND=\""+command+"\"")
}

// noReply is what the other module replies.
var noReply = []any{int64(0), int64(0), int64(0), int64(0), int64(0)}

// TestLoadBesideAnotherModule: if another module has one of the commands, the load fails before any
// command is registered. Otherwise the server would take commands back, and a server with io
// threads crashes if a thread has looked one of them up.
func TestLoadBesideAnotherModule(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{Module: otherModule(t, "cl.refund")})
	client := server.Wire(t)
	require.NotEqual(t, "OK", client.MustDo(t, "module", "load", servertest.Module(t)))
	require.Contains(t, server.Log(), "<funnel> funnel is not loaded: another module has the command cl.refund\n")
	require.Equal(t, noReply, client.MustDo(t, "cl.refund", "key", "15", "30", "60"))
}

// TestRenamedCommands: the module does not load if a command that it replicates has been renamed.
// Servers would drop it.
func TestRenamedCommands(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("../../module/*.c")
	require.NoError(t, err)
	replicated := map[string]bool{}
	for _, path := range sources {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, call := range regexp.MustCompile(`redis\.Replicate\(ctx, "(\w+)"`).FindAllSubmatch(source, -1) {
			replicated[strings.ToLower(string(call[1]))] = true
		}
	}
	require.Len(t, replicated, 7)
	for name := range replicated {
		server := servertest.Start(t, servertest.Options{Config: []string{"--rename-command", name, "hidden"}})
		require.Error(t, server.Client(t).Do(t.Context(), "module", "load", servertest.Module(t)).Err(), name)
		require.Contains(t, server.Log(), "remove the line rename-command "+name+"\n")
	}
}

// TestTakingOverFromAnotherModule: the lines of the page unload the other module and load funnel in
// one transaction, so the command exists at every instant. The client calls it from a script. A
// client that sends it directly may crash the server after any module is unloaded: so funnel
// refuses that.
func TestTakingOverFromAnotherModule(t *testing.T) {
	t.Parallel()
	config := []string{"--save", "", "--hz", "1"} // no periodic work between the call and MODULE UNLOAD
	server := servertest.Start(t, servertest.Options{Module: otherModule(t, "cl.throttle"), Config: config})
	call := []string{"eval", "return redis.call('cl.throttle', KEYS[1], '15', '30', '60')", "1", "key"}
	client, admin := server.Wire(t), server.Wire(t)
	require.Equal(t, noReply, client.MustDo(t, call...))
	var replies []any
	here := strings.NewReplacer("redis-cell\n", "standin\n", "/usr/lib/redis/modules/funnel.so", servertest.Module(t))
	for line := range strings.Lines(here.Replace(page.Marked(t, "../../docs/moving-from-redis-cell.md", "take over"))) {
		words := strings.Fields(strings.Replace(line, "compat standin", "compat redis-cell", 1))
		replies = append(replies, admin.MustDo(t, words...))
	}
	require.Equal(t, []any{"OK", "QUEUED", "QUEUED", []any{"OK", "OK"}, "Background append only file rewriting started"},
		replies)
	require.Equal(t, []any{int64(0), int64(16), int64(15), int64(-1), int64(2)}, client.MustDo(t, call...))
	require.Equal(t, servertest.ErrorReply(refusedUnload), admin.MustDo(t, "module", "unload", "funnel"))
}

// TestUnloadIsRefusedAndServersEndCleanly: MODULE UNLOAD is refused even after the server's
// periodic work. Valkey 9 unloads every module while it shuts down, and would log a refusal.
func TestUnloadIsRefusedAndServersEndCleanly(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	client := server.Client(t)
	servertest.AwaitCron(t, client)
	require.EqualError(t, client.Do(t.Context(), "module", "unload", "funnel").Err(), refusedUnload)
	require.NoError(t, server.Signal(syscall.SIGTERM))
	state, err := server.Wait()
	require.NoError(t, err)
	require.Zero(t, state.ExitCode(), "%v", state)
	require.Contains(t, server.Log(), "ready to exit")
	require.Equal(t, 1, strings.Count(server.Log(), "MODULE UNLOAD is refused"))
}
