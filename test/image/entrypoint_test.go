package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const moduleLine = "loadmodule /usr/local/lib/redis/funnel.so"

// configFile makes a folder with a redis.conf, and returns the option that mounts it.
func configFile(t testing.TB, text string) []string {
	t.Helper()
	folder := t.TempDir()
	// The server is another user, and CONFIG REWRITE makes a new file beside this one.
	require.NoError(t, os.Chmod(folder, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "redis.conf"), []byte(text), 0o644))
	return []string{"--volume", folder + ":/etc/redis"}
}

// TestFileThatLoadsTheModuleItself: such files come from servers outside of Docker.
// The module is loaded once, with the arguments that the file has.
func TestFileThatLoadsTheModuleItself(t *testing.T) {
	t.Parallel()
	mount := configFile(t, strings.Replace(moduleLine, "loadmodule", "LoadModule", 1)+"  compat redis-cell \n")
	for _, command := range []string{
		"redis-server /etc/redis/redis.conf", "/etc/redis/redis.conf --loglevel debug", "--" + moduleLine + " compat redis-cell",
	} {
		requireReply(t, start(t, append(mount, "--env", "FUNNEL_ARGS=\ncompat  redis-cell"), strings.Fields(command)...).client(t), 16)
	}
}

// TestContradictionsEndTheContainer, and its log says why: ignoring one of the two, or an
// argument, would change limits silently. Arguments are not expanded as file names.
func TestContradictionsEndTheContainer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, arguments, log string }{
		{moduleLine, "compat redis-cell", "/etc/redis/redis.conf loads funnel with '', and FUNNEL_ARGS is 'compat redis-cell'"},
		{"", "compat /usr/*", "load argument 'compat' must be 'none' or 'redis-cell', not '/usr/*'"},
	} {
		box := start(t, append(configFile(t, c.file+"\n"), "--env", "FUNNEL_ARGS="+c.arguments), "redis-server", "/etc/redis/redis.conf")
		require.Equal(t, 1, box.exitCode(t))
		require.Contains(t, docker(t, "logs", string(box)), c.log)
	}
}

// TestConfigurationFileThatIsMissing ends the container, and its log says what to do:
// Docker makes a folder of it, which servers read as an empty file.
func TestConfigurationFileThatIsMissing(t *testing.T) {
	t.Parallel()
	const isFolder = "/etc/redis.conf is a folder, not a configuration file. Docker makes one where the file to mount is missing"
	const mountIt = `mount it, as in -v "$PWD/redis.conf:`
	for name, c := range map[string]struct{ mount, command, log string }{
		"on the host":                {filepath.Join(t.TempDir(), "redis.conf"), "redis-server /etc/redis.conf", isFolder},
		"by a path that is a volume": {volume(t), "/etc/redis.conf --loglevel debug", isFolder},
		"in the container":           {"", "/etc/redis.conf", "there is no configuration file /etc/redis.conf in the container: " + mountIt},
		"by a relative path":         {"", "redis-server relative.conf", mountIt + `/data/relative.conf"`},
	} {
		t.Run(name, func(t *testing.T) {
			var options []string
			if c.mount != "" {
				options = []string{"--volume", c.mount + ":/etc/redis.conf"}
			}
			box := start(t, options, strings.Fields(c.command)...)
			require.Equal(t, 1, box.exitCode(t))
			require.Contains(t, docker(t, "logs", string(box)), c.log)
		})
	}
}

// TestRestartAfterCONFIGREWRITE: CONFIG REWRITE writes a loadmodule line into the file.
func TestRestartAfterCONFIGREWRITE(t *testing.T) {
	t.Parallel()
	options := append(configFile(t, "maxmemory 123456789\n"), "--env", "FUNNEL_ARGS=compat redis-cell")
	box := start(t, options, "/etc/redis/redis.conf")
	require.NoError(t, box.client(t).ConfigRewrite(t.Context()).Err())
	require.Contains(t, box.exec(t, "cat", "/etc/redis/redis.conf"), moduleLine)
	docker(t, "restart", "--time", "20", string(box))
	requireReply(t, box.client(t), 16)
}

// TestOtherCommandsRunAsTheyAre, also the commands of the server that only print.
func TestOtherCommandsRunAsTheyAre(t *testing.T) {
	t.Parallel()
	run := func(command ...string) string {
		return docker(t, append([]string{"run", "--rm", image(t)}, command...)...)
	}
	require.Equal(t, "two  words\n*", run("printf", "%s\n", "two  words", "*"))
	require.Contains(t, run("redis-server", "--version"), " v=")
	require.Contains(t, run("--version"), " v=")
	require.Contains(t, run("redis-server", "--test-memory", "1"), "Your memory passed this test.")
	require.Contains(t, run("redis-cli", "--version"), "-cli ")
}
