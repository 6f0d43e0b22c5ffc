package policy

import (
	"context"
	"time"

	"funnel/limiter"
)

// A Decision is the decision on a request: on its tokens, and then on its slot if the policy has
// slots.
type Decision struct {
	Results limiter.Results
	Names   []string // of the policies, in the order of Results
	tokens  int      // how many Results are on tokens
	held    *limiter.Acquisition
}

// Refusing returns the index of the policy that refuses the request, or -1.
func (d *Decision) Refusing() int { return Refusing(d.Results) }

// Refusing returns the index of the Result that limits a call, or -1 if none does. Of several it is
// the first with the longest wait.
func Refusing(results limiter.Results) int {
	index, longest := -1, time.Duration(0)
	for i, result := range results {
		wait := waitFor(result)
		if result.Limited() && (index < 0 || wait > longest) {
			index, longest = i, wait
		}
	}
	return index
}

// slotWait is how long a request should wait that lacks only a slot: nobody knows when a slot comes
// free, and work whose number is limited takes about a second. The time until the first slot ends
// is far too long, since slots are given back before.
const slotWait = time.Second

// waitFor returns how long a limited request should wait.
func waitFor(result limiter.Result) time.Duration {
	if result.Slots.Max > 0 {
		return slotWait
	}
	return result.RetryAfter
}

// RetryAfter returns how long the client of a limited request is told to wait: whole seconds,
// rounded up, since a client that comes too early is refused again. It is 0 if waiting does not
// help.
func RetryAfter(result limiter.Result) time.Duration {
	wait := waitFor(result)
	if wait == limiter.NoRetry {
		return 0
	}
	return (min(wait, limiter.NoRetry-time.Second) + time.Second - 1).Truncate(time.Second)
}

// Begin returns the context for the handler of an allowed request, and a function to call when the
// handler has returned. It gives the slot back in the background: the answer does not wait for
// Redis.
func (d *Decision) Begin(ctx context.Context) (handler context.Context, end func()) {
	outer, end := ctx, func() {}
	if d.held != nil {
		ctx, end = d.held.Context(), func() { d.held.ReleaseSoon(outer) }
	}
	return context.WithValue(ctx, resultsKey{}, d.Results[:d.tokens:d.tokens]), end
}

// resultsKey is the key in a context of the Results on tokens.
type resultsKey struct{}

// ResultsFrom returns the Results on the tokens that the innermost policy has put into a context.
// The first is on the limit of New.
func ResultsFrom(ctx context.Context) limiter.Results {
	found, _ := ctx.Value(resultsKey{}).(limiter.Results)
	return found
}

// ResultFrom returns the first Result of ResultsFrom, and whether there is one.
func ResultFrom(ctx context.Context) (result limiter.Result, ok bool) {
	found := ResultsFrom(ctx)
	if len(found) == 0 {
		return result, false
	}
	return found[0], true
}
