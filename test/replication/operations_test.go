// What docs/operations.md says of several servers: users and versions are those of each.

package replication_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
)

const operationsPage = "../../docs/operations.md"

// A user that only the primary has is missing after a failover; one that was created as on the page is not.
func TestUsersOnEveryServer(t *testing.T) {
	t.Parallel()
	page.NeedRedisCLI(t)
	ctx, primary := t.Context(), servertest.Start(t, withModule(t))
	replica := servertest.StartReplica(t, primary, withModule(t))
	run := func(name string) string {
		ports := strings.NewReplacer("6379", fmt.Sprint(primary.Port), "6380", fmt.Sprint(replica.Port))
		return page.Shell(t, t.TempDir(), primary.Port, ports.Replace(page.Marked(t, operationsPage, name)))
	}
	require.Regexp(t, `^(funnel_commit:\S.*\s+){2}$`, run("each instance"))

	servertest.Call(t, primary.Client(t), "acl setuser alone on >secret ~user:* +cl.throttle")
	require.Equal(t, "OK\nOK\n", run("users on every server"))
	require.NoError(t, replica.Client(t).ReplicaOf(ctx, "no", "one").Err())
	call := func(user string) error {
		as := replica.Client(t, func(options *redis.Options) { options.Username, options.Password = user, "secret" })
		return as.Do(ctx, "cl.throttle", "user:42", 15, 30, 60).Err()
	}
	require.NoError(t, call("app"))
	require.ErrorContains(t, call("alone"), "WRONGPASS")
}
