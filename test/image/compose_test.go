package image_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A project is compose.yaml, running under a name of its own.
type project struct {
	name string
	tool []string
}

// startProject runs the first line that the README shows, and waits for the sentinels.
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
	p.awaitSentinels(t)
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
	arguments := strings.Fields(strings.TrimPrefix(line, "docker compose "))
	if arguments[0] == "exec" {
		// No terminal; the newer tool detects that by itself.
		arguments = slices.Insert(arguments, 1, "-T")
	}
	output, err := p.command(arguments...).CombinedOutput()
	require.NoErrorf(t, err, "%s: %s", line, output)
	return strings.TrimSpace(strings.ReplaceAll(string(output), "\r", ""))
}

// services lists the running containers of a service, or with the option --all of all.
func (p project) services(service string, options ...string) (string, error) {
	return tryDocker(append([]string{"ps", "--quiet", "--no-trunc", "--filter", "label=com.docker.compose.project=" + p.name,
		"--filter", "label=com.docker.compose.service" + service}, options...)...)
}

// container is that of a service.
func (p project) container(t testing.TB, service string) container {
	t.Helper()
	id, err := p.services("="+service, "--all")
	require.NoError(t, err)
	require.NotEmpty(t, id, service)
	return container(id)
}

// address is where a service listens, which changes when it comes back.
func (p project) address(service string) (string, error) {
	address, err := p.services("=" + service)
	if err == nil && address != "" {
		address, err = tryDocker("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", address)
	}
	if err != nil || address == "" {
		return "", fmt.Errorf("%s does not run, or has no address: %w: %s", service, err, address)
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

// funnel is what a service, which need not be on any network, holds of the one funnel.
func (p project) funnel(t testing.TB, service string) string {
	t.Helper()
	return p.container(t, service).exec(t, "redis-cli", "get", "user:42")
}

// awaitRole waits until a service is what it should be, master or a replica ("slave")
// whose link is up, and has that funnel.
func (p project) awaitRole(t testing.TB, service, role, poured string) {
	t.Helper()
	eventually(t, service+" is a "+role, func() error {
		got, err := tryDocker("exec", string(p.container(t, service)), "redis-cli", "role")
		if err != nil || !strings.HasPrefix(got, role+"\n") || role == "slave" && !strings.Contains(got, "\nconnected\n") {
			return fmt.Errorf("%v: %s", err, got)
		}
		if got := p.funnel(t, service); got != poured {
			return fmt.Errorf("it has %q, not %q", got, poured)
		}
		return nil
	})
}

// awaitSentinels waits until a quorum of sentinels knows all servers: from then on a
// failure ends in a failover.
func (p project) awaitSentinels(t testing.TB) {
	t.Helper()
	for i := range 3 {
		eventually(t, "a sentinel knows the others and the replica", func() error {
			return p.sentinelKnows(t, fmt.Sprintf("sentinel-%d", i+1))
		})
	}
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
	clientFollows := func() {
		eventually(t, "the client finds the primary", func() error {
			return client.Do(t.Context(), "cl.throttle", "user:42", 15, 1, 3600, 0).Err()
		})
	}

	// Stopped: its name is no longer known in the network.
	require.Equal(t, "0\n15\n14\n-1\n3600", p.run(t, pour))
	poured := p.funnel(t, "redis-1")
	p.awaitRole(t, "redis-2", "slave", poured)
	firstAddress, err := p.address("redis-1")
	require.NoError(t, err)
	p.run(t, stop)
	p.awaitRole(t, "redis-2", "master", poured)
	eventually(t, "the sentinels name the new primary", func() error {
		got := p.container(t, "sentinel-1").exec(t, "redis-cli", "-p", "26379", "sentinel", "get-master-addr-by-name", "funnel")
		if got != "redis-2\n6379" {
			return fmt.Errorf("they answer %q", got)
		}
		return nil
	})
	require.Regexp(t, `^0\n15\n13\n-1\n\d+$`, p.run(t, pourAgain))
	// It comes back under the same name, and another address, as its own is taken.
	taker := newContainer(t)
	docker(t, "run", "--detach", "--name", string(taker), "--network", p.name+"_default", "--entrypoint", "sleep", image(t), "600")
	docker(t, "start", string(p.container(t, "redis-1")))
	address, err := p.address("redis-1")
	require.NoError(t, err)
	require.NotEqual(t, firstAddress, address)
	p.awaitRole(t, "redis-1", "slave", p.funnel(t, "redis-2"))
	docker(t, "rm", "--force", "--volumes", string(taker))
	p.awaitSentinels(t)

	// Cut off: it still runs as a primary.
	clientFollows()
	require.EqualValues(t, 12, servertest.Throttle(t, client, "user:42", 15, 1, 3600)[2])
	poured = p.funnel(t, "redis-2")
	p.awaitRole(t, "redis-1", "slave", poured)
	lost := p.container(t, "redis-2")
	docker(t, "network", "disconnect", p.name+"_default", string(lost))
	p.awaitRole(t, "redis-1", "master", poured)
	require.Regexp(t, `^0\n15\n11\n`, lost.exec(t, "redis-cli", "cl.throttle", "user:42", "15", "1", "3600"))
	clientFollows()
	require.Equal(t, poured, client.Get(t.Context(), "user:42").Val())

	// What was poured while it was cut off is lost when it comes back.
	docker(t, "network", "connect", "--alias", "redis-2", p.name+"_default", string(lost))
	p.awaitRole(t, "redis-2", "slave", poured)

	p.run(t, down)
	left, err := p.services("", "--all")
	require.NoError(t, err)
	require.Empty(t, left)
}
