package policy

import (
	"context"
	"log/slog"
	"slices"

	"funnel/limiter"
)

// An Asker asks a Limiter about all limits of a request in one call, and logs what is not decided.
type Asker struct {
	limiter  limiter.Allower
	acquirer limiter.Acquirer // nil if the Limiter lacks its method, which requests without slots do not need
	several  several          // nil if the Limiter lacks its methods, which one limit does not need, nor one with slots
	log      record
}

// several decides on several limits atomically.
type several interface {
	AllowAll(ctx context.Context, requests ...limiter.Request) (limiter.Results, error)
	PeekAll(ctx context.Context, rows ...limiter.Row) (limiter.Results, error)
}

// NewAsker returns an Asker. The name stands in its log lines, which go to the logger, or, if that
// is nil, to what is then [slog.Default].
func NewAsker(l limiter.Allower, name string, logger *slog.Logger) *Asker {
	a := &Asker{limiter: l, log: record{name: name, logger: logger}}
	a.acquirer, _ = l.(limiter.Acquirer)
	a.several, _ = l.(several)
	return a
}

// Ask asks for tokens and slots: all or none. There is at least one request or slot, and the
// quantity is 0 either in all requests or in none. Names are those of the policies, of the requests
// and then of the slots.
//
// If ctx is done when the decision comes, nobody waits for the handler: what the request took is
// given back, and the error is the cause of ctx.
func (a *Asker) Ask(ctx context.Context, names []string,
	requests []limiter.Request, slots []limiter.Row) (Admission, error) {
	d, err := a.decide(ctx, requests, slots)
	if ctx.Err() == nil {
		a.log.note(ctx, err)
		d.Names = names
		return d, err
	}
	if err == nil {
		a.giveBack(ctx, &d)
		err = context.Cause(ctx)
	}
	return Admission{}, err
}

func (a *Asker) decide(ctx context.Context, requests []limiter.Request, slots []limiter.Row) (d Admission, err error) {
	d.tokens = len(requests)
	asked := fitting(requests)
	switch {
	case len(slots) > 0:
		d.held, err = a.acquirer.TryAcquire(ctx, append(rowsOf(asked), slots...)...)
		if d.held != nil {
			// A copy, because handlers settle these while the Acquisition, which renews and
			// releases in goroutines of its own, reads its Results.
			d.Results = slices.Clone(d.held.Results)
		}
	case len(asked) == 1:
		d.Results = make(limiter.Results, 1)
		d.Results[0], err = a.limiter.AllowN(ctx, asked[0].Key, asked[0].Limit, asked[0].Quantity)
	case asked[0].Quantity == 0: // AllowAll accepts no requests for 0 tokens
		d.Results, err = a.several.PeekAll(ctx, rowsOf(asked)...)
	default:
		d.Results, err = a.several.AllowAll(ctx, asked...)
	}
	if err != nil {
		return Admission{}, err
	}
	for i := range requests {
		d.Results[i].Quantity += requests[i].Quantity - asked[i].Quantity
	}
	return d, nil
}

// fitting returns the requests with quantities that a Limiter computes with. For a cost above the
// capacity it asks for the least quantity that never fits: the Limiter may refuse larger ones.
func fitting(requests []limiter.Request) []limiter.Request {
	asked := requests
	for i, request := range requests {
		if request.Quantity <= request.Limit.Capacity {
			continue
		}
		if &asked[0] == &requests[0] {
			asked = slices.Clone(requests)
		}
		asked[i].Quantity = request.Limit.Capacity + 1
	}
	return asked
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
func (a *Asker) giveBack(ctx context.Context, d *Admission) {
	d.held.ReleaseSoon(ctx)
	settles, can := a.limiter.(settler)
	if !can || d.Results.Limited() {
		return
	}
	for _, result := range d.Results[:d.tokens] {
		settles.SettleSoon(ctx, result, 0) // an error leaves the tokens used, which nobody can mend
	}
}
