package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// take.lua computes in doubles, which are exact up to 2^53, and writes no more than 14 digits of a
// number.
const (
	// maxSpan bounds each span that Go sends, in nanoseconds: 52 days. The sum of two spans is then
	// below 2^53.
	maxSpan = 4_500_000_000_000_000

	// maxTake bounds the tokens of one Take, far below the 14 digits that can be written.
	maxTake = 1_000_000_000
)

// levelOnly is a ceiling below every level: take.lua takes nothing, and replies the level.
const levelOnly = int64(-1)

// Why the complete script has to decide a call.
var (
	// errNotForTake says that take.lua does not decide the call. The call has other rows or another
	// operation, or a number of the call or of the key is too large for a double.
	errNotForTake = errors.New("take.lua does not decide this call")

	// errCutShort says that take.lua has limited a call whose max wait was cut to maxSpan, and
	// which is allowed with the whole max wait.
	errCutShort = errors.New("take.lua has limited a call whose max wait was cut")
)

//go:embed take.lua
var takeText string

var takeScript = newScript(takeText)

// byTakeScript sends take.lua, which also decides Reserve and Peek. The errors errNotForTake and
// errCutShort say that nothing was taken, and that the complete script has to decide.
func (s *Server) byTakeScript(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	if !fitsTakeScript(c) {
		return backend.Reply{}, errNotForTake
	}
	reply, err := s.run(ctx, c, &takeScript, takeScriptArgs(c))
	if err != nil && err != redis.Nil {
		return backend.Reply{}, err
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

// takeScriptArgs returns the arguments of EVAL with take.lua; run fills in the first two. After the
// key come the ceiling, which is the highest level that the call may reach, the increment, and for
// Take the quantity.
func takeScriptArgs(c *backend.Call) []any {
	row := &c.Rows[0]
	args := append(make([]any, 0, 7), nil, nil, 1, row.Key)
	tolerance, increment := row.Words.Rate.Tolerance(), row.Tokens.Increment()
	switch {
	case takesNothing(c):
		return append(args, levelOnly, increment)
	case c.Operation == call.Take:
		return append(args, row.Words.Tolerance, row.Words.Interval, row.Quantity)
	case c.MaxWait > 0:
		return append(args, tolerance+min(int64(c.MaxWait), maxSpan-1-tolerance), increment)
	case row.Quantity == 1:
		return append(args, row.Words.Tolerance, row.Words.Interval)
	}
	return append(args, tolerance, increment)
}

// takesNothing reports whether the level alone decides the call of one funnel.
func takesNothing(c *backend.Call) bool {
	row := &c.Rows[0]
	neverFits := row.Tokens.Increment() > row.Words.Rate.Tolerance()
	return row.Quantity == 0 || c.Operation == call.Peek || c.Operation == call.Reserve && neverFits
}

// readTakeScript reads a reply of take.lua. Package gcra decides from the level that the reply
// tells, at the instant 0. The errors errNotForTake and errCutShort say that the complete script
// has to decide.
func readTakeScript(c *backend.Call, reply any) (backend.Reply, error) {
	if reply == nil {
		return backend.Reply{}, errNotForTake
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
		return backend.Reply{}, fmt.Errorf("%w to take.lua: %v", errUnreadable, reply)
	}
	if shouldTake && !took {
		return backend.Reply{}, errCutShort
	}
	decided := backend.NewReply(backend.Script, rows)
	decided.First.Receipt = receipt
	return decided, nil
}

// parseTakeReply reads the level before the call. If the script took nothing, the reply is the
// level. Otherwise the reply is the new TAT, of 19 digits; the server's clock, 10 digits of seconds
// and then microseconds; and for Take, after a space, the number of tokens that it took.
func parseTakeReply(row *backend.AskedRow, reply any, level *int64) (receipt, times int64, ok bool) {
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
