// Package policy is what httplimit and grpclimit have in common: the question that a policy
// asks a limiter about a call, and the keys of funnels. Both packages write the same keys, so a
// policy of one name is one limit over HTTP and gRPC.
package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"funnel/internal/isnil"
	"funnel/limiter"
	"funnel/limiter/internal/redis"
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

// New returns a policy with that name. It panics in the name of a package if l is nil, limit
// or slots are not valid, or l has no slots to give.
func New(caller, name string, l limiter.Allower, limit limiter.Limit, slots *limiter.Slots) Policy {
	if isnil.Is(l) {
		panic(caller + ": New needs a Limiter, not nil")
	}
	if err := limit.Validate(); err != nil {
		panic(fmt.Sprintf("%s: New needs a valid limit, not %v: %v", caller, limit, err))
	}
	acquirer, ok := l.(limiter.Acquirer)
	switch {
	case slots == nil:
	case !ok:
		panic(caller + ": WithSlots needs a Limiter with TryAcquire")
	case slots.Max < 1 || slots.TTL < time.Millisecond:
		panic(fmt.Sprintf("%s: WithSlots needs a Max of at least 1 and a TTL of at least 1ms, not %+v", caller, *slots))
	}
	return Policy{l, limit, prefixOf(name), slots, acquirer}
}

// prefixOf returns what begins the keys of a policy with that name.
func prefixOf(name string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `{`, `\{`).Replace(name) + ":"
}

// Key returns the key of the funnel that a policy of that name without slots asks for the key of a call, without the
// prefix of the Limiter.
func Key(name, key string) string { return prefixOf(name) + key }

// SlotsKeys returns the keys of the funnel and of the slots that a policy of that name with slots asks. Both have one
// hash tag.
func SlotsKeys(name, key string) (funnel, slots string) { return withSlots(Key(name, key)) }

func withSlots(key string) (funnel, slots string) { return "{" + key + "}", "{" + key + "}:slots" }

// A Decision is on a call: on its tokens, and if the policy has slots, on its slot.
type Decision struct {
	Tokens limiter.Result
	Slots  limiter.Result // zero without slots
	slot   *limiter.Slot  // nil without slots, and if limited
}

// Limiting returns the Result that limits the call, and whether there is one: on the slots if
// only a slot is missing.
func (d *Decision) Limiting() (limiter.Result, bool) {
	if d.Slots.Limited() && d.Slots.Slots.Max > 0 && !d.Tokens.Limited() {
		return d.Slots, true
	}
	return d.Tokens, d.Tokens.Limited()
}

// Begin returns the context for the handler of an allowed call, and what to call when it has
// returned. That gives the slot back in the background: no answer waits for Redis.
func (d *Decision) Begin(ctx context.Context) (handler context.Context, end func()) {
	if d.slot == nil {
		return context.WithValue(ctx, resultKey{}, d.Tokens), func() {}
	}
	return context.WithValue(d.slot.Context(), resultKey{}, d.Tokens), func() {
		go release(context.WithoutCancel(ctx), d.slot, &d.Slots)
	}
}

// release gives a slot back. It asks each tenth of the TTL, until Redis answers or the TTL is over.
func release(ctx context.Context, slot *limiter.Slot, of *limiter.Result) {
	began, ttl := time.Now(), of.Slots.TTL
	for {
		err := slot.Release(ctx)
		if err == nil || errors.Is(err, limiter.ErrSlotLost) {
			return
		}
		if redis.IsAnswered(err) || time.Since(began) >= ttl {
			slog.WarnContext(ctx, "a slot was not given back, and ends with its TTL", "key", of.Key, "error", err)
			return
		}
		time.Sleep(ttl / 10)
	}
}

// Check asks for the tokens of a call, and for a slot. The zero Limit means the one of New. With
// slots, both keys have one hash tag.
func (p *Policy) Check(ctx context.Context, key string, limit limiter.Limit, cost int) (d Decision, err error) {
	if limit == (limiter.Limit{}) {
		limit = p.limit
	}
	asked := cost
	if cost > limit.Capacity && limit.Capacity > 0 {
		asked = limit.Capacity + 1 // as little fits, and the Limiter can compute with it
	}
	key = p.prefix + key
	if p.slots == nil {
		d.Tokens, err = p.limiter.AllowN(ctx, key, limit, asked)
	} else {
		funnel, slots := withSlots(key)
		var got limiter.Acquisition
		got, err = p.acquirer.TryAcquire(ctx, slots, *p.slots, limiter.Request{Key: funnel, Limit: limit, Quantity: asked})
		d.slot, d.Slots = got.Slot, got.Slots
		if len(got.Requests) == 1 {
			d.Tokens = got.Requests[0]
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
