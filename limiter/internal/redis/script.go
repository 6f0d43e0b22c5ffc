package redis

import (
	"context"
	"time"

	"funnel/limiter/internal/backend"
)

// askScript sends take.lua if that can decide the call, and otherwise the complete script.
func (s *Server) askScript(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	if decision, decided, err := s.askTake(ctx, c); decided || err != nil {
		return decision, err
	}
	args := append(make([]any, 0, 5+5*len(c.Rows)), nil, nil, len(c.Rows))
	for i := range c.Rows {
		args = append(args, c.Rows[i].Key)
	}
	args = append(args, operationNames[c.Operation])
	for i := range c.Rows {
		args = appendWords(args, &c.Rows[i], at)
	}
	reply, err := s.run(ctx, c, &s.complete, appendLast(args, c))
	if err != nil {
		return backend.Reply{}, err
	}
	return read(c, reply, backend.Script)
}
