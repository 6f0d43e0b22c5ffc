package guard

import (
	"context"
	"sync"
	"time"

	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/undo"
)

// maxNodes bounds the memory if nodes come and go with new addresses: Redis Cluster is made for up
// to 1,000 nodes. Beyond it, all guards are forgotten, and with them what they know of their nodes.
const maxNodes = 1000

// PerNode has a [Guard] for each node, so a node that does not answer concerns only its own calls.
// Make one with [NewPerNode].
type PerNode struct {
	redis   Redis
	undo    *undo.Undo
	timeout time.Duration
	now     func() time.Duration
	first   *Guard // for the only node, and for keys whose node is not known

	mutex  sync.RWMutex
	guards map[string]*Guard // by the address of the node
}

// NewPerNode returns guards for the nodes of redis. The arguments are as in [New].
func NewPerNode(redis Redis, undo *undo.Undo, timeout time.Duration, now func() time.Duration) *PerNode {
	return &PerNode{redis: redis, undo: undo, timeout: timeout, now: now, first: New(redis, undo, timeout, now)}
}

// Ask asks the node of the first key to decide a call. See [Guard.Ask].
func (n *PerNode) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	return n.guardOf(c.Rows[0].Key).Ask(ctx, c)
}

// Reset deletes a key. See [Guard.Reset].
func (n *PerNode) Reset(ctx context.Context, key string) error { return n.guardOf(key).Reset(ctx, key) }

// guardOf returns the guard of the node that has a key.
func (n *PerNode) guardOf(key string) *Guard {
	node := n.redis.Node(key)
	if node == "" {
		return n.first
	}
	n.mutex.RLock()
	guard := n.guards[node]
	n.mutex.RUnlock()
	if guard != nil {
		return guard
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.guards == nil || len(n.guards) >= maxNodes {
		n.guards = map[string]*Guard{}
	}
	if n.guards[node] == nil {
		n.guards[node] = New(n.redis, n.undo, n.timeout, n.now)
	}
	return n.guards[node]
}
