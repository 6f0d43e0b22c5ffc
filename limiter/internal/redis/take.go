package redis

import (
	"fmt"
	"strconv"
	"strings"

	"funnel/gcra"
	"funnel/limiter/internal/backend"
)

// take.lua computes in doubles, and writes no more than 14 digits of a number.
const (
	maxSpan = 4_500_000_000_000_000 // nanoseconds, which spans stay below
	maxTake = 1_000_000_000         // tokens of Take
)

// fitsTakeScript reports whether take.lua can decide the call: it is for tokens of one funnel,
// or peeks at it.
func fitsTakeScript(c *backend.Call) bool {
	row := &c.Rows[0]
	isTooMuch := c.Operation == gcra.Take && row.Quantity > maxTake
	return len(c.Rows) == 1 && row.Holder == "" && !c.Accounts() && !isTooMuch && row.Words.Rate.Tolerance() < maxSpan
}

// takeScriptArgs are the arguments of EVAL with take.lua; the first two are left to the caller.
// Ceiling is the highest level after the call; -1 has the script only tell the level.
func takeScriptArgs(c *backend.Call) []any {
	row := &c.Rows[0]
	ceiling, increment := row.Words.Rate.Tolerance(), row.Request.Increment()
	args := append(make([]any, 0, 7), nil, nil, 1, row.Key)
	switch {
	case row.Quantity == 0, c.Operation == gcra.Peek, c.Operation == gcra.Reserve && increment > ceiling:
		ceiling = -1
	case c.Operation == gcra.Take:
		return append(args, row.Words.Tolerance, row.Words.Interval, row.Quantity)
	case c.MaxWait > 0:
		ceiling += min(int64(c.MaxWait), maxSpan-1-ceiling)
	case row.Quantity == 1:
		return append(args, row.Words.Tolerance, row.Words.Interval)
	}
	return append(args, ceiling, increment)
}

// readTakeScript reads a reply of take.lua. Package gcra decides from the level that the reply
// tells, at the instant 0. Decided is false if the complete script has to decide: the reply is
// nil, or take.lua refused what package gcra takes, because it counts with a shorter max wait.
func readTakeScript(c *backend.Call, reply any) (decision backend.Reply, decided bool, err error) {
	if reply == nil {
		return backend.Reply{}, false, nil
	}
	items := c.Items()
	item := &items[0]
	receipt, times, ok := parseTakeReply(&c.Rows[0], reply, &item.TAT)
	if ok {
		_, err := c.Operation.Decide(items, 0, int64(c.MaxWait), c.Receipt)
		ok = err == nil && item.TAT >= 0
	}
	took, takes := receipt != 0, item.Decision.TAT != item.TAT
	if !ok || took && (!takes || c.Operation == gcra.Take && item.Taken != times) {
		return backend.Reply{}, false, fmt.Errorf("%w to take.lua: %v", errUnreadable, reply)
	}
	decision = backend.NewReply(backend.Script, items)
	decision.First.Receipt = receipt
	return decision, took == takes, nil
}

// parseTakeReply reads the level before the call. If the script took nothing, that is the reply.
// Otherwise the reply is the new TAT, of 19 digits; the server's clock, 10 digits of seconds and
// then its microseconds; and behind a space, for Take, how many tokens it took.
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
	increment := row.Request.Increment()
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
