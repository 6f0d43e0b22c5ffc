package image_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A project is compose.yaml, running under a name of its own.
type project string

// command is one of docker compose, or of the older docker-compose.
func (p project) command(arguments ...string) *exec.Cmd {
	const tool = `if docker compose version >/dev/null 2>&1; then exec docker compose "$@"; else exec docker-compose "$@"; fi`
	command := exec.Command("bash", append([]string{"-c", tool, "compose", "--project-name", string(p)}, arguments...)...)
	command.Dir = top // with FUNNEL_IMAGE in the environment, which compose.yaml reads
	return command
}

// run runs a line of docs/docker.md, under the name of the project.
func (p project) run(t testing.TB, line string) string {
	t.Helper()
	arguments := strings.Fields(strings.TrimPrefix(line, "docker compose "))
	if arguments[0] == "exec" {
		// No terminal; the newer tool detects that alone.
		arguments = slices.Insert(arguments, 1, "-T")
	}
	output, err := p.command(arguments...).CombinedOutput()
	require.NoErrorf(t, err, "%s: %s", line, output)
	return strings.TrimSpace(strings.ReplaceAll(string(output), "\r", ""))
}

// container returns the container of a service.
func (p project) container(t testing.TB, service string) container {
	t.Helper()
	id := docker(t, "ps", "--all", "--quiet", "--no-trunc",
		"--filter", "label=com.docker.compose.project="+string(p), "--filter", "label=com.docker.compose.service="+service)
	require.NotEmpty(t, id, service)
	return container(id)
}

// address is where a service listens, which changes when it comes back.
func (p project) address(t testing.TB, service string) string {
	t.Helper()
	return docker(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", string(p.container(t, service)))
}

// awaitSentinels waits until each sentinel knows the others and the replica, and that the
// replica's link is up. From then on a failure leads to a failover.
func (p project) awaitSentinels(t testing.TB) {
	t.Helper()
	for i := range 3 {
		sentinel := p.container(t, fmt.Sprintf("sentinel-%d", i+1))
		eventually(t, "a sentinel knows the others and the replica", func() error {
			know := ""
			for _, question := range []string{"master", "replicas", "ckquorum"} {
				answer, err := tryDocker("exec", string(sentinel), "redis-cli", "-p", "26379", "sentinel", question, "funnel")
				if know += answer + "\n"; err != nil {
					return fmt.Errorf("%w: %s", err, know)
				}
			}
			for _, want := range []string{"num-slaves\n1\n", "num-other-sentinels\n2\n", "flags\nmaster\n", "flags\nslave\n", "master-link-status\nok\n", "OK 3 usable"} {
				if !strings.Contains(know, want) {
					return fmt.Errorf("no %q in %s", want, know)
				}
			}
			return nil
		})
	}
}

// funnel is what a service, which need not be on any network, holds of the one funnel.
func (p project) funnel(t testing.TB, service string) string {
	t.Helper()
	return p.container(t, service).exec(t, "redis-cli", "get", "user:42")
}

// awaitRole waits until a service has that role, master or "slave" with its link up, and
// holds that value.
func (p project) awaitRole(t testing.TB, service, role, value string) {
	t.Helper()
	eventually(t, service+" is a "+role, func() error {
		got, err := tryDocker("exec", string(p.container(t, service)), "redis-cli", "role")
		if err != nil || !strings.HasPrefix(got, role+"\n") || role == "slave" && !strings.Contains(got, "\nconnected\n") {
			return fmt.Errorf("%v: %s", err, got)
		}
		if got := p.funnel(t, service); got != value {
			return fmt.Errorf("it has %q, not %q", got, value)
		}
		return nil
	})
}

// TestComposeFailsOver: with the lines that docs/docker.md shows, a primary is stopped, and
// comes back. Each time the replica holds the funnel, byte for byte.
func TestComposeFailsOver(t *testing.T) {
	t.Parallel()
	image(t)
	lines := linesOf(t, "docs/docker.md", "docker compose")
	require.Len(t, lines, 5)
	up, take, stop, takeAgain, down := lines[0], lines[1], lines[2], lines[3], lines[4]
	p := project(unique())
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := p.command("logs", "--tail", "30").CombinedOutput()
			t.Logf("end of the logs:\n%s", log)
		}
		p.command("down", "--volumes", "--timeout", "0").Run()
	})
	// The image is built, on another base than this line would take.
	p.run(t, strings.TrimSuffix(up, " --build")+" --no-build")
	p.awaitSentinels(t)

	// Stopped: its name is no longer known in the network.
	require.Equal(t, "0\n15\n14\n-1\n3600", p.run(t, take))
	value := p.funnel(t, "redis-1")
	p.awaitRole(t, "redis-2", "slave", value)
	firstAddress := p.address(t, "redis-1")
	p.run(t, stop)
	p.awaitRole(t, "redis-2", "master", value)
	for i := range 3 {
		eventually(t, "the sentinels name the new primary", func() error {
			sentinel := p.container(t, fmt.Sprintf("sentinel-%d", i+1))
			if got := sentinel.exec(t, "redis-cli", "-p", "26379", "sentinel", "get-master-addr-by-name", "funnel"); got != "redis-2\n6379" {
				return fmt.Errorf("it answers %q", got)
			}
			return nil
		})
	}
	require.Regexp(t, `^0\n15\n13\n-1\n\d+$`, p.run(t, takeAgain))

	// It comes back under the same name, and another address, as its own is taken.
	taker := newContainer(t)
	docker(t, "run", "--detach", "--name", string(taker), "--network", string(p)+"_default", "--entrypoint", "sleep", image(t), "600")
	docker(t, "start", string(p.container(t, "redis-1")))
	require.NotEqual(t, firstAddress, p.address(t, "redis-1"))
	p.awaitRole(t, "redis-1", "slave", p.funnel(t, "redis-2"))
	docker(t, "rm", "--force", "--volumes", string(taker))
	p.awaitSentinels(t)

	p.run(t, down)
	require.Empty(t, docker(t, "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+string(p)))
}
