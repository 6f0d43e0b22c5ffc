package limiter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
)

// read takes the decisions from a reply. It returns true if the call has to be sent again,
// because a script or a command has not decided it.
func (c *call) read(w way, reply any) (again bool, err error) {
	elements, _ := reply.([]any)
	ok := false
	switch {
	case w == byScript && !c.complete:
		if again, ok = c.readTake(reply); again {
			c.complete, c.withText = true, false
		}
	case w == byThrottle && len(elements) == 5:
		if ok = c.readIntegers(elements); ok && c.operation == gcra.Take {
			again = c.takeFewer()
		}
	case w != byThrottle && len(elements) == 3 && c.operation != gcra.Take:
		ok = c.readRows(elements[2])
	case w != byThrottle && len(elements) == 4 && c.operation == gcra.Take:
		c.parts[0].Taken, ok = integerOf(elements[3])
		ok = ok && c.readRows(elements[2])
	}
	if !ok {
		return false, fmt.Errorf("limiter: the server replied %v, which is no reply of %v: is the command that of another module?", reply, names[c.operation].module)
	}
	return again, nil
}

// readTake reads a reply of take.lua: how long the funnel takes to drain, or the receipt for
// what was taken, the clock of the server, and how often the increment was taken. Package
// gcra makes the decision of it, at the instant 0. If it decides otherwise, the script could
// not reckon with a wait of that length.
func (c *call) readTake(reply any) (again, ok bool) {
	part := &c.parts[0]
	text, took := reply.(string)
	receipt, times := int64(0), int64(1)
	if took {
		if len(text) < len("1700000000000000000"+"1700000000"+"0") {
			return false, false
		}
		microseconds, number, isTake := strings.Cut(text[29:], " ")
		tat, err1 := strconv.ParseInt(text[:19], 10, 64)
		seconds, err2 := strconv.ParseInt(text[19:29], 10, 64)
		rest, err3 := strconv.ParseInt(microseconds, 10, 64)
		increment := part.Request.Increment()
		if isTake {
			increment = c.funnels[0].shape.rate.EmissionInterval()
			var err error
			if times, err = strconv.ParseInt(number, 10, 64); err != nil {
				return false, false
			}
		}
		if err1 != nil || err2 != nil || err3 != nil {
			return false, false
		}
		receipt, part.TAT = tat, tat-seconds*1e9-rest*1e3-increment*times
	} else if part.TAT, ok = reply.(int64); !ok {
		return false, false
	}
	if _, err := c.operation.Decide(c.parts, 0, c.lastWord, c.lastWord); err != nil || part.TAT < 0 {
		return false, false
	}
	decidesSo := part.Decision.TAT != part.TAT
	part.Decision.TAT = receipt
	if took {
		return false, decidesSo && (c.operation != gcra.Take || part.Taken == times)
	}
	return decidesSo, true
}

// takeFewer makes of a reply of CL.THROTTLE one of CL.TAKE, or has fewer tokens asked for: as
// many as remain. Others may take these, and more may leak, before that.
func (c *call) takeFewer() (again bool) {
	part, attempt := &c.parts[0], c.attempt()
	if part.Taken = 0; !part.Decision.Limited {
		part.Taken = int64(attempt)
		return false
	}
	if again = attempt > 1; again {
		c.fewer, c.attempts = max(1, min(int(part.Decision.Remaining), attempt-1)), 0
	}
	return again
}

// readRows reads limited, limit, remaining, wait, reset_after and the receipt of each funnel.
// A module built before there was CL.TAKE gives no receipts.
func (c *call) readRows(reply any) bool {
	rows, _ := reply.([]any)
	if len(rows) != len(c.parts) {
		return false
	}
	for i := range rows {
		row, _ := rows[i].([]any)
		if len(row) < 5 {
			return false
		}
		limited, ok1 := integerOf(row[0])
		limit, ok2 := integerOf(row[1])
		remaining, ok3 := integerOf(row[2])
		wait, ok4 := nanosecondsOf(row[3])
		reset, ok5 := nanosecondsOf(row[4])
		receipt, ok6 := int64(0), true
		if len(row) > 5 {
			receipt, ok6 = integerOf(row[5])
		}
		if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) {
			return false
		}
		c.parts[i].Decision = gcra.Decision{Limited: limited != 0, Limit: limit, Remaining: remaining, Wait: wait, ResetAfter: reset, TAT: receipt}
	}
	return true
}

// readIntegers reads the five integers of CL.THROTTLE: limited, limit, remaining,
// retry_after and reset_after.
func (c *call) readIntegers(elements []any) bool {
	var numbers [5]int64
	for i := range numbers {
		isNumber := false
		if numbers[i], isNumber = integerOf(elements[i]); !isNumber {
			return false
		}
	}
	f := &c.funnels[0]
	decision := gcra.Decision{Limited: numbers[0] != 0, Limit: numbers[1], Remaining: numbers[2], ResetAfter: nanosecondsOfSeconds(numbers[4])}
	if decision.Limited {
		decision.Wait = gcra.Never
		if numbers[3] >= 0 {
			decision.Wait = nanosecondsOfSeconds(numbers[3])
			// Quantity-remaining tokens have to leak, which takes no longer than so many
			// emission intervals. The reply has been rounded up.
			if leak, err := f.shape.rate.Increment(int64(c.attempt()) - decision.Remaining); err == nil && leak > 0 {
				decision.Wait = min(decision.Wait, leak)
			}
		}
	}
	c.parts[0].Decision = decision
	return true
}

// isAsMeant says that the server has read the capacities as they were meant.
func (c *call) isAsMeant() bool {
	for i := range c.funnels {
		if c.parts[i].Decision.Limit != int64(c.funnels[i].limit.Capacity) {
			return false
		}
	}
	return true
}

// correct makes the decisions on a call that has changed its funnels those of the
// capacities that were meant.
func (c *call) correct(w way) {
	for i := range c.parts {
		decision, rate := &c.parts[i].Decision, &c.funnels[i].shape.rate
		if w == byThrottle { // whose times are rounded
			decision.Remaining = max(0, decision.Remaining+rate.Capacity()-decision.Limit)
			continue
		}
		decision.Remaining = max(0, rate.Tolerance()-decision.ResetAfter) / rate.EmissionInterval()
		decision.Wait = max(0, decision.ResetAfter-rate.Tolerance())
		decision.Limited = c.accounts() && decision.Wait > 0
	}
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
	seconds, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || seconds > mostSeconds {
		return 0, false
	}
	if fraction == "" {
		return int64(seconds) * 1e9, true
	}
	nanoseconds, err := strconv.ParseUint(fraction, 10, 63)
	for range 9 - len(fraction) {
		nanoseconds *= 10
	}
	return int64(seconds)*1e9 + int64(nanoseconds), err == nil && len(fraction) <= 9
}

// mostSeconds are the whole ones of 2^63-1 nanoseconds.
const mostSeconds = 9223372036

func nanosecondsOfSeconds(seconds int64) int64 { return min(max(seconds, 0), mostSeconds) * 1e9 }

// isFault reports whether the call itself is wrong, and any server would reply an error: the
// code of an error reply is its first word.
func isFault(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) || redis.IsMaxClientsError(err) || isMissing(err) {
		return false
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	return code == "ERR" || code == "WRONGTYPE"
}

// isMissing says that the server does not know the command. That it says in words only,
// which are the same in all servers.
func isMissing(err error) bool { return err != nil && redis.HasErrorPrefix(err, "unknown command") }

// isReply reports whether an error is a reply of the server.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
