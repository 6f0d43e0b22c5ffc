// Package policy has the common parts of httplimit and grpclimit: how a policy asks a Limiter about a call, and the
// keys of funnels. Both packages write the same keys, so a policy of one name is one limit over HTTP and gRPC.
package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"funnel/internal/isnil"
	"funnel/limiter"
)

// A Policy limits the rate of calls. No policy of another name has the keys of its funnels.
type Policy struct {
	limiter  limiter.Allower
	limit    limiter.Limit
	prefix   string
	slots    *limiter.Slots // nil for none
	acquirer limiter.Acquirer
	also     []Also
	several  several // nil if the Limiter lacks its methods, which a policy with slots does not need
}

// Also is a further limit of a policy, with a name of its own.
type Also struct {
	Name  string
	Limit limiter.Limit
}

// several decides on several funnels atomically.
type several interface {
	AllowAll(ctx context.Context, requests ...limiter.Request) (limiter.Results, error)
	PeekAll(ctx context.Context, rows ...limiter.Row) (limiter.Results, error)
}

// New returns a policy with that name. It panics, in the name of the package caller, if l is nil or lacks a method, or
// if a limit, the slots or a name is not valid.
func New(caller, name string, l limiter.Allower, limit limiter.Limit, slots *limiter.Slots, also []Also) Policy {
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
	all, ok := l.(several)
	if len(also) > 0 && slots == nil && !ok {
		panic(caller + ": WithAlso needs a Limiter with AllowAll and PeekAll")
	}
	names := map[string]bool{name: true}
	for _, other := range also {
		if err := other.Limit.Validate(); err != nil {
			panic(fmt.Sprintf("%s: WithAlso needs a valid limit, not %v: %v", caller, other.Limit, err))
		}
		if names[other.Name] {
			panic(fmt.Sprintf("%s: WithAlso needs another name than %q, which is taken", caller, other.Name))
		}
		names[other.Name] = true
	}
	return Policy{l, limit, prefixOf(name), slots, acquirer, also, all}
}

// prefixOf returns the text with which the keys of a policy begin.
func prefixOf(name string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `{`, `\{`).Replace(name) + ":"
}

// Key returns the key of a funnel, without the prefix of the Limiter, from the name of a policy without slots and the
// key of a call.
func Key(name, key string) string { return prefixOf(name) + key }

// SlotsKeys returns the keys of the funnel and of the slots for a policy with slots. Both have one hash tag.
func SlotsKeys(name, key string) (funnel, slots string) { return withSlots(Key(name, key)) }

func withSlots(key string) (funnel, slots string) { return "{" + key + "}", "{" + key + "}:slots" }

// A Decision is the decision on a call: on its tokens, and on its slot if the policy has slots.
type Decision struct {
	Tokens limiter.Result
	Also   limiter.Results      // on the tokens of the further limits
	Slots  limiter.Result       // zero without slots
	held   *limiter.Acquisition // nil without slots
}

// Limiting returns the Result that limits the call, and whether there is one. It is the Result on tokens with the
// longest wait, or the Result on the slots if only a slot is missing. Also is the index of its further limit, or -1.
func (d *Decision) Limiting() (result limiter.Result, also int, limited bool) {
	result, also = d.Tokens, -1
	for i, other := range d.Also {
		if other.Limited() && (!result.Limited() || other.RetryAfter > result.RetryAfter) {
			result, also = other, i
		}
	}
	if d.Slots.Limited() && d.Slots.Slots.Max > 0 && !result.Limited() {
		return d.Slots, -1, true
	}
	return result, also, result.Limited()
}

// Begin returns the context for the handler of an allowed call, and a function to call when the handler has returned.
// It gives the slot back in the background: the answer does not wait for Redis.
func (d *Decision) Begin(ctx context.Context) (handler context.Context, end func()) {
	if d.held == nil {
		return d.into(ctx), func() {}
	}
	return d.into(d.held.Context()), func() { d.held.ReleaseSoon(ctx) }
}

// into puts the Results on the tokens into a context.
func (d *Decision) into(ctx context.Context) context.Context {
	if len(d.Also) == 0 {
		return context.WithValue(ctx, resultKey{}, d.Tokens)
	}
	return context.WithValue(ctx, resultKey{}, append(limiter.Results{d.Tokens}, d.Also...))
}

// Check asks for the tokens of a call, and for a slot if the policy has slots. The zero Limit means the limit of New.
// Also has the keys of the call for the further limits.
//
// If ctx is done when the decision comes, nobody waits for the handler: what the call took is given back,
// and the error is the cause of ctx.
func (p *Policy) Check(ctx context.Context, key string, limit limiter.Limit, cost int, also []string) (
	d Decision, err error) {
	d, err = p.decide(ctx, key, limit, cost, also)
	if err == nil && ctx.Err() != nil {
		p.giveBack(ctx, &d)
		return Decision{}, context.Cause(ctx)
	}
	return d, err
}

// A settler gives back tokens that are not used, as [limiter.Limiter.Settle] does. Leases and Shadow have
// no Settle: what they grant stays used.
type settler interface {
	Settle(ctx context.Context, result *limiter.Result, used int) (limiter.Result, error)
}

// giveBack gives back what a call took whose caller has gone.
func (p *Policy) giveBack(ctx context.Context, d *Decision) {
	d.held.ReleaseSoon(ctx)
	settles, can := p.limiter.(settler)
	_, _, limited := d.Limiting()
	if !can || limited {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for _, result := range append(limiter.Results{d.Tokens}, d.Also...) {
		_, _ = settles.Settle(ctx, &result, 0) // an error leaves the tokens used, which nobody can mend
	}
}

// decide asks for the tokens of a call, and for a slot.
func (p *Policy) decide(ctx context.Context, key string, limit limiter.Limit, cost int, also []string) (
	d Decision, err error) {
	if limit == (limiter.Limit{}) {
		limit = p.limit
	}
	own := limiter.Request{Key: p.prefix + key, Limit: limit, Quantity: fitting(cost, limit)}
	if p.slots == nil && len(also) == 0 {
		d.Tokens, err = p.limiter.AllowN(ctx, own.Key, own.Limit, own.Quantity)
		d.Tokens.Quantity += cost - own.Quantity
		return d, err
	}
	requests := append(make([]limiter.Request, 0, 1+len(also)), own)
	for i, key := range also {
		other := p.also[i]
		requests = append(requests, limiter.Request{
			Key: Key(other.Name, key), Limit: other.Limit, Quantity: fitting(cost, other.Limit)})
	}
	results, err := p.ask(ctx, requests, &d)
	for i := range results {
		results[i].Quantity += cost - requests[i].Quantity
	}
	if len(results) > 0 {
		d.Tokens, d.Also = results[0], results[1:]
	}
	return d, err
}

// fitting returns the quantity for a cost. For a cost above the capacity it returns the least quantity that never fits,
// because the Limiter may refuse to compute with larger ones.
func fitting(cost int, limit limiter.Limit) int {
	if cost > limit.Capacity && limit.Capacity > 0 {
		return limit.Capacity + 1
	}
	return cost
}

// ask asks for the tokens of several requests, and for a slot.
func (p *Policy) ask(ctx context.Context, requests []limiter.Request, d *Decision) (limiter.Results, error) {
	if p.slots != nil {
		funnel, slots := withSlots(requests[0].Key)
		requests[0].Key = funnel
		got, err := p.acquirer.TryAcquire(ctx, append([]limiter.Row{p.slots.At(slots)}, rowsOf(requests)...)...)
		if got == nil || len(got.Results) == 0 {
			return nil, err
		}
		d.held, d.Slots = got, got.Results[0]
		return got.Results[1:], err
	}
	if requests[0].Quantity != 0 {
		return p.several.AllowAll(ctx, requests...)
	}
	return p.several.PeekAll(ctx, rowsOf(requests)...) // AllowAll accepts no requests for 0 tokens
}

func rowsOf(requests []limiter.Request) []limiter.Row {
	rows := make([]limiter.Row, len(requests))
	for i := range requests {
		rows[i] = requests[i]
	}
	return rows
}

// resultKey is the key in a context of a Result, or of Results if there are further limits.
type resultKey struct{}

// ResultsFrom returns the Results on the tokens that the innermost policy has put into a context. The first Result is
// on the tokens of its own funnel.
func ResultsFrom(ctx context.Context) limiter.Results {
	switch found := ctx.Value(resultKey{}).(type) {
	case limiter.Result:
		return limiter.Results{found}
	case limiter.Results:
		return found
	}
	return nil
}

// ResultFrom returns the first Result of ResultsFrom, and whether there is one.
func ResultFrom(ctx context.Context) (result limiter.Result, ok bool) {
	switch found := ctx.Value(resultKey{}).(type) {
	case limiter.Result:
		return found, true
	case limiter.Results:
		return found[0], true
	}
	return result, false
}
