// Package policy is what httplimit and grpclimit have in common: the question that a policy
// asks a limiter about a call, and the keys of funnels. Both packages write the same keys, so a
// policy of one name is one limit over HTTP and gRPC.
package policy

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"funnel/internal/isnil"
	"funnel/limiter"
)

// A Policy limits the rate of calls. Its funnels have keys of their own: no policy of another
// name has them.
type Policy struct {
	limiter  limiter.Allower
	limit    limiter.Limit
	prefix   string
	slots    *limiter.Slots // nil for none
	acquirer limiter.Acquirer
}

// New returns a policy with that name. It panics in the name of a package when l is nil, limit
// or slots are not valid, or l has no slots to give.
func New(caller, name string, l limiter.Allower, limit limiter.Limit, slots *limiter.Slots) Policy {
	if isnil.Is(l) {
		panic(caller + ": New needs a Limiter, not nil")
	}
	if _, err := limit.Rate(); err != nil {
		panic(fmt.Sprintf("%s: New needs a valid limit, not %v: %v", caller, limit, err))
	}
	acquirer, ok := l.(limiter.Acquirer)
	if slots != nil && !ok {
		panic(caller + ": WithSlots needs a Limiter with Acquire")
	} else if slots != nil && (slots.Limit < 1 || slots.TTL < time.Millisecond) {
		panic(fmt.Sprintf("%s: WithSlots needs a Limit of at least 1 and a TTL of at least 1ms, not %+v", caller, *slots))
	}
	prefix := strings.NewReplacer(`\`, `\\`, `:`, `\:`, `{`, `\{`).Replace(name) + ":"
	return Policy{l, limit, prefix, slots, acquirer}
}

// A Decision is on a call: on its tokens, and where the policy has slots, on its slot.
type Decision struct {
	Tokens limiter.Result
	slots  *limiter.Result // nil without slots
	slot   *limiter.Slot   // nil without slots, and when limited
}

// Limiting returns the Result that limits the call, and whether there is one: on the slots where
// only a slot is missing.
func (d *Decision) Limiting() (limiter.Result, bool) {
	if d.slots != nil && d.slot == nil && !d.Tokens.Limited() {
		return *d.slots, true
	}
	return d.Tokens, d.Tokens.Limited()
}

// Begin returns the context for the handler of an allowed call, and what to call when it has
// returned.
func (d *Decision) Begin(ctx context.Context) (handler context.Context, end func()) {
	if d.slot == nil {
		return context.WithValue(ctx, resultKey{}, d.Tokens), func() {}
	}
	return context.WithValue(d.slot.Context(), resultKey{}, d.Tokens), func() {
		if err := d.slot.Release(ctx); err != nil {
			slog.WarnContext(ctx, "a slot was not given back, and ends with its TTL", "key", d.slots.Key, "error", err)
		}
	}
}

// IsOfSlots reports whether a Result is on slots.
func IsOfSlots(result limiter.Result) bool {
	return result.Limit.Capacity > 0 && result.Limit == limiter.Limit{Capacity: result.Limit.Capacity}
}

// Decide asks for the tokens of a call, and for a slot. The zero Limit means the one of New. With
// slots, both keys have one hash tag.
func (p *Policy) Decide(ctx context.Context, key string, limit limiter.Limit, cost int) (d Decision, err error) {
	if limit == (limiter.Limit{}) {
		limit = p.limit
	}
	asked := cost
	if cost > limit.Capacity && limit.Capacity > 0 {
		asked = limit.Capacity + 1 // as little fits, and the Limiter can compute with it
	}
	if key = p.prefix + key; p.slots == nil {
		d.Tokens, err = p.limiter.AllowN(ctx, key, limit, asked)
	} else {
		key = "{" + key + "}"
		var results limiter.Results
		d.slot, results, err = p.acquirer.Acquire(ctx, key+":slots", *p.slots, limiter.Request{Key: key, Limit: limit, Quantity: asked})
		if len(results) == 2 {
			d.slots, d.Tokens = &results[0], results[1]
		}
	}
	d.Tokens.Quantity += cost - asked
	return d, err
}

// resultKey is the key of a Result in a context.
type resultKey struct{}

// ResultFrom returns the Result on the tokens that Begin put there last, and whether there is one.
func ResultFrom(ctx context.Context) (result limiter.Result, ok bool) {
	result, ok = ctx.Value(resultKey{}).(limiter.Result)
	return result, ok
}
