// The entrypoint loads the module once, with the arguments of FUNNEL_ARGS, and runs other commands
// as they are. If the configuration file is missing or contradicts them, the container ends, and
// its log says why.

package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	moduleLine = "loadmodule /usr/local/lib/redis/funnel.so"
	inFolder   = "/etc/redis/redis.conf" // where configFile mounts it
)

// configFile makes a folder with a redis.conf, and returns the option that mounts it.
func configFile(t testing.TB, text string) []string {
	folder := t.TempDir()
	// The server is another user, and CONFIG REWRITE makes a new file beside this one.
	require.NoError(t, os.Chmod(folder, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "redis.conf"), []byte(text), 0o644))
	return []string{"--volume", folder + ":/etc/redis"}
}

// TestFileThatLoadsTheModuleItself: such files come from servers outside of Docker, and from CONFIG
// REWRITE. The module is loaded once, with the arguments that the file has.
func TestFileThatLoadsTheModuleItself(t *testing.T) {
	t.Parallel()
	arguments := []string{"--env", "FUNNEL_ARGS=\ncompat  redis-cell"}
	line := strings.Replace(moduleLine, "loadmodule", "LoadModule", 1) + "  compat redis-cell \n"
	mount := append(configFile(t, line), arguments...)
	for _, command := range []string{
		"redis-server " + inFolder, inFolder + " --loglevel debug", "--" + moduleLine + " compat redis-cell",
	} {
		requireReply(t, start(t, mount, strings.Fields(command)...).client(t), 16)
	}
	box := start(t, append(configFile(t, "maxmemory 123456789\n"), arguments...), inFolder)
	require.NoError(t, box.client(t).ConfigRewrite(t.Context()).Err())
	require.Contains(t, box.exec(t, "cat", inFolder), moduleLine)
	docker(t, "restart", "--time", "20", string(box))
	requireReply(t, box.client(t), 16)
}

// TestWhatEndsTheContainer: the container ends, and its log says why. To ignore an argument would
// silently change limits. If a file is missing, Docker makes a folder of its name, which servers
// read as an empty file.
func TestWhatEndsTheContainer(t *testing.T) {
	t.Parallel()
	const isFolder = "/etc/redis.conf is a folder, not a configuration file. Docker makes one where the file"
	const mountIt = `mount it, as in -v "$PWD/redis.conf:`
	at := func(source string) []string { return []string{"--volume", source + ":/etc/redis.conf"} }
	for name, c := range map[string]struct {
		options            []string
		arguments, command string
		log                string
	}{
		"the file says something else": {configFile(t, moduleLine+"\n"), "compat redis-cell", "redis-server " + inFolder,
			"/etc/redis/redis.conf loads funnel with '', and FUNNEL_ARGS is 'compat redis-cell'"},
		"the command line says something else": {nil, "compat redis-cell", "--" + moduleLine,
			"the command line loads funnel without FUNNEL_ARGS, 'compat redis-cell'"},
		"an argument, not expanded as file names": {nil, "compat /usr/*", "redis-server",
			"load argument 'compat' must be 'none' or 'redis-cell', not '/usr/*'"},
		"no file on the host":   {at(t.TempDir() + "/redis.conf"), "", "redis-server /etc/redis.conf", isFolder},
		"no file, but a volume": {at(volume(t)), "", "/etc/redis.conf --loglevel debug", isFolder},
		"no file in the container": {nil, "", "/etc/redis.conf", "no configuration file /etc/redis.conf in the container: " +
			mountIt},
		"no file at a relative path": {nil, "", "redis-server relative.conf", mountIt + `/data/relative.conf"`},
	} {
		t.Run(name, func(t *testing.T) {
			box := newContainer(t)
			run := append([]string{"run", "--name", string(box), "--env", "FUNNEL_ARGS=" + c.arguments}, c.options...)
			log, err := tryDocker(append(append(run, image(t)), strings.Fields(c.command)...)...)
			require.Error(t, err)
			require.Equal(t, "1", inspect(t, box, ".State.ExitCode"))
			require.Contains(t, log, c.log)
		})
	}
}

// TestOtherCommandsRunAsTheyAre, even commands of the server that only print.
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
