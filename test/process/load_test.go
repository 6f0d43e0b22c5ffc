package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
)

// TestLoad by its argument: what is not understood, or contradicts itself, is not loaded,
// and the log says why.
func TestLoad(t *testing.T) {
	const twice = "load argument 'compat' is given twice, as 'none' and as 'redis-cell'"
	for arguments, c := range map[string]struct {
		compat string // empty: does not load
		log    string
	}{
		"":                                    {"none", ""},
		"compat none":                         {"none", ""},
		"COMPAT Redis-Cell":                   {"redis-cell", ""},
		"compat redis-cell COMPAT redis-CELL": {"redis-cell", ""},
		"compat":                              {"", "load argument 'compat' must be 'none' or 'redis-cell', not ''"},
		"compat none compat":                  {"", "load argument 'compat' must be 'none' or 'redis-cell', not ''"},
		"compat none compat redis-cell":       {"", twice},
		"compat redis-cell compat none":       {"", twice},
		"compat dragonfly":                    {"", "load argument 'compat' must be 'none' or 'redis-cell', not 'dragonfly'"},
		"burst 1":                             {"", "unknown load argument 'burst': funnel knows 'compat none' and 'compat redis-cell'"},
		"compat none more":                    {"", "unknown load argument 'more'"},
	} {
		t.Run(arguments, func(t *testing.T) {
			options := servertest.Options{Module: servertest.Module(t), ModuleArguments: strings.Fields(arguments)}
			server, err := servertest.TryStart(t, options)
			if c.compat == "" {
				require.Error(t, err)
				require.Contains(t, server.Log(), c.log)
				return
			}
			require.NoError(t, err)
			require.Regexp(t, `<funnel> funnel \d+\.\d+\.\d+(-dev)? \(.+\) loaded, compat `+c.compat+"\n", server.Log())
			client := server.Client(t)
			require.Contains(t, client.Info(t.Context(), "funnel").Val(), "funnel_compat:"+c.compat+"\r\n")
			limit := map[string]int64{"none": 15, "redis-cell": 16}[c.compat]
			require.Equal(t, servertest.Reply{0, limit, limit - 1, -1, 2}, servertest.Throttle(t, client, "key", 15, 30, 60))
		})
	}
}

// TestThereIsNoSetting: compat is an argument of the load, and a server whose configuration
// sets it otherwise does not start.
func TestThereIsNoSetting(t *testing.T) {
	servertest.NeedSince7(t, "settings of modules")
	_, err := servertest.TryStart(t, servertest.Options{
		Module: servertest.Module(t), Config: []string{"--save", "", "--funnel.compat", "redis-cell"},
	})
	require.Error(t, err)
	require.Empty(t, servertest.StartClient(t).ConfigGet(t.Context(), "funnel.*").Val())
}

// TestLoadedTwice: the second load fails, and the first is not affected.
func TestLoadedTwice(t *testing.T) {
	server := servertest.StartModule(t, "compat", "redis-cell")
	client := server.Client(t)
	servertest.Throttle(t, client, "key", 15, 1, servertest.StillPeriod)
	elsewhere := filepath.Join(server.Dir, "another.so")
	place(t, servertest.Module(t), elsewhere)
	for tries, path := range []string{servertest.Module(t), elsewhere} {
		require.ErrorContains(t, client.Do(t.Context(), "module", "load", path, "compat", "none").Err(), "Error loading the extension")
		const reason = "funnel is not loaded: a module of that name is already loaded"
		require.Equal(t, tries+1, strings.Count(server.Log(), reason))
	}
	reply := servertest.Throttle(t, client, "key", 15, 1, servertest.StillPeriod)
	require.Equal(t, []int64{0, 16, 14, -1}, reply[:4])
	require.EqualValues(t, 2, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
}

// TestLoadAfterAFailedOneTakesTheNewFile: what failed does not stay in the process, so a
// better file of the same name is read. It has to come by rename: writing into a file that
// is loaded crashes the server.
func TestLoadAfterAFailedOneTakesTheNewFile(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	client := server.Client(t)
	path := filepath.Join(server.Dir, "funnel.so")
	place(t, servertest.Module(t), path)
	for _, arguments := range [][]any{{"compat", "dragonfly"}, {"compat", "none\x00more"}, {"compat\x00more", "none"}} {
		load := append([]any{"module", "load", path}, arguments...)
		require.ErrorContains(t, client.Do(t.Context(), load...).Err(), "Error loading the extension", "%q", arguments)
	}
	servertest.RequireError(t, client, "ERR unknown command", "key", 15, 30, 60)

	// The debug build has one command more.
	place(t, servertest.DebugModule(t), path)
	require.NoError(t, client.Do(t.Context(), "module", "load", path, "compat", "none").Err())
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

// TestFileThatWasNotFinishedDoesNotLoad: what the Go linker wrote would start the Go
// runtime in the server, and has no way into Go.
func TestFileThatWasNotFinishedDoesNotLoad(t *testing.T) {
	if os.Getenv("GOARCH") != "" {
		t.Skip("built for this machine only")
	}
	unfinished := filepath.Join(t.TempDir(), "funnel.so")
	output, err := exec.Command("go", "build", "-buildmode=c-shared", "-o", unfinished, "funnel/cmd/funnel").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, os.Chmod(unfinished, 0o755))
	server, err := servertest.TryStart(t, servertest.Options{Module: unfinished})
	require.Error(t, err)
	if strings.Contains(server.Log(), "initial-exec TLS") {
		t.Skip("musl does not even map it")
	}
	require.Contains(t, server.Log(), "<funnel> funnel is not loaded: this file comes straight from the Go linker: build funnel.so with")
}

// otherModule builds one that has a command of that name, too.
func otherModule(t *testing.T, command string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "standin.so")
	compiler, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err)
	line := append(strings.Fields(string(compiler)), "-shared", "-fPIC", "-nostdlib", "-DCOMMAND=\""+command+"\"", "-o", path, "testdata/standin.c")
	output, err := exec.Command(line[0], line[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return path
}

// noReply is that of the other module.
var noReply = []any{int64(0), int64(0), int64(0), int64(0), int64(0)}

// TestLoadBesideAnotherModule that has one of the commands fails before any is registered:
// a server with io threads crashes where one has looked up a command that is taken back.
func TestLoadBesideAnotherModule(t *testing.T) {
	for _, command := range []string{"cl.throttle", "cl.refund"} {
		server := servertest.Start(t, servertest.Options{Module: otherModule(t, command)})
		client := server.Wire(t)
		require.NotEqual(t, "OK", client.MustDo(t, "module", "load", servertest.Module(t)))
		require.Contains(t, server.Log(), "<funnel> funnel is not loaded: another module has the command "+command+"\n")
		require.NotContains(t, server.Log(), " loaded, compat ")
		require.Equal(t, noReply, client.MustDo(t, command, "key", "15", "30", "60"))
	}
}

// TestTakingOverFromAnotherModule: by the lines of the page, unloading that, and loading funnel, in one
// transaction leaves no instant without the command. The client calls from a script: one
// whose last command was the other module's may crash the server, with any module, which
// is why funnel refuses to be unloaded.
func TestTakingOverFromAnotherModule(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: otherModule(t, "cl.throttle")})
	call := []string{"eval", "return redis.call('cl.throttle', KEYS[1], '15', '30', '60')", "1", "key"}
	client, admin := server.Wire(t), server.Wire(t)
	require.Equal(t, noReply, client.MustDo(t, call...))
	var replies []any
	for line := range strings.Lines(strings.NewReplacer("redis-cell\n", "standin\n", "/usr/lib/redis/modules/funnel.so", servertest.Module(t)).Replace(page.Marked(t, "../../docs/moving-from-redis-cell.md", "take over"))) {
		words := strings.Fields(strings.Replace(line, "compat standin", "compat redis-cell", 1))
		replies = append(replies, admin.MustDo(t, words...))
	}
	require.Equal(t, []any{"OK", "QUEUED", "QUEUED", []any{"OK", "OK"}, "Background append only file rewriting started"}, replies)
	require.Equal(t, []any{int64(0), int64(16), int64(15), int64(-1), int64(2)}, client.MustDo(t, call...))
	require.Equal(t, servertest.ErrorReply(servertest.RefusedUnload), admin.MustDo(t, "module", "unload", "funnel"))
}
