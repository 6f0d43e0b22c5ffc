package limiter

import (
	"context"
	"errors"

	"funnel/gcra"
)

// A Request is for tokens of a funnel, for [Limiter.AllowMany], [Limiter.AllowAll] and
// [Limiter.WaitAll].
type Request struct {
	Key      string
	Limit    Limit
	Quantity int // tokens, at least 1
}

// AllowAll decides 1 to 64 requests as one: it takes the tokens from all funnels, or, if
// one of them limits the call, from none. The keys differ, and in a cluster they have one
// hash tag.
//
// The first Result is that of the call as a whole: its RetryAfter is the longest of all.
// Then there is one for each request, in which Limited and RetryAfter are what its funnel
// says alone.
func (l *Limiter) AllowAll(ctx context.Context, requests ...Request) (Result, []Result, error) {
	calls := []call{l.callOf(requests)}
	l.decide(ctx, calls)
	c, results := &calls[0], make([]Result, len(requests))
	whole := Result{RetryAfter: NoRetry, Path: c.path}
	never := false
	for i := range results {
		result := l.result(c, i)
		results[i] = result
		whole.Quantity += result.Quantity
		whole.Allowed += result.Allowed
		whole.RetryAfter = max(whole.RetryAfter, result.RetryAfter)
		whole.ResetAfter = max(whole.ResetAfter, result.ResetAfter)
		never = never || result.Limited() && result.RetryAfter == NoRetry
		if i == 0 {
			whole.Remaining = result.Remaining
		}
		whole.Remaining = min(whole.Remaining, result.Remaining)
	}
	if never {
		whole.RetryAfter = NoRetry
	}
	if c.err != nil {
		return Result{}, results, c.err
	}
	return whole, results, nil
}

// AllowMany is AllowN of many requests, sent at once: one round trip, or one to each
// node of a cluster. The requests are decided one by one, in their order for each key, and
// calls of others may come in between.
//
// There is a Result for each request. The error joins those of requests that have no
// decision, in their order; their results are limited, and have no Path.
func (l *Limiter) AllowMany(ctx context.Context, requests ...Request) ([]Result, error) {
	calls := make([]call, len(requests))
	for i := range requests {
		calls[i] = l.callOf(requests[i : i+1])
	}
	l.decide(ctx, calls)
	results, errs := make([]Result, len(requests)), []error(nil)
	for i := range calls {
		results[i] = l.result(&calls[i], 0)
		errs = append(errs, calls[i].err)
	}
	return results, errors.Join(errs...)
}

func (l *Limiter) callOf(requests []Request) call {
	c := call{operation: gcra.Reserve, least: 1, funnels: make([]funnel, len(requests)), parts: make([]gcra.Item, len(requests))}
	for i, request := range requests {
		c.funnels[i] = funnel{key: l.prefix + request.Key, limit: request.Limit, quantity: request.Quantity}
	}
	return c
}
