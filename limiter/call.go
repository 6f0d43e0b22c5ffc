package limiter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
)

// names are those of the operations, as the script takes them, and as commands of the module.
// Strings that become any would be allocated for each call.
var names = [...]struct{ script, module any }{
	gcra.Reserve: {"reserve", "cl.reserve"},
	gcra.Peek:    {"peek", "cl.peek"},
	gcra.Charge:  {"charge", "cl.charge"},
	gcra.Refund:  {"refund", "cl.refund"},
}

// A funnel is one of those that a call asks: its key, with the prefix, its limit, and
// how many tokens.
type funnel struct {
	key      string
	limit    Limit
	quantity int

	shape *shape // of the limit, once it has been checked
}

// A call is one command. Its funnels are decided as one.
type call struct {
	operation   gcra.Operation
	funnels     []funnel
	longestWait time.Duration
	results     []Result // one for each funnel, to be filled in
}

// mostFunnels is how many funnels a command takes.
const mostFunnels = 64

// check validates a call without asking the server.
func (c *call) check(shapes *shapes) (err error) {
	if len(c.funnels) < 1 || len(c.funnels) > mostFunnels {
		return fmt.Errorf("limiter: there must be 1 to %d requests, not %d", mostFunnels, len(c.funnels))
	}
	for i := range c.funnels {
		f := &c.funnels[i]
		if f.shape, err = shapes.of(f.limit); err != nil {
			return err
		}
		if _, err := f.shape.rate.Increment(int64(f.quantity)); err != nil {
			return fmt.Errorf("limiter: quantity %d of a limit of %v: %w", f.quantity, f.limit, err)
		}
	}
	return nil
}

// viaModule is the call as a command, for a server that reads the capacity as it is, or
// as one less.
func (c *call) viaModule(ctx context.Context, w way, asIs bool) *redis.Cmd {
	args := append(make([]any, 0, 2+5*len(c.funnels)), names[c.operation].module)
	if w == byThrottle {
		args[0] = "cl.throttle"
	}
	for i := range c.funnels {
		f := &c.funnels[i]
		capacity := f.shape.capacity
		if !asIs {
			capacity = f.shape.oneLess
		}
		args = append(args, f.key, capacity, f.shape.count, f.shape.period, f.quantity)
	}
	if c.longestWait > 0 {
		args = append(args, secondsOf(c.longestWait))
	}
	return redis.NewCmd(ctx, args...)
}

// viaScript is the call as a call of the script, which takes the text of the script or
// its hash. Command is EVAL, EVALSHA, or one of those that only read.
func (c *call) viaScript(ctx context.Context, command, script any) *redis.Cmd {
	args := append(make([]any, 0, 5+5*len(c.funnels)), command, script, len(c.funnels))
	for i := range c.funnels {
		args = append(args, c.funnels[i].key)
	}
	args = append(args, names[c.operation].script)
	for i := range c.funnels {
		f := &c.funnels[i]
		args = append(args, f.shape.capacity, f.shape.count, f.shape.period, f.quantity)
	}
	if c.longestWait > 0 {
		args = append(args, secondsOf(c.longestWait))
	}
	return redis.NewCmd(ctx, args...)
}

// A reading is how a server has read the capacity.
type reading int

const (
	right reading = iota

	// In the other way, and it has poured. The results have been corrected.
	corrected

	// In the other way, and it has poured nothing. The results may be wrong.
	wrong
)

// read fills in the results from a reply of CL.RESERVE and its like.
func (c *call) read(reply any, path Path) (reading, error) {
	whole, _ := reply.([]any)
	if len(whole) != 3 {
		return right, unexpected(reply)
	}
	limited, isNumber := whole[0].(int64)
	rows, isArray := whole[2].([]any)
	if !isNumber || !isArray || len(rows) != len(c.funnels) {
		return right, unexpected(reply)
	}
	reading := right
	for i := range rows {
		decision, ok := readRow(rows[i])
		if !ok {
			return right, unexpected(reply)
		}
		if f := &c.funnels[i]; decision.Limit != int64(f.limit.Capacity) {
			if reading = corrected; c.operation == gcra.Peek || c.operation == gcra.Reserve && limited != 0 {
				reading = wrong
			}
			decision = c.correct(f.shape.rate, decision)
		}
		c.set(i, path, decision, limited != 0)
	}
	return reading, nil
}

// correct is what a funnel of that rate says after a call that has poured, whatever the
// capacity that the server has read.
func (c *call) correct(rate gcra.Rate, decision gcra.Decision) gcra.Decision {
	ask := gcra.Ask{Rate: rate, TAT: decision.ResetAfter}
	if err := ask.Peek(0); err != nil {
		return decision
	}
	ask.Decision.Limited = ask.Decision.Limited && c.operation != gcra.Reserve
	return ask.Decision
}

func unexpected(reply any) error {
	return fmt.Errorf("limiter: the server replied %v, which is no reply of CL.RESERVE: is the command that of another module?", reply)
}

// readRow reads limited, limit, remaining, wait and reset_after.
func readRow(reply any) (decision gcra.Decision, ok bool) {
	row, _ := reply.([]any)
	if len(row) != 5 {
		return decision, false
	}
	limited, ok1 := integerOf(row[0])
	limit, ok2 := integerOf(row[1])
	remaining, ok3 := integerOf(row[2])
	wait, ok4 := nanosecondsOf(row[3])
	reset, ok5 := nanosecondsOf(row[4])
	return gcra.Decision{Limited: limited != 0, Limit: limit, Remaining: remaining, Wait: wait, ResetAfter: reset},
		ok1 && ok2 && ok3 && ok4 && ok5
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
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || len(fraction) > 9 {
		return 0, false
	}
	nanoseconds := int64(0)
	for i := range 9 {
		nanoseconds *= 10
		if i < len(fraction) {
			nanoseconds += int64(fraction[i] - '0')
		}
	}
	return seconds*1e9 + nanoseconds, true
}

// isFault reports whether the call itself is wrong, so that any server would reply an
// error: the code of an error reply is its first word.
func isFault(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) || redis.IsMaxClientsError(err) || isMissing(err) {
		return false
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	return code == "ERR" || code == "WRONGTYPE"
}

// isReply reports whether an error is a reply of the server.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
