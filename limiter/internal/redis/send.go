package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// send sends a command, and waits for the reply even if the client pipelines and returns at once. It sends nothing if
// ctx is done.
func (s *Server) send(ctx context.Context, command redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	client := s.client
	if s.ring != nil {
		shard, is := ctx.Value(shardKey{}).(*redis.Client)
		if is {
			client = shard
		}
	}
	err := client.Process(ctx, command)
	if err == nil {
		err = command.Err()
	}
	if !IsAnswered(err) {
		s.reload(ctx)
	}
	return err
}

// sendable returns the command of a call in the form in which it is sent.
func sendable(c *backend.Call, command *redis.Cmd) redis.Cmder {
	if c.IsRepeatable() {
		return command
	}
	return unrepeated{command}
}

// unrepeated is a command that go-redis does not repeat, neither after a lost answer nor after a reply such as LOADING.
// Go-redis still follows MOVED and ASK, and asks another node after READONLY: a node that replies so has not executed
// the command. Hooks of go-redis get this type instead of *redis.Cmd.
type unrepeated struct{ *redis.Cmd }

// NoRetry tells go-redis not to repeat the command.
func (unrepeated) NoRetry() bool { return true }

// run runs a script by its hash, or by its text if the server lacks it. It fills in the first two arguments.
func (s *Server) run(ctx context.Context, c *backend.Call, script *script, args []any) (any, error) {
	reply, err := s.eval(ctx, c, "evalsha", script.hash, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.eval(ctx, c, "eval", script.text, args)
	}
	return reply, err
}

// eval sends EVALSHA or EVAL. For a peek it sends EVALSHA_RO or EVAL_RO, which replicas execute, too.
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
