package limiter

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
)

// An answer is what was decided. The zero path means that nothing was decided.
type answer struct {
	query   *query
	path    Path
	limited bool // by any of the funnels
	acted   bool // tokens may have changed hands, whatever came back
	held    bool // the holder of a slot had it before

	// The decision on each row. Most queries have one, which needs no allocation.
	first  decision
	others []decision
}

// A decision is what was decided about one row.
type decision struct {
	call.Decision
	receipt int64 // 0 if nothing was taken that has a receipt
	taken   int64 // by Take
}

// on is the decision on one row.
func (a *answer) on(index int) *decision {
	if index == 0 {
		return &a.first
	}
	return &a.others[index-1]
}

// result is what the caller gets for one funnel.
func (a *answer) result(index int) Result {
	q, f := a.query, &a.query.funnels[index]
	result := Result{Key: f.Key, Limit: f.Limit, Quantity: f.Quantity}
	if a.path == "" {
		return result
	}
	decision := a.on(index)
	result.Path, result.RetryAfter, result.Receipt = a.path, NoRetry, decision.receipt
	result.Remaining, result.ResetAfter = int(decision.Remaining), time.Duration(decision.ResetAfter)
	switch {
	case q.operation == call.Take:
		result.Allowed = int(decision.taken)
	case q.operation == call.Reserve && !a.limited, q.accounts() && a.path != PathClosed:
		result.Allowed = f.Quantity
	}
	switch {
	case f.Quantity == 0 && !q.accounts(): // no funnel limits a call for nothing
	case q.operation == call.Take && result.Allowed > 0:
	case decision.Limited:
		result.RetryAfter = time.Duration(decision.Wait)
	default:
		result.Wait = time.Duration(decision.Wait)
	}
	return result
}

func (a *answer) results() Results {
	results := make(Results, len(a.query.funnels))
	for i := range results {
		results[i] = a.result(i)
	}
	return results
}

// newAnswer returns rows that were decided in this process as an answer without receipts.
func newAnswer(q *query, path Path, rows []call.Row) answer {
	a := answer{query: q, path: path, acted: true}
	if len(rows) > 1 {
		a.others = make([]decision, len(rows)-1)
	}
	a.held = rows[0].Kind == call.Slots && rows[0].Slots.State.Own > 0
	for i := range rows {
		decision := a.on(i)
		decision.Decision, decision.taken = rows[i].Decision, rows[i].Funnel.Taken
		a.limited = a.limited || decision.Limited
	}
	return a
}

// read reads a reply of the module or of the complete script: limited, wait, the rows, and for
// CL.TAKE how many tokens were taken. Later versions may add elements to replies and rows.
func (q *query) read(reply any, path Path) (answer, error) {
	a := answer{query: q, path: path}
	if len(q.funnels) > 1 {
		a.others = make([]decision, len(q.funnels)-1)
	}
	elements, _ := reply.([]any)
	ok := len(elements) >= 3 && a.readRows(elements[2])
	if ok && q.operation == call.Take {
		ok = len(elements) >= 4 && a.readTaken(elements[3])
	}
	if !ok {
		return answer{}, fmt.Errorf("%w %v, which is no reply of %v: does another module have this command?",
			errUnreadable, reply, operationNames[q.operation].command)
	}
	return a, nil
}

// readRows reads the rows of a reply: limited, limit, remaining, wait, reset_after and tat. In the
// place of tat, slots tell how long the holder's slot would have run on. Where a new holder has one,
// an earlier copy of the call was allowed, and its answer was lost: then no row limits the call.
func (a *answer) readRows(reply any) bool {
	rows, _ := reply.([]any)
	if len(rows) != 1+len(a.others) {
		return false
	}
	for i := range rows {
		row, _ := rows[i].([]any)
		if len(row) < 6 {
			return false
		}
		limited, ok1 := integerOf(row[0])
		limit, ok2 := integerOf(row[1])
		remaining, ok3 := integerOf(row[2])
		wait, ok4 := nanosecondsOf(row[3])
		reset, ok5 := nanosecondsOf(row[4])
		f, readLast := &a.query.funnels[i], integerOf
		if f.holder != "" {
			readLast = nanosecondsOf
		}
		receipt, ok6 := readLast(row[5])
		if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || remaining < 0 || reset < 0 || receipt < 0 {
			return false
		}
		if wait < 0 && (limited == 0 || f.Quantity <= f.Limit.Capacity) {
			return false // Result.Limited would not say that it is limited
		}
		switch {
		case f.holder != "":
			a.held, receipt = receipt > 0, 0
		case a.held && a.query.operation == call.Reserve:
			limited, wait = 0, 0
		}
		a.limited = a.limited || limited != 0
		*a.on(i) = decision{receipt: receipt, Decision: call.Decision{Limited: limited != 0, Limit: limit,
			Remaining: remaining, Wait: wait, ResetAfter: reset}}
	}
	return true
}

func (a *answer) readTaken(reply any) (ok bool) {
	a.first.taken, ok = integerOf(reply)
	return ok && a.first.taken >= 0 && a.first.taken <= int64(a.query.funnels[0].Quantity)
}

// integerOf reads an integer. The script replies large ones as text.
func integerOf(reply any) (int64, bool) {
	switch reply := reply.(type) {
	case int64:
		return reply, true
	case string:
		number, err := strconv.ParseInt(reply, 10, 64)
		return number, err == nil
	}
	return 0, false
}

// nanosecondsOf reads seconds with up to nine fraction digits, or -1, which it returns.
func nanosecondsOf(reply any) (int64, bool) {
	text, ok := reply.(string)
	if !ok || text == "-1" {
		return gcra.Never, ok
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if whole == "" || len(fraction) > 9 {
		return 0, false
	}
	nanoseconds, err := strconv.ParseUint(whole+fraction+"000000000"[len(fraction):], 10, 63)
	return int64(nanoseconds), err == nil
}
