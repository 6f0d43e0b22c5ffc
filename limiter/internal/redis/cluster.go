package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter/internal/backend"
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

// shardOf returns the shard of a ring to which a call goes, or nil if there is no ring.
func (s *Server) shardOf(row *backend.Row) *redis.Client {
	if s.ring == nil {
		return nil
	}
	shard, is := row.Shard.(*redis.Client)
	if is {
		return shard
	}
	return s.clientOf(row.Key)
}

// toShard returns a context that sends commands to the shard that a row names, if it names one: what that
// shard has counted must not be given back on another one.
func toShard(ctx context.Context, row *backend.Row) context.Context {
	if row.Shard == nil {
		return ctx
	}
	return context.WithValue(ctx, shardKey{}, row.Shard)
}

// shardKey is the key in a context of the shard to which commands go.
type shardKey struct{}

// noteShard notes in a reply which shard of a ring has decided. If the shards have changed meanwhile, that
// is not known: then the tokens cannot be given back, and stay taken.
func (s *Server) noteShard(c *backend.Call, reply *backend.Reply, before *redis.Client) {
	isSame := s.shardOf(&c.Rows[0]) == before
	for i := range c.Rows {
		row := reply.Row(i)
		if !isSame {
			row.Receipt = 0
			continue
		}
		row.Shard = before
	}
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
