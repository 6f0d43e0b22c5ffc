// Package redis is the backend that asks Redis or Valkey: by the commands of the module funnel, or by a script where
// the server lacks or denies them. Both keep the same value under the same key, so nodes may differ.
//
// Each call is one command: a command of the module (module.go), or EVALSHA of a script (script.go). Take.lua, a short
// script, takes tokens of one funnel (take.go), and leaves most of the reply to package gcra. All other calls go to the
// complete script.
package redis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// A Client sends commands, as the clients of go-redis do.
type Client interface {
	Process(ctx context.Context, command redis.Cmder) error
}

// moduleRetryAfter is how long the module's commands are not sent after the server did not know
// or denied one.
const moduleRetryAfter = time.Minute

// A Server is Redis. Make one with [New].
type Server struct {
	client   Client
	only     string // backend.Module or backend.Script, or empty for both
	complete script

	now           func() time.Duration // since the Limiter was made
	moduleFrom    atomic.Int64         // when the module's commands are sent again, by that clock
	lacksReadOnly atomic.Bool          // the server lacks EVALSHA_RO, as Redis 6.2 does
}

// New returns a backend that uses client. It asks by the module or the script only, if only is [backend.Module] or
// [backend.Script], and otherwise by both. Complete is the text of the complete script, and now a monotonic clock.
func New(client Client, only, complete string, now func() time.Duration) *Server {
	return &Server{client: client, only: only, complete: newScript(complete), now: now}
}

// Ask asks for the decision on a call. An error without a class of package backend says that no answer came.
func (s *Server) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	reply, err := s.askEither(ctx, c)
	reply.Sent = true
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

// send sends a command, and waits for the reply even if the client
// pipelines and returns at once. It sends nothing for a caller who has given up.
func (s *Server) send(ctx context.Context, command redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.client.Process(ctx, command); err != nil {
		return err
	}
	return command.Err()
}

// sendable returns the command for a call as it is sent. Go-redis must not repeat a refund of tokens after its
// answer was lost: executed twice, it gives other callers' tokens back. Any other command that is executed twice
// limits too early, never too late.
func sendable(c *backend.Call, command *redis.Cmd) redis.Cmder {
	if c.Operation == call.Refund && !c.EndsSlot() {
		return once{command}
	}
	return command
}

// once is a command that go-redis does not repeat, neither after a lost answer nor after a reply
// such as LOADING. Go-redis follows MOVED and ASK, and asks another node after READONLY: none of
// these was executed. Hooks of go-redis see another type than *redis.Cmd.
type once struct{ *redis.Cmd }

// NoRetry tells go-redis not to repeat the command.
func (once) NoRetry() bool { return true }
