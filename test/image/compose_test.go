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

// awaitRole waits until a service has that role, master or "slave" with its link up, and
// holds that value.
func (p project) awaitRole(t testing.TB, service, role, value string) {
	t.Helper()
	box := p.container(t, service)
	eventually(t, service+" is a "+role, func() error {
		got, err := tryDocker("exec", string(box), "redis-cli", "role")
		held, _ := tryDocker("exec", string(box), "redis-cli", "get", "user:42")
		if err != nil || !strings.HasPrefix(got, role+"\n") || role == "slave" && !strings.Contains(got, "\nconnected\n") || held != value {
			return fmt.Errorf("%v: %s, with %q instead of %q", err, got, held, value)
		}
		return nil
	})
}

// TestComposeFailsOver: the lines that docs/docker.md shows. A primary is stopped, and its
// replica takes over with the same funnel, byte for byte.
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
	require.Equal(t, "0\n15\n14\n-1\n3600", p.run(t, take))
	value := p.container(t, "redis-1").exec(t, "redis-cli", "get", "user:42")
	p.awaitRole(t, "redis-2", "slave", value)
	p.run(t, stop)
	p.awaitRole(t, "redis-2", "master", value)
	require.Regexp(t, `^0\n15\n13\n-1\n\d+$`, p.run(t, takeAgain))
	p.run(t, down)
	require.Empty(t, docker(t, "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+string(p)))
}
