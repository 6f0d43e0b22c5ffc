package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// A script as it is sent. Strings that become any would be allocated for each call.
type script struct{ text, hash any }

func newScript(text string) script { return script{text, redis.NewScript(text).Hash()} }

// operationNames are the operations as the complete script takes them.
var operationNames = [...]any{
	call.Reserve: "reserve",
	call.Take:    "take",
	call.Peek:    "peek",
	call.Charge:  "charge",
	call.Refund:  "refund",
}

// askScript asks by take.lua if it can decide the call, and otherwise by the complete script.
func (s *Server) askScript(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	if decision, decided, err := s.askTake(ctx, c); decided || err != nil {
		return decision, err
	}
	args := append(make([]any, 0, 5+5*len(c.Rows)), nil, nil, len(c.Rows))
	for i := range c.Rows {
		args = append(args, c.Rows[i].Key)
	}
	args = append(args, operationNames[c.Operation])
	for i := range c.Rows {
		args = appendWords(args, &c.Rows[i])
	}
	reply, err := s.run(ctx, c, &s.complete, appendLast(args, c))
	if err != nil {
		return backend.Reply{}, err
	}
	return read(c, reply, backend.Script)
}

// run runs a script by its hash, or by its text if the server lacks it. The first two arguments are left to it.
func (s *Server) run(ctx context.Context, c *backend.Call, script *script, args []any) (any, error) {
	reply, err := s.eval(ctx, c, "evalsha", script.hash, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.eval(ctx, c, "eval", script.text, args)
	}
	return reply, err
}

// eval sends EVALSHA or EVAL. A peek goes by the form of these that only reads, for replicas.
func (s *Server) eval(ctx context.Context, c *backend.Call, name string, script any, args []any) (any, error) {
	readsOnly := c.Operation == call.Peek && !s.lacksReadOnly.Load()
	args[0], args[1] = name, script
	if readsOnly {
		args[0] = name + "_ro"
	}
	command := redis.NewCmd(ctx, args...)
	err := s.send(ctx, sendable(c, command))
	if readsOnly && isMissing(err) {
		s.lacksReadOnly.Store(true)
		return s.eval(ctx, c, name, script, args)
	}
	return command.Val(), err
}
