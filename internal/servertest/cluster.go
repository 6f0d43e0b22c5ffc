package servertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// slots is the number of hash slots of any cluster.
const slots = 16384

// formingTimeout is the node timeout while a cluster forms: a new node waits for
// about as long, from half a second to five, before it serves the cluster.
const formingTimeout = 2 * time.Second

// A Cluster is a set of servers in cluster mode: primaries that share the slots
// evenly, and one replica of each. It is put together with CLUSTER commands.
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

// StartCluster starts a cluster of as many primaries, each with one replica, and
// waits until every node agrees on every other and all slots are served. A
// primary that does not answer for the node timeout fails over.
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

// introduce makes every node meet every other, rather than wait for gossip. Each node of a
// new cluster needs an epoch of its own first.
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

// whole returns an error until the cluster is ready.
func (c *Cluster) whole() error {
	ctx := context.Background()
	for _, node := range c.Nodes() {
		info, err := node.Direct.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots)) {
			return fmt.Errorf("node %d sees no whole cluster:\n%s", node.Port, info)
		}
		members, err := node.members()
		if err != nil {
			return err
		}
		for i, replica := range c.Replicas {
			if member := members[replica.ID]; member.primary != c.Primaries[i].ID || !member.linked {
				return fmt.Errorf("node %d sees replica %d as %+v", node.Port, replica.Port, member)
			}
		}
	}
	for _, replica := range c.Replicas {
		info, err := replica.Direct.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "master_link_status:up") {
			return fmt.Errorf("replica %d has no link to its primary", replica.Port)
		}
	}
	return nil
}

// Nodes are all nodes, the primaries first.
func (c *Cluster) Nodes() []*ClusterNode { return slices.Concat(c.Primaries, c.Replicas) }

// Client connects to the cluster as an application does, until the test ends. It
// follows redirections; a function may change the options.
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

// Owner is the primary that a new cluster has given a slot.
func (c *Cluster) Owner(slot int) *ClusterNode {
	for i, primary := range c.Primaries {
		if slot < slots*(i+1)/len(c.Primaries) {
			return primary
		}
	}
	panic(fmt.Sprintf("there is no slot %d", slot))
}

// A Move moves one slot from one primary to another while both serve it, in the
// steps that a cluster manager takes: Begin, MoveKeys, End.
type Move struct {
	Cluster  *Cluster
	Slot     int
	From, To *ClusterNode
}

// Begin opens the slot at both ends. From now on the old owner redirects calls
// for a key that it lacks to the new owner, with ASK.
func (m Move) Begin(t testing.TB) {
	t.Helper()
	m.Cluster.do(t, m.To, "cluster", "setslot", m.Slot, "importing", m.From.ID)
	m.Cluster.do(t, m.From, "cluster", "setslot", m.Slot, "migrating", m.To.ID)
}

// MoveKeys moves the keys of the slot, of which there are at most a hundred.
func (m Move) MoveKeys(t testing.TB) {
	t.Helper()
	keys, err := m.From.Direct.ClusterGetKeysInSlot(context.Background(), m.Slot, 100).Result()
	require.NoError(t, err)
	command := []any{"migrate", "127.0.0.1", m.To.Port, "", 0, Patience.Milliseconds(), "keys"}
	m.Cluster.do(t, m.From, append(command, ToAny(keys)...)...)
}

// End gives the slot to the new owner. The new owner is told first: otherwise a node would
// redirect a client to a server that redirects it back.
func (m Move) End(t testing.TB) {
	t.Helper()
	for _, node := range append([]*ClusterNode{m.To, m.From}, m.Cluster.Primaries...) {
		m.Cluster.do(t, node, "cluster", "setslot", m.Slot, "node", m.To.ID)
	}
}

// MigrateAll hands all slots of a primary to another, as Valkey 9 does it: it streams the
// keys over, with what is written to them meanwhile, and the slots change hands at one
// instant. It returns when every primary knows.
func (c *Cluster) MigrateAll(t testing.TB, from, to *ClusterNode) {
	t.Helper()
	members, err := from.members()
	require.NoError(t, err)
	command := []any{"cluster", "migrateslots", "slotsrange"}
	for _, run := range members[from.ID].slots {
		first, last, more := strings.Cut(run, "-")
		if !more {
			last = first
		}
		command = append(command, first, last)
	}
	c.do(t, from, append(command, "node", to.ID)...)
	c.awaitSlots(t, func(members map[string]member) bool { return len(members[from.ID].slots) == 0 },
		from, "cluster", "getslotmigrations")
}

// Import has a primary ask for the slots from 0 to last, as Redis does it since 8.4, with
// the same promise as [Cluster.MigrateAll]. The old owner has to keep other slots, or it
// becomes a replica.
func (c *Cluster) Import(t testing.TB, last int, to *ClusterNode) {
	t.Helper()
	c.do(t, to, "cluster", "migration", "import", 0, last)
	c.awaitSlots(t, func(members map[string]member) bool {
		slots := members[to.ID].slots
		return len(slots) > 0 && strings.HasPrefix(slots[0], "0-")
	}, to, "cluster", "migration", "status", "all")
}

// awaitSlots waits until every primary sees the slots where they should be. Where that takes
// too long, it shows how the node answers the question.
func (c *Cluster) awaitSlots(t testing.TB, done func(map[string]member) bool, node *ClusterNode, question ...any) {
	t.Helper()
	Await(t, pollInterval, "the slots change hands", func() error {
		for _, primary := range c.Primaries {
			members, err := primary.members()
			if err != nil {
				return err
			}
			if !done(members) {
				return fmt.Errorf("node %d sees %v; %v", primary.Port, members, node.Direct.Do(context.Background(), question...))
			}
		}
		return nil
	})
}

func (c *Cluster) do(t testing.TB, node *ClusterNode, command ...any) {
	t.Helper()
	// MIGRATE answers NOKEY, without error, when a key has expired meanwhile.
	require.NoError(t, node.Direct.Do(context.Background(), command...).Err(), "node %d: %v", node.Port, command)
}

// A member is a node of the cluster as one of them sees it.
type member struct {
	primary string // the ID of its primary, "-" for a primary
	linked  bool
	slots   []string // ranges such as 0-8191, or single slots
}

// members reads the node's list of the cluster, by ID. Nodes that are only
// shaking hands, under an ID that is still to change, are left out.
func (n *ClusterNode) members() (map[string]member, error) {
	list, err := n.Direct.ClusterNodes(context.Background()).Result()
	members := map[string]member{}
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); !strings.Contains(fields[2], "handshake") {
			members[fields[0]] = member{fields[3], fields[7] == "connected", fields[8:]}
		}
	}
	return members, err
}

func milliseconds(duration time.Duration) string {
	return strconv.FormatInt(duration.Milliseconds(), 10)
}
