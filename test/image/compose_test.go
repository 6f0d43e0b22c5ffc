package image_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A project is compose.yaml, running under a name of its own.
type project struct {
	name string
	tool []string
}

// startProject runs the first line that the README shows, and waits until a quorum
// of sentinels knows all servers: from then on a failure ends in a failover.
func startProject(t *testing.T, line string) project {
	t.Helper()
	p := project{name: unique(), tool: composeTool(t)}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := p.command("logs", "--tail", "30").CombinedOutput()
			t.Logf("end of the logs:\n%s", log)
		}
		p.command("down", "--volumes", "--timeout", "0").Run()
	})
	// The image is built, on another base than this line would take.
	p.run(t, strings.Replace(line, "--build", "--no-build", 1))
	for i := range 3 {
		eventually(t, "a sentinel knows the others and the replica", func() error {
			return p.sentinelKnows(t, fmt.Sprintf("sentinel-%d", i+1))
		})
	}
	return p
}

// composeTool is `docker compose`, or the older docker-compose.
func composeTool(t testing.TB) []string {
	t.Helper()
	for _, tool := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.Command(tool[0], append(tool[1:], "version")...).Run() == nil {
			return tool
		}
	}
	t.Fatal("neither docker compose nor docker-compose is there: apt-get install docker-compose")
	return nil
}

func (p project) command(arguments ...string) *exec.Cmd {
	arguments = append(append(p.tool[1:len(p.tool):len(p.tool)], "--project-name", p.name), arguments...)
	command := exec.Command(p.tool[0], arguments...)
	command.Dir = top
	command.Env = os.Environ() // with FUNNEL_IMAGE, which compose.yaml reads
	return command
}

// run runs a line of the README, under the name of the project.
func (p project) run(t testing.TB, line string) string {
	t.Helper()
	output, err := p.try(line)
	require.NoErrorf(t, err, "%s: %s", line, output)
	return output
}

func (p project) try(line string) (string, error) {
	arguments := strings.Fields(strings.TrimPrefix(line, "docker compose "))
	if arguments[0] == "exec" {
		// No terminal; the newer tool detects that by itself.
		arguments = append([]string{"exec", "-T"}, arguments[1:]...)
	}
	output, err := p.command(arguments...).CombinedOutput()
	return strings.TrimSpace(strings.ReplaceAll(string(output), "\r", "")), err
}

// container is that of a service.
func (p project) container(t testing.TB, service string) string {
	t.Helper()
	id := docker(t, "ps", "--all", "--quiet",
		"--filter", "label=com.docker.compose.project="+p.name, "--filter", "label=com.docker.compose.service="+service)
	require.NotEmpty(t, id, service)
	return id
}

// address is where a service listens, which changes when it comes back.
func (p project) address(service string) (string, error) {
	output, err := tryDocker("ps", "--quiet", "--no-trunc",
		"--filter", "label=com.docker.compose.project="+p.name, "--filter", "label=com.docker.compose.service="+service)
	if err != nil || output == "" {
		return "", fmt.Errorf("%s does not run: %w: %s", service, err, output)
	}
	address, err := tryDocker("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", output)
	if err != nil || address == "" {
		return "", fmt.Errorf("%s has no address: %w: %s", service, err, address)
	}
	return address, nil
}

// dial connects to a service by its name, as the other services do.
func (p project) dial(ctx context.Context, network, name string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) == nil {
		if host, err = p.address(host); err != nil {
			return nil, err
		}
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	return dialer.DialContext(ctx, network, net.JoinHostPort(host, port))
}

func (p project) sentinelKnows(t testing.TB, sentinel string) error {
	client := redis.NewSentinelClient(&redis.Options{Addr: sentinel + ":26379", Dialer: p.dial, MaxRetries: -1})
	defer client.Close()
	primary, err := client.Master(t.Context(), "funnel").Result()
	if err != nil {
		return err
	}
	if primary["flags"] != "master" || primary["num-slaves"] != "1" || primary["num-other-sentinels"] != "2" {
		return fmt.Errorf("%s sees %v", sentinel, primary)
	}
	// Redis and Valkey promote a replica only when it has said that its link is up.
	replicas, err := client.Replicas(t.Context(), "funnel").Result()
	if err != nil || len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
		return fmt.Errorf("%s sees the replica %v: %v", sentinel, replicas, err)
	}
	return client.CkQuorum(t.Context(), "funnel").Err()
}

// cli runs redis-cli in a service that need not be on any network.
func (p project) cli(t testing.TB, service string, command ...string) string {
	t.Helper()
	return docker(t, append([]string{"exec", p.container(t, service), "redis-cli"}, command...)...)
}

// awaitRole waits until a service is what it should be: master, or a replica ("slave")
// whose link is up.
func (p project) awaitRole(t testing.TB, service, role string) {
	t.Helper()
	eventually(t, service+" is a "+role, func() error {
		got, err := tryDocker("exec", p.container(t, service), "redis-cli", "role")
		if err != nil || !strings.HasPrefix(got, role+"\n") || role == "slave" && !strings.Contains(got, "\nconnected\n") {
			return fmt.Errorf("%v: %s", err, got)
		}
		return nil
	})
}

// awaitSame waits until a replica has caught up, then requires the very same funnel.
func (p project) awaitSame(t testing.TB, service, poured string) {
	t.Helper()
	eventually(t, service+" has the funnel", func() error {
		if got := p.cli(t, service, "get", "user:42"); got != poured {
			return fmt.Errorf("it has %q, not %q", got, poured)
		}
		return nil
	})
}

// TestComposeFailsOver: with the lines that the README shows, a primary is stopped and
// comes back; then the new one is cut off from the network, and comes back, too. Each
// time the promoted replica holds the funnel, byte for byte, and a client that asks
// the sentinels goes on with it.
func TestComposeFailsOver(t *testing.T) {
	t.Parallel()
	image(t)
	lines := readmeLines(t, "README.md", "compose")
	require.Len(t, lines, 5)
	up, pour, stop, pourAgain, down := lines[0], lines[1], lines[2], lines[3], lines[4]
	p := startProject(t, up)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "funnel",
		SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
		Dialer:        p.dial,
		MaxRetries:    -1,
		DialTimeout:   5 * time.Second,
	})
	t.Cleanup(func() { client.Close() })

	// Stopped: its name is no longer known in the network.
	require.Equal(t, "0\n15\n14\n-1\n3600", p.run(t, pour))
	poured := p.cli(t, "redis-1", "get", "user:42")
	p.awaitSame(t, "redis-2", poured)
	firstAddress, err := p.address("redis-1")
	require.NoError(t, err)
	p.run(t, stop)
	p.awaitRole(t, "redis-2", "master")
	require.Equal(t, poured, p.cli(t, "redis-2", "get", "user:42"))
	eventually(t, "the sentinels name the new primary", func() error {
		if got := p.cli(t, "sentinel-1", "-p", "26379", "sentinel", "get-master-addr-by-name", "funnel"); got != "redis-2\n6379" {
			return fmt.Errorf("they answer %q", got)
		}
		return nil
	})
	require.Regexp(t, `^0\n15\n13\n-1\n\d+$`, p.run(t, pourAgain))
	// It comes back under the same name, and another address.
	squatter := container(unique())
	squatter.removeAfter(t)
	docker(t, "run", "--detach", "--name", string(squatter), "--network", p.name+"_default", "--entrypoint", "sleep", image(t), "600")
	docker(t, "start", p.container(t, "redis-1"))
	address, err := p.address("redis-1")
	require.NoError(t, err)
	require.NotEqual(t, firstAddress, address)
	p.awaitRole(t, "redis-1", "slave")
	docker(t, "rm", "--force", "--volumes", string(squatter))
	poured = p.cli(t, "redis-2", "get", "user:42")
	p.awaitSame(t, "redis-1", poured)
	for i := range 3 {
		eventually(t, "a sentinel is ready for another failover", func() error {
			return p.sentinelKnows(t, fmt.Sprintf("sentinel-%d", i+1))
		})
	}

	// Cut off: it still runs as a primary.
	eventually(t, "the client finds the primary", func() error {
		return client.Do(t.Context(), "cl.throttle", "user:42", 15, 1, 3600, 0).Err()
	})
	require.Equal(t, int64(12), throttle(t, client, "cl.throttle", "user:42", 15, 1, 3600)[2])
	poured = p.cli(t, "redis-2", "get", "user:42")
	p.awaitSame(t, "redis-1", poured)
	lost := p.container(t, "redis-2")
	docker(t, "network", "disconnect", p.name+"_default", lost)
	p.awaitRole(t, "redis-1", "master")
	require.Equal(t, poured, p.cli(t, "redis-1", "get", "user:42"))
	require.Equal(t, "0\n15\n11", strings.Join(strings.Fields(p.cli(t, "redis-2", "cl.throttle", "user:42", "15", "1", "3600"))[:3], "\n"))
	eventually(t, "the client follows", func() error {
		return client.Do(t.Context(), "cl.throttle", "user:42", 15, 1, 3600, 0).Err()
	})
	require.Equal(t, poured, client.Get(t.Context(), "user:42").Val())

	// What was poured while it was cut off is lost when it comes back.
	docker(t, "network", "connect", "--alias", "redis-2", p.name+"_default", lost)
	p.awaitRole(t, "redis-2", "slave")
	p.awaitSame(t, "redis-2", poured)

	p.run(t, down)
	require.Empty(t, docker(t, "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+p.name))
}

// TestSentinelsFileLiesBesideTheProject: what compose.yaml mounts is in the repository.
func TestSentinelsFileLiesBesideTheProject(t *testing.T) {
	compose, err := os.ReadFile(filepath.Join(top, "compose.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(compose), "./image/sentinel.conf:")
	require.FileExists(t, filepath.Join(top, "image", "sentinel.conf"))
}
