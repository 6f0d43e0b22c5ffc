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

// IsCluster reports whether the client is one of a cluster.
func (s *Server) IsCluster() bool { return s.cluster != nil }

// Node returns the address of the node that has a key, or "" if there is no cluster or the client does not know the
// node. It sends nothing.
func (s *Server) Node(key string) string {
	if s.cluster == nil || !s.answered.Load() {
		return ""
	}
	node, err := s.cluster.MasterForKey(context.Background(), key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
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
