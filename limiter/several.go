package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"funnel/internal/call"
)

// A Request is for tokens of a funnel, for [Limiter.AllowAll], [Limiter.WaitAll] and
// [Limiter.Acquire].
type Request struct {
	Key      string
	Limit    Limit
	Quantity int // tokens, at least 1
}

// AllowAll decides 1 to 64 requests as one: it takes the tokens from all funnels, or, if
// one of them limits the call, from none. The keys differ, and in a cluster or a ring they have
// one hash tag: a ring sends the call to the server of the first key, and no error tells of others.
func (l *Limiter) AllowAll(ctx context.Context, requests ...Request) (Results, error) {
	q := l.newQuery(call.Reserve, requests...)
	if len(requests) < 1 || len(requests) > maxFunnels {
		q.invalid = fmt.Errorf("limiter: there must be 1 to %d requests, not %d", maxFunnels, len(requests))
	}
	for _, request := range requests {
		if request.Quantity < 1 {
			q.reject(fmt.Errorf("limiter: key %q: the quantity of a request must be at least 1, not %d: use Peek to take nothing",
				request.Key, request.Quantity))
		}
	}
	a, err := l.decide(ctx, q.rejectTwice())
	return a.results(), err
}

// rejectTwice rejects keys that are named twice.
func (q *query) rejectTwice() *query {
	for i := range min(len(q.funnels), maxFunnels) { // more are rejected
		key := q.funnels[i].Key
		if slices.ContainsFunc(q.funnels[:i], func(other funnel) bool { return other.Key == key }) {
			q.reject(fmt.Errorf("limiter: key %q is named twice in this call: ask once, for all of its tokens", key))
		}
	}
	return q
}

// Results are the decisions on the requests of one call, in their order. Limited and RetryAfter
// of one Result are what its funnel says alone.
type Results []Result

// Limited reports whether the call as a whole was limited: one of its funnels limits it. No
// results are limited.
func (r Results) Limited() bool { return len(r) == 0 || slices.ContainsFunc(r, Result.Limited) }

// RetryAfter is how long a limited call should wait before it asks again: the longest time of
// all, or [NoRetry] if one of its funnels can never allow it. It is NoRetry, too, for a call that
// was allowed.
func (r Results) RetryAfter() time.Duration {
	longest := NoRetry
	for i := range r {
		if r[i].Limited() && r[i].RetryAfter == NoRetry {
			return NoRetry
		}
		longest = max(longest, r[i].RetryAfter)
	}
	return longest
}
