package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// commandNames are the commands of the module. Strings that become any are allocated.
var commandNames = [...]any{
	call.Reserve: "cl.reserve",
	call.Take:    "cl.take",
	call.Peek:    "cl.peek",
	call.Charge:  "cl.charge",
	call.Refund:  "cl.refund",
}

// askModule asks by the module's command: the rows, and behind them max_wait or tat.
func (s *Server) askModule(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	args := append(make([]any, 0, 2+5*len(c.Rows)), commandNames[c.Operation])
	for i := range c.Rows {
		args = appendWords(append(args, c.Rows[i].Key), &c.Rows[i])
	}
	command := redis.NewCmd(ctx, appendLast(args, c)...)
	if err := s.send(ctx, sendable(c, command)); err != nil {
		return backend.Reply{}, err
	}
	return read(c, command.Val(), backend.Module)
}

// appendWords appends the words of a row behind its key.
func appendWords(args []any, row *backend.Row) []any {
	args = append(args, row.Words.Limit, row.Words.Count, row.Words.Period)
	if row.Kind == call.Slots {
		return append(args, row.Holder)
	}
	return append(args, row.Quantity)
}

// appendLast appends the word behind the rows, if there is one.
func appendLast(args []any, c *backend.Call) []any {
	switch {
	case c.MaxWait > 0:
		return append(args, backend.Seconds(c.MaxWait))
	case c.Operation == call.Refund && c.Receipt != gcra.NoReceipt:
		return append(args, c.Receipt)
	}
	return args
}
