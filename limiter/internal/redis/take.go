package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// take.lua computes in doubles, and writes no more than 14 digits of a number.
const (
	maxSpan = 4_500_000_000_000_000 // nanoseconds; all spans are shorter
	maxTake = 1_000_000_000         // tokens of one Take
)

//go:embed take.lua
var takeText string

var takeScript = newScript(takeText)

// askTake sends take.lua, which also decides Reserve and Peek. Decided is false if the complete script has to decide.
func (s *Server) askTake(ctx context.Context, c *backend.Call) (decision backend.Reply, decided bool, err error) {
	if !fitsTakeScript(c) {
		return backend.Reply{}, false, nil
	}
	reply, err := s.run(ctx, c, &takeScript, takeScriptArgs(c))
	if err != nil && err != redis.Nil {
		return backend.Reply{}, false, err
	}
	return readTakeScript(c, reply)
}

// fitsTakeScript reports whether take.lua can decide the call: Reserve, Take or Peek of one funnel.
func fitsTakeScript(c *backend.Call) bool {
	row := &c.Rows[0]
	isTooMuch := c.Operation == call.Take && row.Quantity > maxTake
	isOneFunnel := len(c.Rows) == 1 && row.Kind == call.Funnel
	return isOneFunnel && !c.Accounts() && !isTooMuch && row.Words.Rate.Tolerance() < maxSpan
}

// takeScriptArgs returns the arguments of EVAL with take.lua; run fills in the first two. Ceiling is the highest level
// that the call may reach. With -1, the script only tells the level.
func takeScriptArgs(c *backend.Call) []any {
	row := &c.Rows[0]
	ceiling, increment := row.Words.Rate.Tolerance(), row.Tokens.Increment()
	args := append(make([]any, 0, 7), nil, nil, 1, row.Key)
	switch {
	case row.Quantity == 0, c.Operation == call.Peek, c.Operation == call.Reserve && increment > ceiling:
		ceiling = -1
	case c.Operation == call.Take:
		return append(args, row.Words.Tolerance, row.Words.Interval, row.Quantity)
	case c.MaxWait > 0:
		ceiling += min(int64(c.MaxWait), maxSpan-1-ceiling)
	case row.Quantity == 1:
		return append(args, row.Words.Tolerance, row.Words.Interval)
	}
	return append(args, ceiling, increment)
}

// readTakeScript reads a reply of take.lua. Package gcra decides from the level that the reply tells, at the instant 0.
// Decided is false if the complete script has to decide, because the reply is nil, or because take.lua took nothing and
// package gcra would take tokens: takeScriptArgs has cut the max wait.
func readTakeScript(c *backend.Call, reply any) (decision backend.Reply, decided bool, err error) {
	if reply == nil {
		return backend.Reply{}, false, nil
	}
	rows := c.Undecided(0, 0)
	funnel := &rows[0].Funnel
	receipt, times, ok := parseTakeReply(&c.Rows[0], reply, &funnel.TAT)
	if ok {
		_, err := c.Operation.Apply(rows, 0, int64(c.MaxWait), c.Receipt)
		ok = err == nil && funnel.TAT >= 0
	}
	took, shouldTake := receipt != 0, funnel.Changes()
	if !ok || took && (!shouldTake || c.Operation == call.Take && funnel.Taken != times) {
		return backend.Reply{}, false, fmt.Errorf("%w to take.lua: %v", errUnreadable, reply)
	}
	decision = backend.NewReply(backend.Script, rows)
	decision.First.Receipt = receipt
	return decision, took == shouldTake, nil
}

// parseTakeReply reads the level before the call. If the script took nothing, the reply is the level. Otherwise the
// reply is the new TAT, of 19 digits; the server's clock, 10 digits of seconds and then microseconds; and for Take,
// after a space, the number of tokens that it took.
func parseTakeReply(row *backend.Row, reply any, level *int64) (receipt, times int64, ok bool) {
	text, took := reply.(string)
	if !took {
		*level, ok = reply.(int64)
		return 0, 0, ok
	}
	if len(text) < len("1700000000000000000"+"1700000000"+"0") {
		return 0, 0, false
	}
	microseconds, number, isTake := strings.Cut(text[29:], " ")
	increment := row.Tokens.Increment()
	if isTake {
		increment = row.Words.Rate.EmissionInterval()
	} else {
		number = "1"
	}
	receipt, err1 := strconv.ParseInt(text[:19], 10, 64)
	seconds, err2 := strconv.ParseInt(text[19:29], 10, 64)
	rest, err3 := strconv.ParseInt(microseconds, 10, 64)
	times, err4 := strconv.ParseInt(number, 10, 64)
	*level = receipt - seconds*1e9 - rest*1e3 - increment*times
	return receipt, times, err1 == nil && err2 == nil && err3 == nil && err4 == nil
}
