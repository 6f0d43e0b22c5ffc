package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// A cluster is a client that knows which node has which keys, as *redis.ClusterClient does.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
}

// A ring is a client that knows which shard has which keys, as *redis.Ring does.
type ring interface {
	GetShardClientForKey(key string) (*redis.Client, error)
}

// IsSpread reports whether the keys of a call may be on several nodes.
func (s *Server) IsSpread() bool { return s.cluster != nil || s.ring != nil }

// Node returns the address of the node that has a key, or "" if there is only one, or the client does
// not know the node. It sends nothing.
func (s *Server) Node(key string) string {
	if !s.IsSpread() {
		return ""
	}
	node := s.clientOf(key)
	if node == nil {
		return ""
	}
	return node.Options().Addr
}

// clientOf returns the client of the server that has a key, or nil if it is not known. It sends nothing.
func (s *Server) clientOf(key string) *redis.Client {
	var node *redis.Client
	var err error
	switch {
	case s.ring != nil:
		node, err = s.ring.GetShardClientForKey(key)
	case s.cluster == nil:
		node, _ = s.client.(*redis.Client)
	case s.answered.Load(): // before that, go-redis would ask a node
		node, err = s.cluster.MasterForKey(context.Background(), key)
	}
	if err != nil {
		return nil
	}
	return node
}

// KeepsDeadlines reports whether the client returns when the deadline of a context has passed. Only
// clients of go-redis itself are known to do so, with ContextTimeoutEnabled: a wrapper may have their
// options and send commands in another way, and AutoPipeline keeps to no deadline while its server
// hangs.
func (s *Server) KeepsDeadlines() bool {
	// A negative time-out keeps go-redis from setting deadlines of connections.
	keeps := func(enabled bool, read, write time.Duration) bool { return enabled && read >= 0 && write >= 0 }
	switch client := s.client.(type) {
	case *redis.Client:
		o := client.Options()
		return keeps(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout)
	case *redis.ClusterClient:
		o := client.Options()
		return keeps(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout)
	case *redis.Ring:
		o := client.Options()
		return keeps(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout)
	}
	return false
}

// reload makes the client of a cluster ask which node has which keys, because a node that does not answer may have
// failed over. It does so at most twice a second, in the background. Go-redis itself asks once a minute, and after a
// redirection.
func (s *Server) reload(ctx context.Context) {
	from, now := s.reloadFrom.Load(), s.now()
	if s.cluster != nil && int64(now) >= from && s.reloadFrom.CompareAndSwap(from, int64(now+time.Second/2)) {
		go s.cluster.ReloadState(context.WithoutCancel(ctx))
	}
}
