package servertest

import (
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

// RunWithClient runs the tests of a package beside a bare server that lasts as long
// as they all do, and returns the exit code: for TestMain of packages whose examples
// need a server, since an example has no test to start one for. Use receives the
// client.
func RunWithClient(m *testing.M, use func(*redis.Client)) int {
	server, err := Run(Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Close()
	client := server.NewClient()
	defer client.Close()
	use(client)
	return m.Run()
}
