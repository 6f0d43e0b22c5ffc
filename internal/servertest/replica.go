package servertest

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// StartReplica starts a replica of a server, and waits until the server sends its writes to the
// replica.
func StartReplica(t testing.TB, primary *Server, options Options) *Server {
	t.Helper()
	client := primary.Client(t)
	ctx := context.Background()
	require.NoError(t, client.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err())
	options.Config = append([]string{"--save", "", "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port)},
		options.Config...)
	attached := func() int { return strings.Count(client.Info(ctx, "replication").Val(), "state=online") }
	before := attached()
	replica := Start(t, options)
	Eventually(t, "the replica is attached", func() bool { return attached() > before })
	return replica
}

// AwaitReplicas waits until all replicas of a server have executed its writes.
func AwaitReplicas(t testing.TB, primary *redis.Client, replicas ...*redis.Client) {
	t.Helper()
	offset := InfoField(t, primary, "replication", "master_repl_offset")
	for _, replica := range replicas {
		Eventually(t, "the replica has everything", func() bool {
			return InfoField(t, replica, "replication", "master_repl_offset") >= offset
		})
	}
}

// Promote makes a replica a primary. No write is lost: for a minute the old primary executes no
// writes.
func Promote(t testing.TB, primary, replica *redis.Client) {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, primary.Do(ctx, "client", "pause", 60_000, "write").Err())
	AwaitReplicas(t, primary, replica)
	require.NoError(t, replica.ReplicaOf(ctx, "no", "one").Err())
}
