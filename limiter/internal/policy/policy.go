// Package policy has the common parts of httplimit, grpclimit and caddylimit: the options of a
// policy, how it asks a Limiter about a request, the keys that it uses, and what it logs. All three
// write the same keys, so a policy of one name is one limit over HTTP and gRPC.
package policy

import (
	"context"

	"funnel/limiter"
)

// A Policy limits requests: their rate, their sum in a period, and how many run at once.
type Policy[Req any] struct {
	asker  *Asker
	limits []namedLimit[Req] // the limit of New comes first
	names  []string          // of the Results of an Admission, in their order
	slots  *limiter.Slots
	cost   func(Req) int
	skip   func(Req) bool
}

// Skips reports whether a request passes without a decision.
func (p *Policy[Req]) Skips(r Req) bool { return p.skip(r) }

// Check asks for the tokens of a request, and for a slot if the policy has slots: see [Asker.Ask].
func (p *Policy[Req]) Check(ctx context.Context, r Req) (Admission, error) {
	return p.check(ctx, r, p.slots)
}

// CheckTokens is Check for a part of a request that has its slot already, such as a message of a
// stream.
func (p *Policy[Req]) CheckTokens(ctx context.Context, r Req) (Admission, error) {
	return p.check(ctx, r, nil)
}

// check asks for the tokens of a request, and for a slot unless slots is nil.
func (p *Policy[Req]) check(ctx context.Context, r Req, slots *limiter.Slots) (Admission, error) {
	cost := p.cost(r)
	requests, held := make([]limiter.Request, len(p.limits)), []limiter.Row(nil)
	for i := range p.limits {
		n := &p.limits[i]
		key := n.key(r)
		limit := n.limit(r)
		if i == 0 && slots != nil {
			held = []limiter.Row{slots.At(SlotsKey(n.name, key))}
		}
		requests[i] = limiter.Request{Key: LimitKey(n.name, key, limit), Limit: limit, Quantity: cost}
	}
	return p.asker.Ask(ctx, p.names[:len(requests)+len(held)], requests, held)
}
