package servertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// slots is the number of hash slots of any cluster.
const slots = 16384

// formingTimeout is the node timeout while a cluster forms: a new node waits for about as long,
// from half a second to five, before it serves the cluster.
const formingTimeout = 2 * time.Second

// A Cluster is a set of servers in cluster mode: primaries that share the slots evenly, and one
// replica of each. It is put together with CLUSTER commands.
type Cluster struct {
	// Primaries are the nodes that owned slots when the cluster was made.
	Primaries []*ClusterNode

	// Replicas are in the order of their primaries.
	Replicas []*ClusterNode
}

// A ClusterNode is one server of a cluster.
type ClusterNode struct {
	*Server

	// ID is the name of the node within the cluster.
	ID string

	// Direct talks to this node alone and follows no redirection.
	Direct *redis.Client
}

// StartCluster starts a cluster of some primaries, each with one replica, and waits until all nodes
// agree about the cluster and all slots are served. If a primary does not answer for nodeTimeout,
// its replica takes over.
func StartCluster(t testing.TB, primaries int, nodeTimeout time.Duration, options Options) *Cluster {
	t.Helper()
	options.Config = append([]string{
		"--save", "",
		"--cluster-enabled", "yes",
		"--cluster-node-timeout", milliseconds(formingTimeout),
		"--repl-diskless-sync-delay", "0",
	}, options.Config...)

	cluster := &Cluster{}
	for i := range 2 * primaries {
		server := Start(t, options)
		node := &ClusterNode{Server: server, Direct: server.Client(t)}
		node.ID = Call(t, node.Direct, "cluster myid")
		if i < primaries {
			cluster.Primaries = append(cluster.Primaries, node)
		} else {
			cluster.Replicas = append(cluster.Replicas, node)
		}
	}
	cluster.introduce(t)
	cluster.shareSlots(t)
	for i, replica := range cluster.Replicas {
		Await(t, pollInterval, "the replica knows its primary", func() error {
			return replica.Direct.ClusterReplicate(context.Background(), cluster.Primaries[i].ID).Err()
		})
	}
	Await(t, pollInterval, "the cluster serves all slots, each on a primary with a replica", cluster.whole)
	for _, node := range cluster.Nodes() {
		cluster.do(t, node, "config", "set", "cluster-node-timeout", milliseconds(nodeTimeout))
	}
	return cluster
}

// introduce makes every node meet every other node, rather than wait for gossip. Before that, each
// node of a new cluster needs an epoch of its own.
func (c *Cluster) introduce(t testing.TB) {
	t.Helper()
	nodes := c.Nodes()
	for i, node := range nodes {
		c.do(t, node, "cluster", "set-config-epoch", i+1)
	}
	for i, node := range nodes {
		for _, other := range nodes[:i] {
			c.do(t, node, "cluster", "meet", "127.0.0.1", other.Port)
		}
	}
}

func (c *Cluster) shareSlots(t testing.TB) {
	t.Helper()
	count := len(c.Primaries)
	for i, primary := range c.Primaries {
		// CLUSTER ADDSLOTSRANGE came with Redis 7.0.
		command := []any{"cluster", "addslots"}
		for slot := slots * i / count; slot < slots*(i+1)/count; slot++ {
			command = append(command, slot)
		}
		c.do(t, primary, command...)
	}
}

// whole returns an error until every node sees every slot on its primary and replica.
func (c *Cluster) whole() error {
	for _, node := range c.Nodes() {
		info, err := node.Direct.ClusterInfo(context.Background()).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return fmt.Errorf("node %d sees no whole cluster: %v\n%s", node.Port, err, info)
		}
		ranges, err := node.ranges()
		if err != nil {
			return err
		}
		for i, primary := range c.Primaries {
			first, want := int64(slots*i/len(c.Primaries)), []string{primary.ID, c.Replicas[i].ID}
			if !slices.Equal(ranges[first], want) {
				return fmt.Errorf("node %d sees the slots from %d at %v, not %v", node.Port, first, ranges[first], want)
			}
		}
	}
	return nil
}

// ranges returns the IDs of the nodes that have a range of slots, the primary first, by the first
// slot of the range. Redis 6.2 does not know CLUSTER SHARDS.
func (n *ClusterNode) ranges() (map[int64][]string, error) {
	reply, err := n.Direct.Do(context.Background(), "cluster", "slots").Slice()
	ranges := map[int64][]string{}
	for _, entry := range reply { // the first and the last slot, then an array for each node
		fields := entry.([]any)
		first := fields[0].(int64)
		for _, node := range fields[2:] {
			ranges[first] = append(ranges[first], node.([]any)[2].(string))
		}
	}
	return ranges, err
}

// Nodes are all nodes, the primaries first.
func (c *Cluster) Nodes() []*ClusterNode { return slices.Concat(c.Primaries, c.Replicas) }

// Client connects to the cluster as an application does, until the test ends. It follows
// redirections; a function may change the options.
func (c *Cluster) Client(t testing.TB, change ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	options := &redis.ClusterOptions{MaxRetries: -1, ReadTimeout: Patience, WriteTimeout: Patience}
	for _, node := range c.Nodes() {
		options.Addrs = append(options.Addrs, node.Addr())
	}
	for _, change := range change {
		change(options)
	}
	client := redis.NewClusterClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// Slot is the slot of a key.
func (c *Cluster) Slot(t testing.TB, key string) int {
	t.Helper()
	slot, err := c.Primaries[0].Direct.ClusterKeySlot(context.Background(), key).Result()
	require.NoError(t, err)
	return int(slot)
}

// Owner is the primary that owned a slot when the cluster was made.
func (c *Cluster) Owner(slot int) *ClusterNode {
	for i, primary := range c.Primaries {
		if slot < slots*(i+1)/len(c.Primaries) {
			return primary
		}
	}
	panic(fmt.Sprintf("there is no slot %d", slot))
}

// Migrate moves the slots from 0 to last to another primary, by a command of the server: Valkey 9
// has CLUSTER MIGRATESLOTS, and Redis 8.4 CLUSTER MIGRATION. The old owner streams the keys, and
// the writes to them meanwhile, and the slots change hands at one instant. It has to keep other
// slots, or it becomes a replica. Migrate returns when every primary knows the new owner, and
// reports false if the server has neither command.
func (c *Cluster) Migrate(t testing.TB, last int, from, to *ClusterNode) bool {
	t.Helper()
	known, err := from.Direct.Do(context.Background(), "command", "info", "cluster|migrateslots",
		"cluster|migration").Slice()
	require.NoError(t, err)
	switch {
	case known[0] != nil:
		c.do(t, from, "cluster", "migrateslots", "slotsrange", 0, last, "node", to.ID)
	case known[1] != nil:
		c.do(t, to, "cluster", "migration", "import", 0, last)
	default:
		return false
	}
	Await(t, pollInterval, "the slots change hands", func() error {
		for _, primary := range c.Primaries {
			ranges, err := primary.ranges()
			if err != nil || !slices.Contains(ranges[0], to.ID) {
				return fmt.Errorf("node %d sees %v: %v", primary.Port, ranges, err)
			}
		}
		return nil
	})
	return true
}

// FailOver kills the primary of a key while callers ask for the key. It returns how long it takes
// until ask succeeds, after all other nodes have said that the replica has taken over.
func (c *Cluster) FailOver(t testing.TB, key string, ask func() error) time.Duration {
	t.Helper()
	Await(t, pollInterval, "an answer", ask)
	var callers sync.WaitGroup
	defer callers.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 8 {
		callers.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(pollInterval) {
				_ = ask()
			}
		})
	}
	killed := slices.Index(c.Primaries, c.Owner(c.Slot(t, key)))
	c.Primaries[killed].Kill()
	for _, node := range slices.Concat(c.Primaries[:killed], c.Primaries[killed+1:], c.Replicas) {
		Eventually(t, "the replica takes over", func() bool {
			ranges, err := node.ranges()
			return err == nil && ranges[int64(slots*killed/len(c.Primaries))][0] == c.Replicas[killed].ID
		})
	}
	began := time.Now()
	Await(t, pollInterval, "an answer from the replica", ask)
	return time.Since(began)
}

func (c *Cluster) do(t testing.TB, node *ClusterNode, command ...any) {
	t.Helper()
	require.NoError(t, node.Direct.Do(context.Background(), command...).Err(), "node %d: %v", node.Port, command)
}

func milliseconds(duration time.Duration) string {
	return strconv.FormatInt(duration.Milliseconds(), 10)
}
