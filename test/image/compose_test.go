// compose.yaml fails over as docs/docker.md shows.

package image_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A project is compose.yaml, running under a name of its own.
type project string

// try runs docker compose, or the older docker-compose, with what follows the name in a line of
// docs/docker.md.
func (p project) try(line string) (string, error) {
	const tool = `! docker compose version >/dev/null 2>&1 || exec docker compose "$@"; exec docker-compose "$@"`
	line = strings.Replace(line, "exec ", "exec -T ", 1) // no terminal
	arguments := append([]string{"-c", tool, "compose", "--project-name", string(p)}, strings.Fields(line)...)
	command := exec.Command("bash", arguments...)
	command.Dir = top // with FUNNEL_IMAGE in the environment, which compose.yaml reads
	output, err := command.CombinedOutput()
	return strings.TrimSpace(strings.ReplaceAll(string(output), "\r", "")), err
}

func (p project) run(t testing.TB, line string) string {
	output, err := p.try(strings.TrimPrefix(line, "docker compose "))
	require.NoErrorf(t, err, "%s: %s", line, output)
	return output
}

// await waits until a command in a service prints what a regular expression matches.
func (p project) await(t testing.TB, service, command, want string) {
	servertest.Await(t, pause, service+" prints "+want, func() error {
		output, err := p.try("exec " + service + " " + command)
		if err != nil || !regexp.MustCompile(want).MatchString(output) {
			return fmt.Errorf("%v: %s", err, output)
		}
		return nil
	})
}

// TestComposeFailsOver: a primary is stopped, and its replica takes over with the same funnel,
// byte for byte.
func TestComposeFailsOver(t *testing.T) {
	t.Parallel()
	image(t)
	lines := linesOf(t, "docs/docker.md", "docker compose")
	require.Len(t, lines, 5)
	up, take, stop, takeAgain, down := lines[0], lines[1], lines[2], lines[3], lines[4]
	p := project(unique())
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := p.try("logs --tail 30")
			t.Logf("end of the logs:\n%s", log)
		}
		p.try("down --volumes --timeout 0")
	})
	// The image is built, on another base than this line would take.
	p.run(t, strings.TrimSuffix(up, " --build")+" --no-build")
	// From then on, a failure leads to a failover.
	for _, sentinel := range []string{"sentinel-1", "sentinel-2", "sentinel-3"} {
		p.await(t, sentinel, "redis-cli -p 26379 info sentinel", `name=funnel,status=ok,.*,slaves=1,sentinels=3`)
	}
	require.Equal(t, "0\n15\n14\n-1\n3600", p.run(t, take))
	const ask = "redis-cli get user:42"
	value := p.run(t, "exec redis-1 "+ask)
	p.await(t, "redis-2", "redis-cli role", `^slave\n(?s:.*)\nconnected\n`)
	p.await(t, "redis-2", ask, "^"+value+"$")
	p.run(t, stop)
	p.await(t, "redis-2", "redis-cli role", `^master\n`)
	require.Equal(t, value, p.run(t, "exec redis-2 "+ask))
	require.Regexp(t, `^0\n15\n13\n-1\n\d+$`, p.run(t, takeAgain))
	p.run(t, down)
	require.Empty(t, docker(t, "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+string(p)))
}
