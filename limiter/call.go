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
	operation   gcra.Operation
	funnels     []funnel
	longestWait time.Duration
	least       int // quantity that is accepted, if not 0

	parts   []gcra.Part // the request and the decision for each funnel
	pending bool        // Redis has to decide
	path    Path        // what has decided
	err     error       // what the caller gets
	cause   error       // why Redis has not decided

	// The state of asking Redis.
	open     bool // no way has decided
	command  *redis.Cmd
	attempts int  // in this way
	reading       // of the capacity, for which it was sent
	reads    bool // by a command that only reads
	withText bool // of the script
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
		if c.parts[i].Request, err = f.shape.rate.Request(int64(f.quantity)); err != nil {
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
		if isQuestion {
			quantity = 0
		}
		args = append(args, f.key, capacity, f.shape.count, f.shape.period, quantity)
	}
	if c.longestWait > 0 {
		args = append(args, secondsOf(c.longestWait))
	}
	return redis.NewCmd(ctx, args...)
}

// viaScript is the call as a call of the script, by the hash of the script or by its text. A
// peek goes by a command that only reads, for replicas.
func (c *call) viaScript(ctx context.Context) *redis.Cmd {
	command, script := any("evalsha"), scriptHash
	switch {
	case c.withText && c.reads:
		command, script = "eval_ro", scriptText
	case c.withText:
		command, script = "eval", scriptText
	case c.reads:
		command = "evalsha_ro"
	}
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

// throttles says that CL.THROTTLE alone can decide a call: it is for tokens of one funnel
// now, and takes whole seconds, as redis-cell does.
func (c *call) throttles() bool {
	return c.operation == gcra.Reserve && c.longestWait <= 0 && len(c.funnels) == 1 &&
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
	if err := funnels.Decide(c.operation, keys, c.parts, c.longestWait); err != nil {
		return c.named(err)
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
func (c *call) result(index int) Result {
	f, decision := &c.funnels[index], &c.parts[index].Decision
	result := Result{Limit: f.limit, Quantity: f.quantity}
	if c.path == "" {
		return result
	}
	result.Path, result.RetryAfter = c.path, NoRetry
	result.Remaining, result.ResetAfter = int(decision.Remaining), time.Duration(decision.ResetAfter)
	if c.accounts() && c.path != PathClosed || c.operation == gcra.Reserve && !c.limited() {
		result.Allowed = f.quantity
	}
	switch {
	case f.quantity == 0 && !c.accounts(): // no funnel limits a call for nothing
	case decision.Limited:
		result.RetryAfter = time.Duration(decision.Wait)
	default:
		result.Wait = time.Duration(decision.Wait)
	}
	return result
}
