package redis

import (
	"context"
	"time"
)

// reload has the client of a cluster ask which node has which keys, because one has not answered and may have failed
// over. It does so at most twice a second, and no caller waits. Go-redis itself asks once a minute, and after a
// redirection.
func (s *Server) reload(ctx context.Context) {
	cluster, ok := s.client.(interface{ ReloadState(ctx context.Context) })
	from, now := s.reloadFrom.Load(), s.now()
	if ok && int64(now) >= from && s.reloadFrom.CompareAndSwap(from, int64(now+time.Second/2)) {
		go cluster.ReloadState(context.WithoutCancel(ctx))
	}
}
