package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// pollInterval is the time between two polls of a server.
const pollInterval = 5 * time.Millisecond

// Await polls until there is no error, for at most [Patience].
func Await(t testing.TB, interval time.Duration, what string, missing func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := missing()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(errors.Join(fmt.Errorf("timed out waiting until %s", what), err))
		}
		time.Sleep(interval)
	}
}

// Eventually waits for a condition of a real server.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, Patience, 5*time.Millisecond, what)
}

// AwaitListener waits until a program accepts connections at an address.
func AwaitListener(t testing.TB, address string) {
	t.Helper()
	Await(t, pollInterval, "something listens at "+address, func() error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err
	})
}

// AwaitCron waits for a run of the server's periodic work, which among other things
// deletes expired keys.
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
