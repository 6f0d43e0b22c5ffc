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
//
// If a quota's period has ended by the clock of the server, that clock tells which period runs, and Ask asks once more.
func (s *Server) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	reply, err := s.askEither(ctx, c, s.wall())
	if at, ended := endedAt(err); ended {
		reply, err = s.askAgain(ctx, c, at)
	}
	if s.cluster != nil && IsAnswered(err) {
		s.answered.Store(true)
	}
	reply.Sent = true // perhaps: send sends nothing if ctx is done, and does not say so
	return reply, classify(c, err)
}

// askAgain asks for the periods that run at an instant, unless a quota has none then.
func (s *Server) askAgain(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	source := backend.Module
	if s.asksScript() {
		source = backend.Script
	}
	reply, ended := c.Ended(source, at)
	if ended {
		return reply, nil
	}
	return s.askEither(ctx, c, at)
}

// Reset deletes a key.
func (s *Server) Reset(ctx context.Context, key string) error {
	err := s.send(ctx, redis.NewCmd(ctx, "del", key))
	return classify(&backend.Call{Rows: []backend.Row{{Key: key}}}, err)
}

// askEither asks by the module's command, and if the server does not know or denies it, by the script. If both
// are denied, the error is about the module's command. At tells the periods of quotas.
func (s *Server) askEither(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	if s.asksScript() {
		return s.askScript(ctx, c, at)
	}
	reply, err := s.askModule(ctx, c, at)
	if s.only == backend.Module || !isMissing(err) && !isCommandDenied(err) {
		return reply, err
	}
	byScript, scriptErr := s.askScript(ctx, c, at)
	if isCommandDenied(err) && isCommandDenied(scriptErr) {
		return reply, err
	}
	s.moduleFrom.Store(int64(s.now() + moduleRetryAfter))
	return byScript, scriptErr
}

// asksScript reports whether the module's commands are not sent.
func (s *Server) asksScript() bool {
	return s.only == backend.Script || s.only == "" && s.now() < time.Duration(s.moduleFrom.Load())
}
