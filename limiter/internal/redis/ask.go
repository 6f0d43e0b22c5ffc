package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter/internal/backend"
)

// moduleRetryAfter is how long the module's commands are not sent after the server did not know
// or denied one.
const moduleRetryAfter = time.Minute

// Ask asks for the decision on a call. An error without a class of package backend says that no answer came.
func (s *Server) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	reply, err := s.askEither(ctx, c)
	reply.Sent = true // perhaps: send sends nothing if ctx is done, and does not say so
	return reply, classify(c, err)
}

// Reset deletes a key.
func (s *Server) Reset(ctx context.Context, key string) error {
	err := s.send(ctx, redis.NewCmd(ctx, "del", key))
	return classify(&backend.Call{Rows: []backend.Row{{Key: key}}}, err)
}

// askEither asks by the module's command, and if the server does not know or denies it, by the script. If both
// are denied, the error is about the module's command.
func (s *Server) askEither(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	if s.only == backend.Script || s.only == "" && s.now() < time.Duration(s.moduleFrom.Load()) {
		return s.askScript(ctx, c)
	}
	reply, err := s.askModule(ctx, c)
	if s.only == backend.Module || !isMissing(err) && !isCommandDenied(err) {
		return reply, err
	}
	byScript, scriptErr := s.askScript(ctx, c)
	if isCommandDenied(err) && isCommandDenied(scriptErr) {
		return reply, err
	}
	s.moduleFrom.Store(int64(s.now() + moduleRetryAfter))
	return byScript, scriptErr
}
