package limiter

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A Client sends the commands of a [Limiter]. All clients of go-redis do: of one server, of servers behind Sentinel, of
// a cluster, of a ring, and clients that pipeline (AutoPipeline).
type Client interface {
	Process(ctx context.Context, command redis.Cmder) error
}
