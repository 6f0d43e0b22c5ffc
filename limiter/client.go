package limiter

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A Client is what a [Limiter] needs of go-redis: a client of one server, of servers behind
// Sentinel, of a cluster, a ring, or a client that pipelines (AutoPipeline).
type Client interface {
	Process(ctx context.Context, command redis.Cmder) error
}
