package image_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestImageAnswersAsTheREADMESays: `docker run` without anything gives the command,
// of the version and commit that the labels name.
func TestImageAnswersAsTheREADMESays(t *testing.T) {
	t.Parallel()
	client := start(t, nil).client(t)
	require.Equal(t, []int64{0, 15, 14, -1, 2}, throttle(t, client, transcript...))

	labels := inspect[map[string]string](t, image(t), ".Config.Labels")
	info := client.Info(t.Context(), "funnel").Val()
	for _, name := range []string{"version", "revision"} {
		require.NotContains(t, []string{"", "unknown"}, labels["org.opencontainers.image."+name], name)
	}
	require.Contains(t, info, "funnel_version:"+labels["org.opencontainers.image.version"]+"\r\n")
	require.Contains(t, info, "funnel_commit:"+labels["org.opencontainers.image.revision"]+"\r\n")
}

// TestImageAddsThreeFilesToItsBase: the module, the entrypoint and the check, hence
// no build tools; and it declares what its base does, but for the command.
func TestImageAddsThreeFilesToItsBase(t *testing.T) {
	t.Parallel()
	files := func(image string) map[string]bool {
		list := docker(t, "run", "--rm", "--network", "none", "--entrypoint", "find", image,
			"/", "-xdev", "(", "-type", "f", "-o", "-type", "l", ")", "-not", "-path", "/data/*")
		files := map[string]bool{}
		for line := range strings.Lines(list) {
			files[strings.TrimSpace(line)] = true
		}
		require.True(t, files["/usr/local/bin/docker-entrypoint.sh"], "it is in any base")
		return files
	}
	ours, theirs := files(image(t)), files(baseImage(t))
	var added []string
	for file := range ours {
		if !theirs[file] {
			added = append(added, file)
		}
	}
	require.ElementsMatch(t, []string{
		"/usr/local/lib/redis/funnel.so",
		"/usr/local/bin/funnel-entrypoint.sh",
		"/usr/local/bin/funnel-healthcheck.sh",
	}, added)

	for _, field := range []string{".Config.Volumes", ".Config.ExposedPorts", ".Config.WorkingDir", ".Config.Env", ".Config.User"} {
		require.Equal(t, inspect[any](t, baseImage(t), field), inspect[any](t, image(t), field), field)
	}
}

// TestServerIsNotRoot: however it is started, the server runs as the user of the
// official image, is the first process, so that signals reach it, and has the module.
func TestServerIsNotRoot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ options, command []string }{
		"without a command":  {},
		"options":            {command: []string{"--loglevel", "debug"}},
		"by name":            {command: []string{"redis-server"}},
		"by the Valkey name": {command: []string{"valkey-server"}},
		"by path":            {command: []string{"/usr/local/bin/redis-server", "--loglevel", "debug"}},
		"with --user":        {options: []string{"--user", "999:999"}},
	} {
		t.Run(name, func(t *testing.T) {
			box := start(t, test.options, test.command...)
			require.Equal(t, []int64{0, 15, 14, -1, 2}, throttle(t, box.client(t), transcript...))
			status := box.exec(t, "grep", "-hE", "^(Uid|Gid|Groups|CapEff):", "/proc/1/status")
			require.Regexp(t, `^Uid:\s+999\s+999\s+999\s+999\nGid:\s+999\s+999\s+999\s+999\nGroups:(\s+999)?\s*\nCapEff:\s+0+$`, status)
			require.Regexp(t, `^(redis|valkey)-server `, box.exec(t, "cat", "/proc/1/cmdline"))
		})
	}
}

// TestStopsOnSIGTERM: within two seconds, cleanly, and having saved. It measures time,
// so no other test runs beside it.
func TestStopsOnSIGTERM(t *testing.T) {
	box := start(t, nil)
	throttle(t, box.client(t), transcript...)
	begin := time.Now()
	docker(t, "stop", "--time", "20", string(box))
	took := inspect[time.Time](t, string(box), ".State.FinishedAt").Sub(begin)
	require.Equal(t, 0, inspect[int](t, string(box), ".State.ExitCode"), "137 is a server that had to be killed")
	require.Less(t, took, 2*time.Second)
	require.Contains(t, box.log(t), "DB saved on disk")
}

// TestVolumeKeepsFunnels: what was poured before a restart, and before a new
// container on the same volume, is there afterwards, to the nanosecond.
func TestVolumeKeepsFunnels(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"snapshot":         nil,
		"append-only file": {"--appendonly", "yes", "--save", ""},
	} {
		t.Run(name, func(t *testing.T) {
			options := []string{"--volume", volume(t) + ":/data"}
			box := start(t, options, command...)
			require.Equal(t, []int64{0, 15, 14, -1, 3600}, throttle(t, box.client(t), "cl.throttle", "user:42", 15, 1, 3600))
			poured := box.client(t).Get(t.Context(), "user:42").Val()
			require.NotEmpty(t, poured)

			docker(t, "restart", "--time", "20", string(box))
			require.Equal(t, poured, box.client(t).Get(t.Context(), "user:42").Val())
			docker(t, "stop", "--time", "20", string(box))

			client := start(t, options, command...).client(t)
			require.Equal(t, poured, client.Get(t.Context(), "user:42").Val())
			require.Equal(t, []int64{0, 15, 13, -1}, throttle(t, client, "cl.throttle", "user:42", 15, 1, 3600)[:4])
		})
	}
}

// TestHealthy: Docker finds a container healthy whose server has the command, and
// the check leaves nothing behind.
func TestHealthy(t *testing.T) {
	t.Parallel()
	box := start(t, []string{"--health-interval", "1s"})
	eventually(t, "the container is healthy", func() error {
		if status := inspect[string](t, string(box), ".State.Health.Status"); status != "healthy" {
			return fmt.Errorf("it is %s", status)
		}
		return nil
	})
	client := box.client(t)
	require.Regexp(t, `funnel_peeked:[1-9]`, client.Info(t.Context(), "funnel").Val())
	require.Zero(t, client.DBSize(t.Context()).Val())
}

// TestHealthyInOtherCircumstances: where the command exists, but the check may not
// call it, and on another port.
func TestHealthyInOtherCircumstances(t *testing.T) {
	t.Parallel()
	password := func(options *redis.Options) { options.Password = "secret" }
	t.Run("a password that the check does not know", func(t *testing.T) {
		box := start(t, nil, "--requirepass", "secret")
		box.client(t, password)
		box.exec(t, "funnel-healthcheck.sh")
	})
	t.Run("another port", func(t *testing.T) {
		box := start(t, nil, "--port", "7000")
		eventually(t, "healthy", func() error {
			output, err := tryDocker("exec", string(box), "funnel-healthcheck.sh")
			if err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			return nil
		})
	})
	t.Run("a replica", func(t *testing.T) {
		box := start(t, nil, "--replicaof", "127.0.0.1", "1")
		box.client(t)
		box.exec(t, "funnel-healthcheck.sh")
	})
}

// TestUnhealthy: a server that does not have the command, cannot run it, or does not
// answer.
func TestUnhealthy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options, command []string
		says             string
	}{
		"no module": {[]string{"--entrypoint", "docker-entrypoint.sh"}, []string{"redis-server"}, "unknown command"},
		"no module and a password": {
			[]string{"--entrypoint", "docker-entrypoint.sh"}, []string{"redis-server", "--requirepass", "secret"}, "unknown command",
		},
		"no memory": {nil, []string{"--maxmemory", "1"}, "OOM"},
		"no server": {[]string{"--entrypoint", "sleep"}, []string{"600"}, "Could not connect"},
	} {
		t.Run(name, func(t *testing.T) {
			box := start(t, test.options, test.command...)
			eventually(t, "unhealthy because of "+test.says, func() error {
				output, err := tryDocker("exec", string(box), "funnel-healthcheck.sh")
				if err == nil || !strings.Contains(output, test.says) {
					return fmt.Errorf("%v: %s", err, output)
				}
				return nil
			})
		})
	}
}
