package limiter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
	"funnel/internal/funnels"
)

// names are those of the operations: for hooks, as the script takes them, and as commands of
// the module. Strings that become any would be allocated for each call.
var names = [...]struct {
	text           string
	script, module any
}{
	gcra.Reserve: {"reserve", "reserve", "cl.reserve"},
	gcra.Take:    {"take", "take", "cl.take"},
	gcra.Peek:    {"peek", "peek", "cl.peek"},
	gcra.Charge:  {"charge", "charge", "cl.charge"},
	gcra.Refund:  {"refund", "refund", "cl.refund"},
}

// A funnel is one of those that a call is about: its key, with the prefix, its limit, and
// how many tokens.
type funnel struct {
	key      string
	limit    Limit
	quantity int
	shape    *shape // once it has been checked
}

// A call is one command. Its funnels are decided as one.
type call struct {
	operation gcra.Operation
	funnels   []funnel
	lastWord  int64 // as [gcra.Operation.Decide] takes it
	least     int   // quantity that is accepted, if not 0
	strict    bool  // where Redis fails, that is the error
	local     bool  // the funnels are those in this process
	mayShare  bool  // callers of one key and limit may share calls
	shared    bool  // by the callers of a lease

	// The request and the decision for each funnel. The TAT of a Decision is the receipt for
	// the tokens that the call took, or 0.
	parts   []gcra.Item
	pending bool  // Redis has to decide
	path    Path  // what has decided
	err     error // what the caller gets
	cause   error // why Redis has not decided

	// The state of asking Redis.
	asked    bool // something may have been sent
	open     bool // no way has decided
	by       way  // the last that was tried
	command  *redis.Cmd
	attempts int  // in this way
	reading       // of the capacity, for which it was sent
	reads    bool // by a command that only reads
	complete bool // by the complete script
	withText bool // of the script
	fewer    int  // of CL.THROTTLE in place of CL.TAKE, how many tokens to ask for, or 0
	denied   [ways]bool
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
			return fmt.Errorf("limiter: key %q: a limit of %v: %w", f.key, f.limit, err)
		}
		if c.operation == gcra.Take {
			c.parts[i].Request, err = f.shape.rate.RequestUpTo(int64(f.quantity))
		} else {
			c.parts[i].Request, err = f.shape.rate.Request(int64(f.quantity))
		}
		if err != nil {
			return fmt.Errorf("limiter: key %q: quantity %d of a limit of %v: %w", f.key, f.quantity, f.limit, err)
		}
		if f.quantity < c.least {
			return fmt.Errorf("limiter: key %q: the quantity of a request must be at least %d, not %d: use Peek to take nothing", f.key, c.least, f.quantity)
		}
	}
	return nil
}

// viaModule is the call as a command of the module, for a server that reads the capacity in
// that way. As a question it takes no tokens.
func (c *call) viaModule(ctx context.Context, w way, reading reading, isQuestion bool) *redis.Cmd {
	args := append(make([]any, 0, 2+5*len(c.funnels)), names[c.operation].module)
	if w == byThrottle {
		args[0] = "cl.throttle"
	}
	for i := range c.funnels {
		f := &c.funnels[i]
		capacity, quantity := f.shape.capacity, f.quantity
		if reading == oneMore {
			capacity = f.shape.oneLess
		}
		switch {
		case isQuestion:
			quantity = 0
		case w == byThrottle && c.operation == gcra.Take:
			quantity = c.attempt()
		}
		args = append(args, f.key, capacity, f.shape.count, f.shape.period, quantity)
	}
	return redis.NewCmd(ctx, c.appendLastWord(args)...)
}

func (c *call) appendLastWord(args []any) []any {
	switch {
	case c.operation == gcra.Reserve && c.lastWord > 0:
		return append(args, secondsOf(time.Duration(c.lastWord)))
	case c.operation == gcra.Refund && c.lastWord != gcra.NoReceipt:
		return append(args, c.lastWord)
	}
	return args
}

// attempt is how many tokens CL.THROTTLE is asked for in place of CL.TAKE.
func (c *call) attempt() int {
	if c.fewer > 0 {
		return c.fewer
	}
	return c.funnels[0].quantity
}

// viaScript is the call as a call of a script, by the hash of the script or by its text. A
// peek goes by a command that only reads, for replicas.
func (c *call) viaScript(ctx context.Context) *redis.Cmd {
	c.complete = c.complete || !c.fitsTake()
	script := &takeScript
	if c.complete {
		script = &completeScript
	}
	command, text := any("evalsha"), script.hash
	switch {
	case c.withText && c.reads:
		command, text = "eval_ro", script.text
	case c.withText:
		command, text = "eval", script.text
	case c.reads:
		command = "evalsha_ro"
	}
	args := append(make([]any, 0, 5+5*len(c.funnels)), command, text, len(c.funnels))
	if !c.complete {
		return redis.NewCmd(ctx, c.appendTake(args)...)
	}
	for i := range c.funnels {
		args = append(args, c.funnels[i].key)
	}
	args = append(args, names[c.operation].script)
	for i := range c.funnels {
		f := &c.funnels[i]
		args = append(args, f.shape.capacity, f.shape.count, f.shape.period, f.quantity)
	}
	return redis.NewCmd(ctx, c.appendLastWord(args)...)
}

// longestSpan and mostToTake bound what take.lua is asked for: it computes in doubles, and
// writes no more than 14 digits of a number.
const (
	longestSpan = 4_500_000_000_000_000
	mostToTake  = 1_000_000_000
)

// fitsTake says that take.lua can decide the call.
func (c *call) fitsTake() bool {
	switch c.operation {
	case gcra.Reserve, gcra.Peek:
	case gcra.Take:
		if c.funnels[0].quantity > mostToTake {
			return false
		}
	default:
		return false
	}
	return len(c.funnels) == 1 && c.funnels[0].shape.rate.Tolerance() < longestSpan
}

// appendTake appends the words of take.lua. A funnel that has to be below empty takes
// nothing.
func (c *call) appendTake(args []any) []any {
	const nothing int64 = -1
	f := &c.funnels[0]
	rate := &f.shape.rate
	ceiling, increment := rate.Tolerance(), c.parts[0].Request.Increment()
	switch {
	case f.quantity == 0, c.operation == gcra.Peek, c.operation == gcra.Reserve && increment > ceiling:
		ceiling = nothing
	case c.operation == gcra.Take:
		return append(args, f.key, f.shape.tolerance, f.shape.interval, f.quantity)
	case c.lastWord > 0:
		ceiling += min(c.lastWord, longestSpan-1-ceiling)
	case f.quantity == 1:
		return append(args, f.key, f.shape.tolerance, f.shape.interval)
	}
	return append(args, f.key, ceiling, increment)
}

// throttles says that CL.THROTTLE alone can decide a call: it is for tokens of one funnel
// now, and takes whole seconds, as redis-cell does.
func (c *call) throttles() bool {
	return (c.operation == gcra.Reserve && c.lastWord <= 0 || c.operation == gcra.Take) && len(c.funnels) == 1 &&
		c.funnels[0].quantity > 0 && c.funnels[0].limit.Period%time.Second == 0
}

// decideBy decides the call by funnels in this process.
func (c *call) decideBy(funnels *funnels.Set) error {
	keys := make([]string, len(c.funnels))
	for i := range c.funnels {
		key := c.funnels[i].key
		if slices.Contains(keys[:i], key) {
			return fmt.Errorf("limiter: key %q is named twice in this call: ask once, for all of its tokens", key)
		}
		keys[i] = key
	}
	if err := funnels.Decide(c.operation, keys, c.parts, c.lastWord); err != nil {
		return c.named(err)
	}
	for i := range c.parts {
		if part := &c.parts[i]; part.Decision.TAT == part.TAT || c.operation == gcra.Refund {
			part.Decision.TAT = 0
		}
	}
	c.path = PathLocal
	return nil
}

// named is an error that names the keys of the call.
func (c *call) named(err error) error {
	var keys strings.Builder
	for i := range c.funnels {
		fmt.Fprintf(&keys, ", %q", c.funnels[i].key)
	}
	if len(c.funnels) == 1 {
		return fmt.Errorf("limiter: key %s: %w", keys.String()[2:], err)
	}
	return fmt.Errorf("limiter: keys %s: %w", keys.String()[2:], err)
}

// name is the command's, for hooks.
func (c *call) name() string {
	if c.shared {
		return "lease"
	}
	return names[c.operation].text
}

// accounts says that the call is for tokens that were used, or that were not.
func (c *call) accounts() bool { return c.operation == gcra.Charge || c.operation == gcra.Refund }

// limited says that a funnel limits the call.
func (c *call) limited() bool {
	for i := range c.parts {
		if c.parts[i].Decision.Limited {
			return true
		}
	}
	return false
}

// result is what the caller gets for a funnel. Nothing but the question is in it where
// nothing has decided.
func (l *Limiter) result(c *call, index int) Result {
	f, decision := &c.funnels[index], &c.parts[index].Decision
	result := Result{Limit: f.limit, Quantity: f.quantity}
	if c.path == "" {
		return result
	}
	result.Path, result.RetryAfter = c.path, NoRetry
	if c.operation != gcra.Refund {
		result.claim = claim{l, f.key[len(l.prefix):], decision.TAT, false}
	}
	result.Remaining, result.ResetAfter = int(decision.Remaining), time.Duration(decision.ResetAfter)
	switch {
	case c.operation == gcra.Take:
		result.Allowed = int(c.parts[index].Taken)
	case c.accounts() && c.path != PathClosed, c.operation == gcra.Reserve && !c.limited():
		result.Allowed = f.quantity
	}
	switch {
	case f.quantity == 0 && !c.accounts(): // no funnel limits a call for nothing
	case c.operation == gcra.Take && result.Allowed > 0:
	case decision.Limited:
		result.RetryAfter = time.Duration(decision.Wait)
	default:
		result.Wait = time.Duration(decision.Wait)
	}
	return result
}
