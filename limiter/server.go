package limiter

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/call"
)

// A Client is what a [Limiter] needs of go-redis: a client of one server, of servers behind
// Sentinel, of a cluster, a ring, or one of those that pipelines (AutoPipeline).
type Client interface {
	Process(ctx context.Context, command redis.Cmder) error
}

// moduleRetryAfter is how long the module's commands are not sent after the server did not know
// or denied one.
const moduleRetryAfter = time.Minute

// A server asks Redis, by the module's commands, or by the script where these are missing or
// denied. Both keep the same value under the same key: nodes may differ.
type server struct {
	rdb      Client
	onlyPath Path // of WithPath, or empty

	now   func() time.Time
	start time.Time
	// moduleFrom is when the module's commands are sent again, as the time since start: a wall
	// clock that steps does not change it.
	moduleFrom atomic.Int64

	// lacksReadOnly says that the server lacks EVALSHA_RO, as Redis 6.2 does.
	lacksReadOnly atomic.Bool
}

// ask asks by the module's command, and where the server does not know or denies it, by the
// script. Where both are denied, the error is that of the module's command.
func (s *server) ask(ctx context.Context, q *query) (answer, error) {
	if q.deletes {
		return answer{}, s.send(ctx, q, redis.NewCmd(ctx, "del", q.funnels[0].redisKey))
	}
	if s.onlyPath == PathScript || s.onlyPath == "" && s.now().Sub(s.start) < time.Duration(s.moduleFrom.Load()) {
		return s.askScript(ctx, q)
	}
	a, err := s.askModule(ctx, q)
	if s.onlyPath == PathModule || !isMissing(err) && !isCommandDenied(err) {
		return a, err
	}
	byScript, scriptErr := s.askScript(ctx, q)
	if isCommandDenied(err) && isCommandDenied(scriptErr) {
		return a, err
	}
	s.moduleFrom.Store(int64(s.now().Add(moduleRetryAfter).Sub(s.start)))
	return byScript, scriptErr
}

// operationNames are for hooks and the script, and for the module. Strings that become any are
// allocated.
var operationNames = [...]struct{ name, command any }{
	call.Reserve: {"reserve", "cl.reserve"},
	call.Take:    {"take", "cl.take"},
	call.Peek:    {"peek", "cl.peek"},
	call.Charge:  {"charge", "cl.charge"},
	call.Refund:  {"refund", "cl.refund"},
}

func (s *server) askModule(ctx context.Context, q *query) (answer, error) {
	args := append(make([]any, 0, 2+5*len(q.funnels)), operationNames[q.operation].command)
	for i := range q.funnels {
		args = q.funnels[i].appendTo(append(args, q.funnels[i].redisKey))
	}
	command := redis.NewCmd(ctx, append(args, q.extra...)...)
	if err := s.send(ctx, q, command); err != nil {
		return answer{}, err
	}
	return q.read(command.Val(), PathModule)
}

// send sends a command, and waits for the reply also where the client, one that pipelines,
// returns at once. It sends nothing for a caller who has given up.
//
// A refund of tokens that is executed twice gives other callers' tokens back: go-redis must not
// repeat it after its answer was lost. Any other command that is executed twice limits too early,
// never too late.
func (s *server) send(ctx context.Context, q *query, command *redis.Cmd) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var sent redis.Cmder = command
	if q.operation == call.Refund && !q.endsSlot() {
		sent = once{command}
	}
	if err := s.rdb.Process(ctx, sent); err != nil {
		return err
	}
	return command.Err()
}

// once is a command that go-redis does not repeat, neither after a lost answer nor after a reply
// such as LOADING. go-redis follows MOVED and ASK, and asks another node after READONLY: none of
// these was executed. Hooks of go-redis see another type than *redis.Cmd.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// run runs a script by its hash, or by its text where the server lacks it. A peek goes by a
// command that only reads, for replicas.
func (s *server) run(ctx context.Context, q *query, script *script, args []any) (any, error) {
	reply, err := s.eval(ctx, q, "evalsha", script.hash, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.eval(ctx, q, "eval", script.text, args)
	}
	return reply, err
}

func (s *server) eval(ctx context.Context, q *query, name string, script any, args []any) (any, error) {
	readsOnly := q.operation == call.Peek && !s.lacksReadOnly.Load()
	if args[0], args[1] = name, script; readsOnly {
		args[0] = name + "_ro"
	}
	command := redis.NewCmd(ctx, args...)
	err := s.send(ctx, q, command)
	if readsOnly && isMissing(err) {
		s.lacksReadOnly.Store(true)
		return s.eval(ctx, q, name, script, args)
	}
	return command.Val(), err
}

// askScript asks by take.lua where it can decide the query, and otherwise by funnels.lua, the
// complete script.
func (s *server) askScript(ctx context.Context, q *query) (answer, error) {
	if q.fitsTakeScript() {
		reply, err := s.run(ctx, q, &takeScript, q.takeScriptArgs())
		if err != nil && err != redis.Nil {
			return answer{}, err
		}
		if a, decided, err := q.readTakeScript(reply); decided || err != nil {
			return a, err
		}
	}
	args := append(make([]any, 0, 5+5*len(q.funnels)), nil, nil, len(q.funnels))
	for i := range q.funnels {
		args = append(args, q.funnels[i].redisKey)
	}
	args = append(args, operationNames[q.operation].name)
	for i := range q.funnels {
		args = q.funnels[i].appendTo(args)
	}
	reply, err := s.run(ctx, q, &completeScript, append(args, q.extra...))
	if err != nil {
		return answer{}, err
	}
	return q.read(reply, PathScript)
}
