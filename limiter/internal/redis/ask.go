package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter/internal/backend"
)

// moduleRetryAfter is for how long a command of the module is not sent if the server did not know it or denied it.
const moduleRetryAfter = time.Minute

// Ask asks the server to decide a call. The error is an error of package backend if an answer came, and any other error
// if no answer came.
//
// If the period of a quota has ended by the clock of the server, Ask asks once more for the period that runs by that
// clock.
func (s *Server) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	shard := s.shardOf(&c.Rows[0])
	ctx = toShard(ctx, &c.Rows[0])
	reply, err := s.askEither(ctx, c, s.wall())
	if at, ended := endedAt(err); ended {
		reply, err = s.askAgain(ctx, c, at)
	}
	if s.cluster != nil && IsAnswered(err) {
		s.answered.Store(true)
	}
	local := s.notSent(c.Rows[0].Key, err)
	if local != nil {
		return backend.Reply{}, local
	}
	if shard != nil && err == nil {
		s.noteShard(c, &reply, shard)
	}
	reply.Sent = true
	return reply, classify(c, err)
}

// askAgain asks for the periods that run at an instant. If a quota has no period then, it does not ask.
func (s *Server) askAgain(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	source := backend.Module
	if s.asksScript(c) {
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
	local := s.notSent(key, err)
	if local != nil {
		return local
	}
	return classify(&backend.Call{Rows: []backend.Row{{Key: key}}}, err)
}

// askEither sends the module's command, and if the server does not know or denies it, the script. If both are denied,
// the error is about the module's command. Quotas get the periods that run at the instant at.
func (s *Server) askEither(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	if s.asksScript(c) {
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
	s.moduleFrom[c.Operation].Store(int64(s.now() + moduleRetryAfter))
	return byScript, scriptErr
}

// asksScript reports whether the call goes to the script.
func (s *Server) asksScript(c *backend.Call) bool {
	return s.only == backend.Script || s.only == "" && s.now() < time.Duration(s.moduleFrom[c.Operation].Load())
}
