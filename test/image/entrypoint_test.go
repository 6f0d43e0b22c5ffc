package image_test

import (
	"os"
	"os/exec"
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
	mount := configFile(t, moduleLine+" compat redis-cell\n")
	for name, command := range map[string][]string{
		"named as an argument":  {"redis-server", "/etc/redis/redis.conf"},
		"alone, with an option": {"/etc/redis/redis.conf", "--loglevel", "debug"},
	} {
		t.Run(name, func(t *testing.T) {
			client := start(t, mount, command...).client(t)
			require.Equal(t, []int64{0, 16, 15, -1, 2}, throttle(t, client, transcript...))
		})
	}
	t.Run("on the command line", func(t *testing.T) {
		client := start(t, nil, strings.Fields("--"+moduleLine+" compat redis-cell")...).client(t)
		require.Equal(t, []int64{0, 16, 15, -1, 2}, throttle(t, client, transcript...))
	})
}

// TestFileThatContradictsFUNNEL_ARGS: the container ends, since ignoring one of the two
// would change limits silently.
func TestFileThatContradictsFUNNEL_ARGS(t *testing.T) {
	t.Parallel()
	options := append(configFile(t, moduleLine+"\n"), "--env", "FUNNEL_ARGS=compat redis-cell")
	box := start(t, options, "redis-server", "/etc/redis/redis.conf")
	require.Equal(t, 1, box.exitCode(t))
	require.Contains(t, box.log(t), "/etc/redis/redis.conf loads funnel with '', and FUNNEL_ARGS is 'compat redis-cell'")
}

// TestRestartAfterCONFIGREWRITE: which writes a loadmodule line into the file.
func TestRestartAfterCONFIGREWRITE(t *testing.T) {
	t.Parallel()
	options := append(configFile(t, "maxmemory 123456789\n"), "--env", "FUNNEL_ARGS=compat redis-cell")
	box := start(t, options, "redis-server", "/etc/redis/redis.conf")
	require.NoError(t, box.client(t).ConfigRewrite(t.Context()).Err())
	require.Contains(t, box.exec(t, "cat", "/etc/redis/redis.conf"), moduleLine)
	docker(t, "restart", "--time", "20", string(box))
	require.Equal(t, []int64{0, 16, 15, -1, 2}, throttle(t, box.client(t), transcript...))
}

// TestFileFromStandardInput: `docker run -i funnel - <redis.conf`.
func TestFileFromStandardInput(t *testing.T) {
	t.Parallel()
	box := container(unique())
	command := exec.Command("docker", "run", "--interactive", "--name", string(box), "--publish", "127.0.0.1::6379", image(t), "-")
	command.Stdin = strings.NewReader("maxmemory 123456789\n")
	require.NoError(t, command.Start())
	t.Cleanup(func() { command.Wait() })
	box.removeAfter(t)
	eventually(t, "the container exists", func() error {
		_, err := tryDocker("port", string(box), "6379/tcp")
		return err
	})
	client := box.client(t)
	require.Equal(t, []int64{0, 15, 14, -1, 2}, throttle(t, client, transcript...))
	requireConfig(t, client, "maxmemory", "123456789")
}

// TestInvalidArguments end the container, and its log says why. Nothing in them is a
// pattern of file names.
func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	box := start(t, []string{"--env", "FUNNEL_ARGS=compat /usr/*"})
	require.NotZero(t, box.exitCode(t))
	require.Contains(t, box.log(t), "load argument 'compat' must be 'none' or 'redis-cell', not '/usr/*'")
}

// TestOtherCommandsRunAsTheyAre: those of the server that only print, too.
func TestOtherCommandsRunAsTheyAre(t *testing.T) {
	t.Parallel()
	run := func(command ...string) string {
		return docker(t, append([]string{"run", "--rm", image(t)}, command...)...)
	}
	require.Equal(t, "two  words\n*", run("printf", "%s\n", "two  words", "*"))
	require.Contains(t, run("redis-server", "--version"), " v=")
	require.Contains(t, run("--version"), " v=")
	require.Contains(t, run("redis-cli", "--version"), "-cli ")
}
