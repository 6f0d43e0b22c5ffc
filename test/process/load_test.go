package process_test

import (
	"context"
	"funnel/internal/servertest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLoadArguments: what is not understood is not loaded, and the log says why.
func TestLoadArguments(t *testing.T) {
	for _, c := range []struct {
		arguments []string
		log       string // empty: loads
		compat    string
	}{
		{nil, "", "none"},
		{[]string{"compat", "none"}, "", "none"},
		{[]string{"compat", "redis-cell"}, "", "redis-cell"},
		{[]string{"COMPAT", "Redis-Cell"}, "", "redis-cell"},
		{[]string{"compat", "none", "compat", "none"}, "", "none"},
		{[]string{"compat", "redis-cell", "COMPAT", "redis-CELL"}, "", "redis-cell"},
		{[]string{"compat"}, "load argument 'compat' needs a value: 'none' or 'redis-cell'", ""},
		{[]string{"compat", "none", "compat"}, "load argument 'compat' needs a value: 'none' or 'redis-cell'", ""},
		{[]string{"compat", "none", "compat", "redis-cell"}, "load argument 'compat' is given twice, as 'none' and as 'redis-cell'", ""},
		{[]string{"compat", "redis-cell", "compat", "none"}, "load argument 'compat' is given twice, as 'none' and as 'redis-cell'", ""},
		{[]string{"compat", "dragonfly"}, "load argument 'compat' must be 'none' or 'redis-cell', not 'dragonfly'", ""},
		{[]string{"burst", "1"}, "unknown load argument 'burst'", ""},
		{[]string{"compat", "none", "more"}, "unknown load argument 'more'", ""},
	} {
		t.Run(strings.Join(c.arguments, " "), func(t *testing.T) {
			server, err := servertest.TryStart(t, servertest.Options{
				Module: servertest.Module(t), ModuleArguments: c.arguments,
			})
			if c.log != "" {
				require.Error(t, err)
				require.Contains(t, server.Log(), "<funnel> "+c.log)
				return
			}
			require.NoError(t, err)
			require.Regexp(t, `<funnel> funnel 0\.1\.0 \(.+\) loaded, compat `+c.compat, server.Log())
			client := server.Client(t)
			require.Contains(t, client.Info(context.Background(), "funnel").Val(), "funnel_compat:"+c.compat)
			if !servertest.Since7(t) {
				return // it has no settings of modules
			}
			require.Equal(t, map[string]string{"funnel.compat": c.compat},
				client.ConfigGet(context.Background(), "funnel.*").Val())
			require.Error(t, client.ConfigSet(context.Background(), "funnel.compat", "none").Err(), "it is fixed at load")
		})
	}
}

// TestConfigFileSetsCompat, as servers let their modules be configured. What
// contradicts the load argument is an error: one of the two would be ignored silently.
func TestConfigFileSetsCompat(t *testing.T) {
	servertest.NeedSince7(t, "settings of modules")
	for _, c := range []struct {
		setting   string
		arguments []string
		limit     int64 // of a capacity of 15; 0 if it does not load
	}{
		{"redis-cell", nil, 16},
		{"none", nil, 15},
		{"redis-cell", []string{"compat", "redis-cell"}, 16},
		{"none", []string{"compat", "none"}, 15},
		{"redis-cell", []string{"compat", "none"}, 0},
		{"none", []string{"compat", "redis-cell"}, 0},
	} {
		t.Run(strings.Join(append(c.arguments, "and", c.setting), " "), func(t *testing.T) {
			server, err := servertest.TryStart(t, servertest.Options{
				Module: servertest.Module(t), ModuleArguments: c.arguments,
				Config: []string{"--save", "", "--funnel.compat", c.setting},
			})
			if c.limit == 0 {
				require.Error(t, err)
				require.Contains(t, server.Log(), "it contradicts the load argument 'compat': remove one of the two")
				return
			}
			require.NoError(t, err)
			client := server.Client(t)
			require.Equal(t, servertest.Reply{0, c.limit, c.limit - 1, -1, 2}, servertest.Throttle(t, client, "key", 15, 30, 60))
			require.Equal(t, c.setting, client.ConfigGet(context.Background(), "funnel.compat").Val()["funnel.compat"])
		})
	}
}

// TestLoadedTwice: the second load fails, and the first is not affected.
func TestLoadedTwice(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t), ModuleArguments: []string{"compat", "redis-cell"},
	})
	client := server.Client(t)
	ctx := context.Background()
	servertest.Throttle(t, client, "key", 15, 1, 1000)
	elsewhere := filepath.Join(t.TempDir(), "another.so")
	content, err := os.ReadFile(servertest.Module(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(elsewhere, content, 0o755))
	for tries, path := range []string{servertest.Module(t), elsewhere} {
		require.ErrorContains(t, client.Do(ctx, "module", "load", path, "compat", "none").Err(), "Error loading the extension")
		const reason = "funnel is not loaded: a module of that name is loaded already"
		require.Equal(t, tries+1, strings.Count(server.Log(), reason))
	}
	require.Equal(t, servertest.Reply{0, 16, 14, -1, 2000}, servertest.Throttle(t, client, "key", 15, 1, 1000))
	require.EqualValues(t, 2, servertest.InfoField(t, client, "funnel", "funnel_allowed"))
	require.Contains(t, client.Info(ctx, "funnel").Val(), "funnel_compat:redis-cell")
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
	require.Contains(t, server.Log(), "<funnel> funnel is not loaded: this file was not finished: funnel-finish has to see")
}

// TestInfoCountsCalls by outcome.
func TestInfoCountsCalls(t *testing.T) {
	client := servertest.StartClient(t)
	servertest.Throttle(t, client, "key", 2, 1, 1000)
	servertest.Throttle(t, client, "key", 2, 1, 1000)
	servertest.Throttle(t, client, "key", 2, 1, 1000)
	ctx := context.Background()
	require.NoError(t, client.RPush(ctx, "list", "a").Err())
	require.NoError(t, client.Set(ctx, "word", "abc", 0).Err())
	// Quantity 0 is a peek, whatever the reply.
	servertest.Throttle(t, client, "key", 2, 1, 1000, 0)
	servertest.Throttle(t, client, "another", 2, 1, 1000, 0)
	require.EqualValues(t, 1, servertest.Throttle(t, client, "key", 1, 1, 1000, 0)[0])
	servertest.RequireError(t, client, "ERR", "key", "x", 1, 1000)
	servertest.RequireError(t, client, "ERR", "word", 2, 1, 1000)
	servertest.RequireError(t, client, "WRONGTYPE", "list", 2, 1, 1000)
	for field, want := range map[string]int64{
		"funnel_allowed": 2, "funnel_limited": 1, "funnel_peeked": 3, "funnel_errors": 3,
	} {
		require.Equal(t, want, servertest.InfoField(t, client, "funnel", field), field)
	}
}
