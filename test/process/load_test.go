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

// TestLoad by arguments and by the configuration file: what is not understood, or
// contradicts the other, is not loaded, and the log says why.
func TestLoad(t *testing.T) {
	const (
		noValue     = "load argument 'compat' needs a value: 'none' or 'redis-cell'"
		twice       = "load argument 'compat' is given twice, as 'none' and as 'redis-cell'"
		contradicts = "it contradicts the load argument of that name: remove one of the two"
	)
	for _, c := range []struct {
		arguments, setting string
		compat             string // empty: does not load
		log                string
	}{
		{"", "", "none", ""},
		{"compat none", "", "none", ""},
		{"compat redis-cell", "", "redis-cell", ""},
		{"COMPAT Redis-Cell", "", "redis-cell", ""},
		{"compat none compat none", "", "none", ""},
		{"compat redis-cell COMPAT redis-CELL", "", "redis-cell", ""},
		{"", "compat redis-cell", "redis-cell", ""},
		{"", "compat none", "none", ""},
		{"compat redis-cell", "compat redis-cell", "redis-cell", ""},
		{"compat none", "compat none", "none", ""},
		{"compat", "", "", noValue},
		{"compat none compat", "", "", noValue},
		{"compat none compat redis-cell", "", "", twice},
		{"compat redis-cell compat none", "", "", twice},
		{"compat dragonfly", "", "", "load argument 'compat' must be 'none' or 'redis-cell', not 'dragonfly'"},
		{"burst 1", "", "", "unknown load argument 'burst'"},
		{"compat none more", "", "", "unknown load argument 'more'"},
		{"compat none", "compat redis-cell", "", contradicts},
		{"compat redis-cell", "compat none", "", contradicts},
		{"gcra yes compat redis-cell", "", "redis-cell", ""},
		{"Gcra no", "gcra no", "none", ""},
		{"", "gcra yes", "none", ""},
		{"gcra yes", "gcra no", "", contradicts},
		{"gcra yes gcra", "", "", "load argument 'gcra' needs a value: 'no' or 'yes'"},
		{"gcra 1", "", "", "load argument 'gcra' must be 'no' or 'yes', not '1'"},
	} {
		t.Run(c.arguments+" and "+c.setting, func(t *testing.T) {
			options := servertest.Options{Module: servertest.Module(t), ModuleArguments: strings.Fields(c.arguments)}
			if c.setting != "" {
				servertest.NeedSince7(t, "settings of modules")
				name, value, _ := strings.Cut(c.setting, " ")
				options.Config = []string{"--save", "", "--funnel." + name, value}
			}
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
			gcra := map[bool]string{true: "yes", false: "no"}[strings.Contains(c.arguments+c.setting, "gcra yes")]
			require.Contains(t, client.Info(t.Context(), "funnel").Val(), "funnel_gcra:"+gcra+"\r\n")
			require.Equal(t, gcra == "no", strings.HasPrefix(servertest.Try(client, "gcra k 15 30 60"), "ERR unknown command"))
			limit := map[string]int64{"none": 15, "redis-cell": 16}[c.compat]
			require.Equal(t, servertest.Reply{0, limit, limit - 1, -1, 2}, servertest.Throttle(t, client, "key", 15, 30, 60))
			if servertest.Since7(t) {
				require.Equal(t, map[string]string{"funnel.compat": c.compat, "funnel.gcra": gcra}, client.ConfigGet(t.Context(), "funnel.*").Val())
				require.Error(t, client.ConfigSet(t.Context(), "funnel.compat", "none").Err(), "it is fixed at load")
			}
		})
	}
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
// a server with io threads crashes where one has looked up a command that is taken back. The
// module loads without a GCRA that the server has.
func TestLoadBesideAnotherModule(t *testing.T) {
	for command, c := range map[string]struct {
		loads bool
		log   string
	}{
		"cl.throttle": {false, "<funnel> funnel is not loaded: another module has the command cl.throttle\n"},
		"gcra":        {true, "<funnel> funnel is loaded without its command gcra: the server has one of that name\n"},
	} {
		server := servertest.Start(t, servertest.Options{Module: otherModule(t, command)})
		client := server.Wire(t)
		require.Equal(t, c.loads, client.MustDo(t, "module", "load", servertest.Module(t), "gcra", "yes") == "OK")
		require.Contains(t, server.Log(), c.log)
		require.Equal(t, c.loads, strings.Contains(server.Log(), " loaded, compat "))
		require.Equal(t, noReply, client.MustDo(t, command, "key", "15", "30", "60"))
		if c.loads {
			require.Equal(t, []any{int64(0), int64(15), int64(14), int64(-1), int64(2)}, client.MustDo(t, "cl.throttle", "key", "15", "30", "60"))
		}
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
