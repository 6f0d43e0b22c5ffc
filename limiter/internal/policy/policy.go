// Package policy has the common parts of httplimit and grpclimit: the options of a policy, how it
// asks a Limiter about a request, the keys that it uses, and what it logs. Both packages write the
// same keys, so a policy of one name is one limit over HTTP and gRPC.
package policy

import (
	"context"
	"slices"

	"funnel/limiter"
)

// A Policy limits requests: their rate, their sum in a period, and how many run at once.
type Policy[Req any] struct {
	limiter  limiter.Allower
	acquirer limiter.Acquirer // nil if the Limiter lacks its method, which a policy without slots does not need
	several  several          // nil if the Limiter lacks its methods, which one limit does not need, nor one with slots

	parts []part[Req] // the limits: the first is that of New
	names []string    // of the Results of a Decision, in their order
	slots *limiter.Slots
	cost  func(Req) int
	skip  func(Req) bool
	log   record
}

// several decides on several limits atomically.
type several interface {
	AllowAll(ctx context.Context, requests ...limiter.Request) (limiter.Results, error)
	PeekAll(ctx context.Context, rows ...limiter.Row) (limiter.Results, error)
}

// Skips reports whether a request passes without a decision.
func (p *Policy[Req]) Skips(r Req) bool { return p.skip(r) }

// Check asks for the tokens of a request, and for a slot if the policy has slots.
//
// If ctx is done when the decision comes, nobody waits for the handler: what the request took is
// given back, and the error is the cause of ctx.
func (p *Policy[Req]) Check(ctx context.Context, r Req) (Decision, error) {
	return p.check(ctx, r, p.slots)
}

// CheckTokens is Check for a part of a request that has its slot already, such as a message of a
// stream.
func (p *Policy[Req]) CheckTokens(ctx context.Context, r Req) (Decision, error) {
	return p.check(ctx, r, nil)
}

func (p *Policy[Req]) check(ctx context.Context, r Req, slots *limiter.Slots) (Decision, error) {
	d, err := p.decide(ctx, r, slots)
	if ctx.Err() == nil {
		p.log.note(ctx, err)
		return d, err
	}
	if err == nil {
		p.giveBack(ctx, &d)
		err = context.Cause(ctx)
	}
	return Decision{}, err
}

// decide asks for the tokens of a request, and for a slot unless slots is nil.
func (p *Policy[Req]) decide(ctx context.Context, r Req, slots *limiter.Slots) (d Decision, err error) {
	cost := p.cost(r)
	requests, key := make([]limiter.Request, len(p.parts)), ""
	for i := range p.parts {
		part := &p.parts[i]
		of, limit := part.key(r), part.limit(r)
		if i == 0 {
			key = SlotsKey(part.name, of)
		}
		requests[i] = limiter.Request{
			Key: LimitKey(part.name, of, limit), Limit: limit, Quantity: fitting(cost, limit)}
	}
	switch {
	case slots != nil:
		rows := append(rowsOf(requests), slots.At(key))
		d.held, err = p.acquirer.TryAcquire(ctx, rows...)
		if d.held != nil {
			// A copy, because handlers settle these while the Acquisition, which renews and
			// releases in goroutines of its own, reads its Results.
			d.Results = slices.Clone(d.held.Results)
		}
	case len(requests) == 1:
		d.Results = make(limiter.Results, 1)
		d.Results[0], err = p.limiter.AllowN(ctx, requests[0].Key, requests[0].Limit, requests[0].Quantity)
	case requests[0].Quantity == 0: // AllowAll accepts no requests for 0 tokens
		d.Results, err = p.several.PeekAll(ctx, rowsOf(requests)...)
	default:
		d.Results, err = p.several.AllowAll(ctx, requests...)
	}
	if err != nil {
		return Decision{}, err
	}
	d.tokens = len(requests)
	d.Names = p.names[:len(d.Results)]
	for i := range requests {
		d.Results[i].Quantity += cost - requests[i].Quantity
	}
	return d, nil
}

// fitting returns the quantity for a cost. For a cost above the capacity it returns the least
// quantity that never fits, because the Limiter may refuse to compute with larger ones.
func fitting(cost int, limit limiter.Limit) int {
	if cost > limit.Capacity {
		return limit.Capacity + 1
	}
	return cost
}

func rowsOf(requests []limiter.Request) []limiter.Row {
	rows := make([]limiter.Row, len(requests), len(requests)+1)
	for i := range requests {
		rows[i] = requests[i]
	}
	return rows
}

// A settler gives back tokens that are not used, as [limiter.Limiter.SettleSoon] does. Leases and
// Shadow have no such method: what they grant stays used.
type settler interface {
	SettleSoon(ctx context.Context, result limiter.Result, used int)
}

// giveBack gives back what a request took whose client has gone. Its answer does not wait for that.
func (p *Policy[Req]) giveBack(ctx context.Context, d *Decision) {
	d.held.ReleaseSoon(ctx)
	settles, can := p.limiter.(settler)
	if !can || d.Results.Limited() {
		return
	}
	for _, result := range d.Results[:d.tokens] {
		settles.SettleSoon(ctx, result, 0) // an error leaves the tokens used, which nobody can mend
	}
}
