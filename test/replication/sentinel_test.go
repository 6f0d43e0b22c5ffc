package replication_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestSentinelFailoverKeepsReplicatedCalls: a primary is killed under load, three
// sentinels agree on it and promote one of its two replicas. No funnel is emptier
// than the calls that were acknowledged and replicated, and clients go on.
func TestSentinelFailoverKeepsReplicatedCalls(t *testing.T) {
	primary := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: []string{"--save", "", "--repl-diskless-sync-delay", "0"},
	})
	replicas := make([]*redis.Client, 2)
	for i := range replicas {
		replicas[i] = servertest.Start(t, servertest.Options{
			Module: servertest.Module(t),
			Config: []string{"--save", "", "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port)},
		}).Client(t)
	}
	servertest.Eventually(t, "the replicas are attached", func() bool {
		return strings.Count(primary.Client(t).Info(t.Context(), "replication").Val(), "state=online") == len(replicas)
	})
	sentinels := servertest.StartSentinels(t, 3, 2, 500*time.Millisecond, primary, len(replicas))

	options := &redis.FailoverOptions{
		MasterName:  servertest.SentinelName,
		MaxRetries:  -1,
		ReadTimeout: servertest.Patience,
	}
	for _, sentinel := range sentinels {
		options.SentinelAddrs = append(options.SentinelAddrs, sentinel.Addr())
	}
	client := redis.NewFailoverClient(options)
	defer client.Close()

	var keys []string
	for i := range servertest.QuickOrLong(30, 300) {
		keys = append(keys, fmt.Sprintf("user:%d", i))
	}
	isPrimary := func(client *redis.Client) bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "role:master")
	}
	failover := failover{
		ledger:   newLedger(servertest.QuickOrLong[int64](300, 1000), keys),
		client:   client,
		primary:  primary,
		replicas: len(replicas),
		hasSucceeded: func() bool {
			return isPrimary(replicas[0]) || isPrimary(replicas[1])
		},
	}
	failover.run(t)

	// The other replica follows the promoted one.
	successor, other := replicas[0], replicas[1]
	if !isPrimary(successor) {
		successor, other = other, successor
	}
	require.False(t, isPrimary(other))
	requireSameFunnels(t, keys, successor, other)
}
