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
	acquirer limiter.Acquirer // for policies with slots; nil if the Limiter lacks its method
	several  several          // for policies of several limits without slots; nil if the Limiter lacks its methods

	limits []namedLimit[Req] // the limit of New comes first
	names  []string          // of the Results of an Admission, in their order
	slots  *limiter.Slots
	cost   func(Req) int
	skip   func(Req) bool
	log    record
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
func (p *Policy[Req]) Check(ctx context.Context, r Req) (Admission, error) {
	return p.check(ctx, r, p.slots)
}

// CheckTokens is Check for a part of a request that has its slot already, such as a message of a
// stream.
func (p *Policy[Req]) CheckTokens(ctx context.Context, r Req) (Admission, error) {
	return p.check(ctx, r, nil)
}

func (p *Policy[Req]) check(ctx context.Context, r Req, slots *limiter.Slots) (Admission, error) {
	d, err := p.decide(ctx, r, slots)
	if ctx.Err() == nil {
		p.log.note(ctx, err)
		return d, err
	}
	if err == nil {
		p.giveBack(ctx, &d)
		err = context.Cause(ctx)
	}
	return Admission{}, err
}

// decide asks for the tokens of a request, and for a slot unless slots is nil.
func (p *Policy[Req]) decide(ctx context.Context, r Req, slots *limiter.Slots) (d Admission, err error) {
	cost := p.cost(r)
	requests, slotsKey := make([]limiter.Request, len(p.limits)), ""
	for i := range p.limits {
		n := &p.limits[i]
		key := n.key(r)
		limit := n.limit(r)
		if i == 0 {
			slotsKey = SlotsKey(n.name, key)
		}
		requests[i] = limiter.Request{
			Key: LimitKey(n.name, key, limit), Limit: limit, Quantity: fitting(cost, limit)}
	}
	switch {
	case slots != nil:
		rows := append(rowsOf(requests), slots.At(slotsKey))
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
		return Admission{}, err
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
func (p *Policy[Req]) giveBack(ctx context.Context, d *Admission) {
	d.held.ReleaseSoon(ctx)
	settles, can := p.limiter.(settler)
	if !can || d.Results.Limited() {
		return
	}
	for _, result := range d.Results[:d.tokens] {
		settles.SettleSoon(ctx, result, 0) // an error leaves the tokens used, which nobody can mend
	}
}
