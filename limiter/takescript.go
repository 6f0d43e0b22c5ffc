package limiter

import (
	"fmt"
	"strconv"
	"strings"

	"funnel/internal/call"
)

// take.lua computes in doubles, and writes no more than 14 digits of a number.
const (
	maxSpan = 4_500_000_000_000_000 // nanoseconds, which spans stay below
	maxTake = 1_000_000_000         // tokens of AllowAtMost
)

// fitsTakeScript reports whether take.lua can decide the query: it is for tokens of one funnel,
// or peeks at it.
func (q *query) fitsTakeScript() bool {
	f := &q.funnels[0]
	isTooMuch := q.operation == call.Take && f.Quantity > maxTake
	return len(q.funnels) == 1 && f.holder == "" && !q.accounts() && !isTooMuch && f.args.rate.Tolerance() < maxSpan
}

// takeScriptArgs are the arguments of EVAL with take.lua; the first two are left to the caller.
// Ceiling is the highest level after the call; -1 has the script only tell the level.
func (q *query) takeScriptArgs() []any {
	f := &q.funnels[0]
	ceiling, increment := f.args.rate.Tolerance(), f.row.Funnel.Request.Increment()
	args := append(make([]any, 0, 7), nil, nil, 1, f.redisKey)
	switch {
	case f.Quantity == 0, q.operation == call.Peek, q.operation == call.Reserve && increment > ceiling:
		ceiling = -1
	case q.operation == call.Take:
		return append(args, f.args.tolerance, f.args.interval, f.Quantity)
	case q.maxWait > 0:
		ceiling += min(int64(q.maxWait), maxSpan-1-ceiling)
	case f.Quantity == 1:
		return append(args, f.args.tolerance, f.args.interval)
	}
	return append(args, ceiling, increment)
}

// readTakeScript reads a reply of take.lua. Package gcra decides from the level that the reply
// tells, at the instant 0. Decided is false where the complete script has to decide: the reply is
// nil, or take.lua refused what package gcra takes, because it counts with a shorter max wait.
func (q *query) readTakeScript(reply any) (a answer, decided bool, err error) {
	if reply == nil {
		return a, false, nil
	}
	rows := q.rows()
	funnel := &rows[0].Funnel
	receipt, times, ok := q.parseTakeReply(reply, &funnel.TAT)
	if ok {
		_, err := q.operation.Apply(rows, 0, int64(q.maxWait), q.receipt)
		ok = err == nil && funnel.TAT >= 0
	}
	took, takes := receipt != 0, funnel.Changes()
	if !ok || took && (!takes || q.operation == call.Take && funnel.Taken != times) {
		return a, false, fmt.Errorf("%w %v, which does not answer take.lua", errUnreadable, reply)
	}
	a = newAnswer(q, PathScript, rows)
	a.first.receipt = receipt
	return a, took == takes, nil
}

// parseTakeReply reads the level before the call. If the script took nothing, that is the reply.
// Otherwise the reply is the new TAT, of 19 digits; the server's clock, 10 digits of seconds and
// then its microseconds; and behind a space, for AllowAtMost, how many tokens it took.
func (q *query) parseTakeReply(reply any, level *int64) (receipt, times int64, ok bool) {
	text, took := reply.(string)
	if !took {
		*level, ok = reply.(int64)
		return 0, 0, ok
	}
	if len(text) < len("1700000000000000000"+"1700000000"+"0") {
		return 0, 0, false
	}
	microseconds, number, isTake := strings.Cut(text[29:], " ")
	increment := q.funnels[0].row.Funnel.Request.Increment()
	if isTake {
		increment = q.funnels[0].args.rate.EmissionInterval()
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
