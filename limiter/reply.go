package limiter

import (
	"fmt"
	"strconv"
	"strings"

	"funnel/gcra"
)

// read reads a reply of the module or of the complete script: limited, wait, the rows, and for
// CL.TAKE how many tokens were taken. Later versions may add elements to replies and rows.
func (q *query) read(reply any, path Path) (answer, error) {
	a := answer{query: q, path: path}
	if len(q.funnels) > 1 {
		a.others = make([]gcra.Item, len(q.funnels)-1)
	}
	elements, _ := reply.([]any)
	ok := len(elements) >= 3 && a.readRows(elements[2])
	if ok && q.operation == gcra.Take {
		ok = len(elements) >= 4 && a.readTaken(elements[3])
	}
	if !ok {
		return answer{}, q.wrap(fmt.Errorf("the server replied %v, which is no reply of %v: does another module have this command?",
			reply, operationNames[q.operation].command))
	}
	return a, nil
}

// readRows reads the rows of a reply: limited, limit, remaining, wait, reset_after and tat.
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
		receipt, ok6 := integerOf(row[5])
		if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || remaining < 0 || reset < 0 || receipt < 0 {
			return false
		}
		f := &a.query.funnels[i]
		if isNever := limited != 0 && f.Quantity > f.Limit.Capacity; wait < 0 && !isNever {
			return false // nor would Result.Limited say that it is limited
		}
		a.limited = a.limited || limited != 0
		a.item(i).Decision = gcra.Decision{Limited: limited != 0, Limit: limit, Remaining: remaining,
			Wait: wait, ResetAfter: reset, TAT: receipt}
	}
	return true
}

func (a *answer) readTaken(reply any) bool {
	taken, ok := integerOf(reply)
	a.first.Taken = taken
	return ok && taken >= 0 && taken <= int64(a.query.funnels[0].Quantity)
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

// maxSeconds are the whole ones of 2^63-1 nanoseconds.
const maxSeconds = 9223372036

// nanosecondsOf reads seconds with up to nine fraction digits, or -1, which it returns.
func nanosecondsOf(reply any) (int64, bool) {
	text, ok := reply.(string)
	if !ok || text == "-1" {
		return gcra.Never, ok
	}
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || seconds > maxSeconds || len(fraction) > 9 {
		return 0, false
	}
	if fraction == "" {
		return int64(seconds) * 1e9, true
	}
	nanoseconds, err := strconv.ParseUint(fraction, 10, 63)
	for range 9 - len(fraction) {
		nanoseconds *= 10
	}
	total := int64(seconds)*1e9 + int64(nanoseconds)
	return total, err == nil && total >= 0
}
