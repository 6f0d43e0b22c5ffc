// These tests run containers of the Docker image, which scripts/image-test.sh builds. FUNNEL_IMAGE
// names the image; without it, tests that need one are skipped. FUNNEL_IMAGE_BASE is the image that
// it is built on, and FUNNEL_IMAGE_GO the image with Go that compiles the module.

package image_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

func image(t testing.TB) string { return fromEnvironment(t, "FUNNEL_IMAGE") }

func fromEnvironment(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skipf("%s is not set: scripts/image-test.sh builds an image and names it there", name)
	}
	return value
}

// pause is the time between two questions to Docker, each of which starts a process.
const pause = 50 * time.Millisecond

// unique makes a name that nothing else on this machine has.
func unique() string { return fmt.Sprintf("funnel-test-%08x", rand.Uint32()) }

// docker runs a command of Docker and returns what it prints. It skips the test if there is no
// image, and so perhaps no Docker.
func docker(t testing.TB, arguments ...string) string {
	image(t)
	output, err := tryDocker(arguments...)
	require.NoErrorf(t, err, "docker %s: %s", strings.Join(arguments, " "), output)
	return output
}

// tryDocker is docker for commands that may fail; it returns stderr, too. A container that does not
// end is waited for as long as a server.
func tryDocker(arguments ...string) (string, error) {
	ctx, end := context.WithTimeout(context.Background(), servertest.Patience)
	defer end()
	output, err := exec.CommandContext(ctx, "docker", arguments...).CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

// inspect prints one field of a container or an image.
func inspect[T ~string](t testing.TB, what T, field string) string {
	return docker(t, "inspect", "--format", "{{json "+field+"}}", string(what))
}

// A container is one of the image, by name or by number.
type container string

// newContainer is a container that is still to be made. It is removed, with its volumes, when the
// test ends.
func newContainer(t testing.TB) container {
	c := container(unique())
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := tryDocker("logs", "--tail", "50", string(c))
			t.Logf("end of the log of %s:\n%s", c, log)
		}
		tryDocker("rm", "--force", "--volumes", string(c))
	})
	return c
}

// start starts a container with options of docker run and a command.
func start(t testing.TB, options []string, command ...string) container {
	c := newContainer(t)
	options = slices.Concat([]string{"run", "--detach", "--name", string(c), "--publish", "127.0.0.1::6379"}, options)
	docker(t, slices.Concat(options, []string{image(t)}, command)...)
	return c
}

// client connects to a container, and waits until its server answers.
func (c container) client(t testing.TB, password ...string) *redis.Client {
	published := strings.Fields(docker(t, "port", string(c), "6379/tcp"))
	require.NotEmpty(t, published)
	client := redis.NewClient(&redis.Options{
		Addr: published[0], Password: strings.Join(password, ""), MaxRetries: -1, ReadTimeout: servertest.Patience,
	})
	t.Cleanup(func() { client.Close() })
	servertest.Await(t, pause, "the server answers", func() error { return client.Ping(t.Context()).Err() })
	return client
}

// requireReply requires what the README shows, of a new server whose limit is 15, or 16 in the mode
// of redis-cell.
func requireReply(t testing.TB, client *redis.Client, limit int64) {
	want := fmt.Sprintf("0 %d %d -1 2", limit, limit-1)
	require.Equal(t, want, servertest.Call(t, client, "cl.throttle user:42 15 30 60"))
}

func (c container) exec(t testing.TB, command ...string) string {
	return docker(t, append([]string{"exec", string(c)}, command...)...)
}

// volume makes a volume until the test ends.
func volume(t testing.TB) string {
	name := docker(t, "volume", "create", unique())
	// Cleanups run in reverse: the containers that use it are gone by then.
	t.Cleanup(func() { tryDocker("volume", "rm", "--force", name) })
	return name
}
