// The server in the image is the official one with the module: not root, with the same volume, and
// healthy when it answers, has the module and has loaded its data.

package image_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestImageAnswersAsTheREADMESays: `docker run` without anything gives the command, of the version
// and commit that the labels name. Docker finds the container healthy, and the check leaves nothing
// behind.
func TestImageAnswersAsTheREADMESays(t *testing.T) {
	t.Parallel()
	// On a busy machine it takes longer than the image's 3 s to start a process in a container.
	box := start(t, []string{"--health-interval", "1s", "--health-timeout", "60s"})
	client := box.client(t)
	servertest.Await(t, pause, "the container is healthy", func() error {
		status := inspect(t, box, ".State.Health.Status")
		if status != `"healthy"` {
			return fmt.Errorf("it is %s", status)
		}
		return nil
	})
	require.NotRegexp(t, `funnel_(peeked|errors):[1-9]`, client.Info(t.Context(), "funnel").Val())
	require.Zero(t, client.DBSize(t.Context()).Val())
	requireReply(t, client, 15)
	info := client.Info(t.Context(), "funnel").Val()
	labels := inspect(t, image(t), ".Config.Labels")
	require.NotContains(t, labels, `:""`)
	require.NotContains(t, labels, `:"unknown"`)
	for label, field := range map[string]string{"version": "version", "revision": "commit"} {
		value := regexp.MustCompile(`funnel_` + field + `:(.+)\r`).FindStringSubmatch(info)[1]
		require.Contains(t, labels, `"org.opencontainers.image.`+label+`":"`+value+`"`)
	}
}

// TestImageAddsThreeFilesToItsBase: the module, the entrypoint and the check, and so no build
// tools. Except for the command, it declares what its base does.
func TestImageAddsThreeFilesToItsBase(t *testing.T) {
	t.Parallel()
	files := func(image string) []string {
		list := docker(t, "run", "--rm", "--network", "none", "--entrypoint", "find", image,
			"/", "-xdev", "(", "-type", "f", "-o", "-type", "l", ")", "-not", "-path", "/data/*")
		return strings.Fields(list)
	}
	base := fromEnvironment(t, "FUNNEL_IMAGE_BASE")
	ours, theirs := files(image(t)), files(base)
	require.Contains(t, theirs, "/usr/local/bin/docker-entrypoint.sh", "it is in any base")
	require.ElementsMatch(t, append(theirs, "/usr/local/lib/redis/funnel.so",
		"/usr/local/bin/funnel-entrypoint.sh", "/usr/local/bin/funnel-healthcheck.sh"), ours)
	for _, field := range []string{"Volumes", "ExposedPorts", "WorkingDir", "Env", "User"} {
		require.Equal(t, inspect(t, base, ".Config."+field), inspect(t, image(t), ".Config."+field), field)
	}
}

// TestServerIsNotRoot: however it is started, the server runs as the user of the official image, is
// the first process, which signals reach, and has the module.
func TestServerIsNotRoot(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"", "--loglevel debug", "redis-server", "valkey-server", "/usr/local/bin/redis-server --loglevel debug",
	} {
		t.Run(command, func(t *testing.T) {
			box := start(t, nil, strings.Fields(command)...)
			requireReply(t, box.client(t), 15)
			status := box.exec(t, "grep", "-hE", "^(Uid|Gid|Groups|CapEff):", "/proc/1/status")
			require.Regexp(t, `^Uid:(\s+999){4}\nGid:(\s+999){4}\nGroups:(\s+999)?\s*\nCapEff:\s+0+$`, status)
			require.Regexp(t, `^(redis|valkey)-server `, box.exec(t, "cat", "/proc/1/cmdline"))
		})
	}
}

// TestVolumeKeepsFunnels: the server stops cleanly, and a new container on the same volume has what
// was taken before.
func TestVolumeKeepsFunnels(t *testing.T) {
	t.Parallel()
	options := []string{"--volume", volume(t) + ":/data"}
	box := start(t, options)
	require.Equal(t, "0 15 14 -1 3600", servertest.Call(t, box.client(t), "cl.throttle user:42 15 1 3600"))
	taken := box.client(t).Get(t.Context(), "user:42").Val()
	docker(t, "stop", "--time", "20", string(box))
	require.Equal(t, "0", inspect(t, box, ".State.ExitCode"), "137 is a server that had to be killed")

	client := start(t, options).client(t)
	require.Equal(t, taken, client.Get(t.Context(), "user:42").Val())
	require.Regexp(t, "^0 15 13 ", servertest.Call(t, client, "cl.throttle user:42 15 1 3600"))
}

// TestHealthcheck: the check passes if a server has the module and answers, even if it would not
// decide now. The check fails if the module is missing, the data are being loaded, or nobody
// answers.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	withoutModule := []string{"--entrypoint", "docker-entrypoint.sh"}
	commands := configFile(t, strings.Repeat("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", 200_000))
	for name, c := range map[string]struct {
		options []string
		command string
		says    string // empty: healthy
	}{
		"a password that the check does not know": {nil, "--requirepass secret", ""},
		"a user that may only ping":               {nil, "--user default on nopass ~* -@all +ping", ""},
		"another port":                            {nil, "--port 7000", ""},
		"a replica":                               {nil, "--replicaof 127.0.0.1 1 --replica-serve-stale-data no", ""},
		"a primary without its replica":           {nil, "--min-replicas-to-write 1", ""},
		"a new node of a cluster":                 {nil, "--cluster-enabled yes", ""},
		"no memory":                               {nil, "--maxmemory 1", ""},
		// The file of commands takes minutes, at a millisecond each.
		"data that are being loaded": {commands,
			"--appendonly yes --dir /etc/redis --appendfilename redis.conf --key-load-delay 1000", "loading its data"},
		"no module":                {withoutModule, "redis-server", "the module is not loaded"},
		"no module and a password": {withoutModule, "redis-server --requirepass secret", "unknown command"},
		"no server":                {[]string{"--entrypoint", "sleep"}, "600", "Could not connect"},
	} {
		t.Run(name, func(t *testing.T) {
			box := start(t, c.options, strings.Fields(c.command)...)
			servertest.Await(t, pause, "the check says "+c.says, func() error {
				output, err := tryDocker("exec", string(box), "funnel-healthcheck.sh")
				if (err == nil) != (c.says == "") || !strings.Contains(output, c.says) {
					return fmt.Errorf("%v: %s", err, output)
				}
				return nil
			})
		})
	}
}
