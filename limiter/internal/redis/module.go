package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter/internal/backend"
)

// askModule sends the module's command: its name, the rows, and then max_wait or tat.
func (s *Server) askModule(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	args := append(make([]any, 0, 2+5*len(c.Rows)), commandNames[c.Operation])
	for i := range c.Rows {
		args = appendWords(append(args, c.Rows[i].Key), &c.Rows[i], at)
	}
	command := redis.NewCmd(ctx, appendLast(args, c)...)
	if err := s.send(ctx, sendable(c, command)); err != nil {
		return backend.Reply{}, err
	}
	return read(c, command.Val(), backend.Module)
}
