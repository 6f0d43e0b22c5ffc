package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"funnel/internal/call"
	"funnel/internal/decision"
	"funnel/limiter/internal/backend"
)

// read reads a reply of the module or of the complete script: limited, wait, the rows, and for
// CL.TAKE the number of tokens that were taken. Later versions may add elements to replies and
// rows.
func read(c *backend.Call, reply any, source string) (backend.Reply, error) {
	elements, _ := reply.([]any)
	var result backend.Reply
	ok := len(elements) >= 3 && readRows(c, elements[2], source, &result)
	if ok && c.Operation == call.Take {
		ok = len(elements) >= 4 && readTaken(c, elements[3], &result.First)
	}
	if !ok {
		return backend.Reply{}, fmt.Errorf("%w to %v: %v: does another module have this command?",
			errUnreadable, commandNames[c.Operation], reply)
	}
	return result, nil
}

// readRows reads the rows of a reply.
func readRows(c *backend.Call, reply any, source string, result *backend.Reply) bool {
	elements, _ := reply.([]any)
	if len(elements) != len(c.Rows) {
		return false
	}
	result.Grow(len(elements))
	isCopy := false
	for i := range elements {
		row := result.Row(i)
		row.Source = source
		words, _ := elements[i].([]any)
		if len(words) < 6 || !readState(words, row) {
			return false
		}
		ok := false
		switch c.Rows[i].Kind {
		case call.Slots:
			ok = readHeld(words[5], row)
		case call.Quota:
			ok = readUntil(&c.Rows[i], words[5], row)
		default:
			ok = readReceipt(&c.Rows[i], words[5], row)
		}
		if !ok {
			return false
		}
		result.Limited = result.Limited || row.Limited
		isCopy = isCopy || row.Held && c.Operation == call.Reserve && !c.Renews
	}
	if isCopy {
		allow(c, result)
	}
	return true
}

// allow makes a call count as allowed. The holder of a new call has a slot already, so an earlier
// copy of the same command has been executed: go-redis has repeated it after a lost answer.
func allow(c *backend.Call, result *backend.Reply) {
	result.Limited = false
	for i := range c.Rows {
		row := result.Row(i)
		row.Limited, row.Wait = false, 0
	}
}

// readState reads the elements of rows of all kinds: limited, limit, remaining, wait and
// reset_after.
func readState(words []any, row *backend.RowReply) bool {
	limited, ok1 := integerOf(words[0])
	_, ok2 := integerOf(words[1])
	remaining, ok3 := integerOf(words[2])
	wait, ok4 := nanosecondsOf(words[3])
	reset, ok5 := nanosecondsOf(words[4])
	row.Limited, row.Remaining = limited != 0, remaining
	row.Wait, row.ResetAfter = time.Duration(wait), time.Duration(reset)
	return ok1 && ok2 && ok3 && ok4 && ok5 && remaining >= 0 && reset >= 0 && (wait >= 0 || limited != 0)
}

// readReceipt reads the last element of a funnel's row: tat, the receipt.
func readReceipt(asked *backend.AskedRow, word any, row *backend.RowReply) bool {
	receipt, ok := integerOf(word)
	row.Receipt = receipt
	return ok && receipt >= 0 && (row.Wait >= 0 || asked.NeverFits())
}

// readUntil reads the last element of a quota's row: the end of the period in which the call was
// counted.
func readUntil(asked *backend.AskedRow, word any, row *backend.RowReply) bool {
	until, ok := nanosecondsOf(word)
	row.Receipt = until
	return ok && until >= 0 && (row.Wait >= 0 || asked.NeverFits())
}

// readHeld reads the last element of a row of slots: how long the holder's previous slot had left.
func readHeld(word any, row *backend.RowReply) bool {
	held, ok := nanosecondsOf(word)
	row.Held = held > 0
	return ok && held >= 0
}

// readTaken reads how many tokens CL.TAKE took.
func readTaken(c *backend.Call, reply any, row *backend.RowReply) (ok bool) {
	row.Taken, ok = integerOf(reply)
	return ok && row.Taken >= 0 && row.Taken <= int64(c.Rows[0].Quantity)
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
		return decision.Never, ok
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if whole == "" || len(fraction) > 9 {
		return 0, false
	}
	nanoseconds, err := strconv.ParseUint(whole+fraction+"000000000"[len(fraction):], 10, 63)
	return int64(nanoseconds), err == nil
}
