package limiter

import (
	"fmt"
	"strconv"
	"strings"

	"funnel/gcra"
)

// take.lua computes in doubles, and writes no more than 14 digits of a number. maxSpan is what
// spans, in nanoseconds, stay below; maxTake bounds the quantity of AllowAtMost.
const (
	maxSpan = 4_500_000_000_000_000
	maxTake = 1_000_000_000
)

// fitsTakeScript reports whether take.lua can decide the query: it is for tokens of one funnel,
// or peeks at it.
func (q *query) fitsTakeScript() bool {
	switch {
	case len(q.funnels) > 1 || q.accounts() || q.operation == gcra.Take && q.funnels[0].Quantity > maxTake:
		return false
	}
	return q.funnels[0].args.rate.Tolerance() < maxSpan
}

// takeScriptArgs are the arguments of EVAL with take.lua; the first two are left to the caller.
// The funnel may be no fuller than ceiling after the call. One that has to be below empty takes
// nothing.
func (q *query) takeScriptArgs() []any {
	const nothing int64 = -1
	f := &q.funnels[0]
	ceiling, increment := f.args.rate.Tolerance(), f.checked.Increment()
	args := append(make([]any, 0, 7), nil, nil, 1, f.redisKey)
	switch {
	case f.Quantity == 0, q.operation == gcra.Peek, q.operation == gcra.Reserve && increment > ceiling:
		ceiling = nothing
	case q.operation == gcra.Take:
		return append(args, f.args.tolerance, f.args.interval, f.Quantity)
	case q.maxWait > 0:
		ceiling += min(int64(q.maxWait), maxSpan-1-ceiling)
	case f.Quantity == 1:
		return append(args, f.args.tolerance, f.args.interval)
	}
	return append(args, ceiling, increment)
}

// readTakeScript reads a reply of take.lua: the level of the funnel, where it took nothing, or
// what parseTaken reads. Package gcra decides from it, with the TAT relative to now. Decided is
// false where it decides otherwise: the script does not count with a max wait of that length.
func (q *query) readTakeScript(reply any) (a answer, decided bool, err error) {
	if reply == nil {
		return a, false, nil
	}
	items := q.items()
	item, receipt, times := &items[0], int64(0), int64(0)
	text, took := reply.(string)
	level, isLevel := reply.(int64)
	switch {
	case took:
		now, ok := int64(0), false
		if receipt, now, times, ok = parseTaken(text); !ok {
			return answer{}, false, fmt.Errorf("limiter: the script replied %q, which take.lua does not", text)
		}
		increment := item.Request.Increment()
		if q.operation == gcra.Take {
			increment = q.funnels[0].args.rate.EmissionInterval()
		}
		level = receipt - now - increment*times
	case !isLevel:
		return answer{}, false, fmt.Errorf("limiter: the script replied %v, which take.lua does not", reply)
	}
	item.TAT = level
	if _, err := q.operation.Decide(items, 0, int64(q.maxWait), q.receipt); err != nil || level < 0 {
		return answer{}, false, fmt.Errorf("limiter: the script replied %v, which take.lua does not", reply)
	}
	decidesToTake := item.Decision.TAT != level
	if took && (!decidesToTake || q.operation == gcra.Take && item.Taken != times) {
		return answer{}, false, fmt.Errorf("limiter: the script replied %q, and took other tokens than it was asked for", text)
	}
	item.Decision.TAT = receipt
	return q.decidedBy(PathScript, items), took == decidesToTake, nil
}

// parseTaken reads the new TAT, of 19 digits; the server's clock, of 10 digits for its seconds,
// then its microseconds; and how often the increment was taken, once if it is left out.
func parseTaken(text string) (tat, now, times int64, ok bool) {
	if len(text) < len("1700000000000000000"+"1700000000"+"0") {
		return 0, 0, 0, false
	}
	microseconds, number, isTake := strings.Cut(text[29:], " ")
	if !isTake {
		number = "1"
	}
	tat, err1 := strconv.ParseInt(text[:19], 10, 64)
	seconds, err2 := strconv.ParseInt(text[19:29], 10, 64)
	rest, err3 := strconv.ParseInt(microseconds, 10, 64)
	times, err4 := strconv.ParseInt(number, 10, 64)
	return tat, seconds*1e9 + rest*1e3, times, err1 == nil && err2 == nil && err3 == nil && err4 == nil
}
