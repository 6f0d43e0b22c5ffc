package limiter

import (
	"context"
	"time"

	"funnel/gcra"
)

// A Request is a funnel and how many tokens are asked of it, for [Limiter.AllowMany] and
// [Limiter.AllowAll].
type Request struct {
	Key      string
	Limit    Limit
	Quantity int // tokens, at least 0
}

// AllowAll decides 1 to 64 requests as one: the tokens are poured into all funnels, or,
// if one of them is limited, into none. The keys differ, and in a cluster they have one
// hash tag.
//
// The first Result is that of the call as a whole: its RetryAfter is the longest of all.
// Then there is one for each request, in which Limited and RetryAfter are what its funnel
// says alone.
func (l *Limiter) AllowAll(ctx context.Context, requests ...Request) (Result, []Result, error) {
	c := l.callOf(gcra.Reserve, requests)
	if err := l.decide(ctx, &c); err != nil {
		return Result{}, c.results, err
	}
	whole := Result{RetryAfter: NoRetry, Path: c.results[0].Path, decided: true}
	never := false
	for i, result := range c.results {
		whole.Quantity += result.Quantity
		whole.Allowed += result.Allowed
		whole.limited = whole.limited || result.limited
		whole.RetryAfter = max(whole.RetryAfter, result.RetryAfter)
		whole.ResetAfter = max(whole.ResetAfter, result.ResetAfter)
		never = never || result.limited && result.RetryAfter == NoRetry
		if i == 0 {
			whole.Remaining = result.Remaining
		}
		whole.Remaining = min(whole.Remaining, result.Remaining)
	}
	if never {
		whole.RetryAfter = NoRetry
	}
	return whole, c.results, nil
}

// AllowMany is AllowN of many requests, sent at once: one round trip, or one to each
// node of a cluster. The requests are decided one by one, and calls of others may come in
// between. There is a Result for each, in which Err says why there is no decision.
func (l *Limiter) AllowMany(ctx context.Context, requests ...Request) []Result {
	start := l.now()
	results := make([]Result, len(requests))
	calls := make([]call, len(requests))
	causes := make([]error, len(requests)) // why Redis has not decided
	var pending []int                      // indexes of the calls that Redis has to decide
	for i := range requests {
		calls[i] = l.callOf(gcra.Reserve, requests[i:i+1])
		calls[i].results = results[i : i+1]
		if causes[i] = calls[i].check(&l.shapes); causes[i] == nil && !l.prefilter.limits(&calls[i]) {
			pending = append(pending, i)
		}
	}

	for n, cause := range l.askMany(ctx, calls, pending) {
		causes[pending[n]] = cause
	}
	errs := make([]error, len(requests))
	copy(errs, causes)
	for _, i := range pending {
		errs[i] = l.settle(ctx, &calls[i], causes[i], start)
	}
	for i := range calls {
		l.tell(ctx, &calls[i], errs[i], causes[i], start)
		results[i].Err = errs[i]
	}
	return results
}

// askMany asks Redis about the pending calls, unless it has ceased to answer.
func (l *Limiter) askMany(ctx context.Context, calls []call, pending []int) []error {
	errs := make([]error, len(pending))
	if len(pending) == 0 {
		return errs
	}
	asked := make([]*call, len(pending))
	for n, i := range pending {
		late := calls[i] // see ask
		late.results = make([]Result, 1)
		asked[n] = &late
	}
	err := l.refuses(ctx)
	if err == nil {
		err = l.askAtOnce(ctx, asked, errs)
	}
	for n, i := range pending {
		if err != nil {
			errs[n] = err
		} else {
			copy(calls[i].results, asked[n].results)
		}
	}
	return errs
}

// askAtOnce sets why there are no results, for each call. An error is that of all calls.
func (l *Limiter) askAtOnce(ctx context.Context, asked []*call, errs []error) error {
	within, cancel := l.withTimeout(ctx)
	defer cancel()
	var found []error // not errs, because a call that was given up may still be answered
	err := l.within(within, func(ctx context.Context) error {
		found = l.server.askMany(ctx, asked)
		return nil
	})
	if err != nil {
		l.report(ctx, err)
		return err
	}
	for n := range found {
		errs[n] = causeOf(within, found[n])
	}
	l.report(ctx, errs...)
	return nil
}

func (l *Limiter) callOf(operation gcra.Operation, requests []Request) call {
	c := call{operation: operation, funnels: make([]funnel, len(requests)), results: make([]Result, len(requests))}
	for i, request := range requests {
		c.funnels[i] = funnel{key: l.prefix + request.Key, limit: request.Limit, quantity: request.Quantity}
	}
	return c
}

// forever is the longest wait that the commands take.
const forever time.Duration = 1<<63 - 1
