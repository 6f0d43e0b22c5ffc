package servertest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pollInterval is the time between two polls of a server.
const pollInterval = 5 * time.Millisecond

// Eventually waits for a condition of a real server.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, Patience, pollInterval, what)
}

// Await waits until missing returns nil. If that takes too long, the test fails and shows the last
// error.
func Await(t testing.TB, interval time.Duration, what string, missing func() error) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.NoError(c, missing()) }, Patience, interval, what)
}

// AwaitListener waits until a program accepts connections at an address.
func AwaitListener(t testing.TB, address string) {
	t.Helper()
	Eventually(t, "something listens at "+address, func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
}

// AwaitCron waits for a run of the server's periodic work, which among other things deletes expired
// keys.
func AwaitCron(t testing.TB, client *redis.Client) {
	t.Helper()
	ctx := context.Background()
	keys := func() int64 {
		size, err := client.DBSize(ctx).Result()
		require.NoError(t, err)
		return size
	}
	before := keys()
	require.NoError(t, client.Do(ctx, "set", "awaits cron", 1, "px", 1).Err())
	Eventually(t, "the server's periodic work", func() bool { return keys() <= before })
}
