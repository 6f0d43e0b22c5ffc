package redis

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// moduleRetryAfter is how long a command of the module is not sent after the server did not know it
// or denied it. Modules are loaded and granted by hand, so a minute later is soon enough; and one
// more round trip a minute costs nothing.
const moduleRetryAfter = time.Minute

// Ask asks the server to decide a call. The error is an error of package backend if an answer came,
// and any other error if no answer came.
//
// If the period of a quota has ended by the clock of the server, Ask asks once more for the period
// that runs by that clock.
func (s *Server) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	shard := s.shardOf(&c.Rows[0])
	ctx = toShard(ctx, &c.Rows[0])
	reply, err := s.byEither(ctx, c, s.wall())
	at, ended := endedAt(err)
	if ended {
		reply, err = s.askForPeriodAt(ctx, c, at)
	}
	if s.cluster != nil && IsAnswered(err) {
		s.answered.Store(true)
	}
	if errors.Is(err, backend.ErrNotSent) {
		return backend.Reply{}, err
	}
	if shard != nil && err == nil {
		s.noteShard(c, &reply, shard)
	}
	reply.Sent = true
	return reply, classify(c, err)
}

// askForPeriodAt asks for the periods that run at an instant. If a quota has no period then, it
// does not ask.
func (s *Server) askForPeriodAt(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	source := backend.Module
	if s.usesScript(c) {
		source = backend.Script
	}
	reply, ended := c.Ended(source, at)
	if ended {
		return reply, nil
	}
	return s.byEither(ctx, c, at)
}

// Reset deletes a key.
func (s *Server) Reset(ctx context.Context, key string) error {
	_, err := s.send(ctx, key, []any{"del", key}, true)
	return classify(&backend.Call{Rows: []backend.AskedRow{{Key: key}}}, err)
}

// byEither sends the module's command, and if the server does not know or denies it, the script.
// If both are denied, the error is about the module's command. Quotas get the periods that run at
// the instant at.
func (s *Server) byEither(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	if s.usesScript(c) {
		return s.byScript(ctx, c, at)
	}
	reply, err := s.byModule(ctx, c, at)
	if s.only == backend.Module || !isMissing(err) && !isCommandDenied(err) {
		return reply, err
	}
	scripted, scriptErr := s.byScript(ctx, c, at)
	if isCommandDenied(err) && isCommandDenied(scriptErr) {
		return reply, err
	}
	s.moduleFrom[c.Operation].Store(int64(s.now() + moduleRetryAfter))
	return scripted, scriptErr
}

// usesScript reports whether the call goes to the script.
func (s *Server) usesScript(c *backend.Call) bool {
	return s.only == backend.Script || s.only == "" && s.now() < time.Duration(s.moduleFrom[c.Operation].Load())
}

// byModule sends the module's command: its name, the rows, and then max_wait or tat.
func (s *Server) byModule(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	args := append(make([]any, 0, 2+5*len(c.Rows)), commandNames[c.Operation])
	for i := range c.Rows {
		args = appendWords(append(args, c.Rows[i].Key), &c.Rows[i], at)
	}
	reply, err := s.send(ctx, c.Rows[0].Key, appendLast(args, c), c.IsRepeatable())
	if err != nil {
		return backend.Reply{}, err
	}
	return read(c, reply, backend.Module)
}

//go:embed funnels.lua
var completeText string

var completeScript = newScript(completeText)

// Script returns the text of the complete script, which decides every call.
func Script() string { return completeText }

// byScript sends take.lua if that can decide the call, and otherwise the complete script.
func (s *Server) byScript(ctx context.Context, c *backend.Call, at time.Time) (backend.Reply, error) {
	short, err := s.byTakeScript(ctx, c)
	if err != errNotForTake && err != errCutShort {
		return short, err
	}
	args := append(make([]any, 0, 5+5*len(c.Rows)), nil, nil, len(c.Rows))
	for i := range c.Rows {
		args = append(args, c.Rows[i].Key)
	}
	args = append(args, operationNames[c.Operation])
	for i := range c.Rows {
		args = appendWords(args, &c.Rows[i], at)
	}
	reply, err := s.run(ctx, c, &completeScript, appendLast(args, c))
	if err != nil {
		return backend.Reply{}, err
	}
	return read(c, reply, backend.Script)
}

// commandNames are the commands of the module, as any: to convert a string for each call would
// allocate memory.
var commandNames = [...]any{
	call.Reserve: "cl.reserve",
	call.Take:    "cl.take",
	call.Peek:    "cl.peek",
	call.Charge:  "cl.charge",
	call.Refund:  "cl.refund",
}

// operationNames are the operations as the complete script takes them.
var operationNames = [...]any{
	call.Reserve: "reserve",
	call.Take:    "take",
	call.Peek:    "peek",
	call.Charge:  "charge",
	call.Refund:  "refund",
}

// NameOf returns the name of an operation in the complete script.
func NameOf(operation call.Operation) string { return operationNames[operation].(string) }

// appendWords appends the words of a row that follow its key. A quota gets the period that runs at
// the instant at, or the length of a window.
func appendWords(args []any, row *backend.AskedRow, at time.Time) []any {
	switch row.Kind {
	case call.Slots:
		return append(args, row.Words.Limit, row.Words.Count, row.Words.Period, row.Holder)
	case call.Quota:
		return append(args, row.Quota.Limit, "UNTIL", until(&row.Quota, at), row.Quantity)
	}
	return append(args, row.Words.Limit, row.Words.Count, row.Words.Period, row.Quantity)
}

// until returns the word for the period of a quota that runs at the instant at.
func until(quota *backend.QuotaLimit, at time.Time) string {
	lasts := quota.Calendar.Lasts()
	if lasts > 0 {
		return "+" + backend.Seconds(lasts)
	}
	return backend.Seconds(time.Duration(quota.EndAt(at)))
}

// appendLast appends the word after the rows, if there is one.
func appendLast(args []any, c *backend.Call) []any {
	switch {
	case c.MaxWait > 0:
		return append(args, backend.Seconds(c.MaxWait))
	case c.Operation == call.Refund && c.Receipt != gcra.NoReceipt:
		return append(args, c.Receipt)
	}
	return args
}
