package policy

import (
	"context"
	"time"

	"funnel/limiter"
	"funnel/limiter/internal/wait"
)

// An Admission is the decision on a request: on its tokens, and then on its slot if the policy has
// slots.
type Admission struct {
	Results limiter.Results
	Names   []string // of the policies, in the order of Results
	tokens  int      // how many Results are on tokens
	held    *limiter.Acquisition
}

// Refusing returns the index of the policy that refuses the request, or -1.
func (a *Admission) Refusing() int { return Refusing(a.Results) }

// Refusing returns the index of the Result that limits a call, or -1 if none does. Of several it is
// the first with the longest wait.
func Refusing(results limiter.Results) int {
	index, longest := -1, time.Duration(0)
	for i, result := range results {
		after := waitFor(result)
		if result.Limited() && (index < 0 || after > longest) {
			index, longest = i, after
		}
	}
	return index
}

// waitFor returns how long a limited request should wait.
func waitFor(result limiter.Result) time.Duration {
	if result.Slots.Max > 0 {
		return wait.ForSlot
	}
	return result.RetryAfter
}

// RetryAfter returns how long the client of a limited request is told to wait: whole seconds,
// rounded up, since a client that comes too early is refused again. It is 0 if waiting does not
// help.
func RetryAfter(result limiter.Result) time.Duration {
	after := waitFor(result)
	if after == limiter.NoRetry {
		return 0
	}
	return (min(after, limiter.NoRetry-time.Second) + time.Second - 1).Truncate(time.Second)
}

// Begin returns the context for the handler of an allowed request, and a function to call when the
// handler has returned. It gives the slot back in the background: the answer does not wait for
// Redis.
func (a *Admission) Begin(ctx context.Context) (handler context.Context, end func()) {
	outer, end := ctx, func() {}
	if a.held != nil {
		ctx, end = a.held.Context(), func() { a.held.ReleaseSoon(outer) }
	}
	return context.WithValue(ctx, resultsKey{}, a.Results[:a.tokens:a.tokens]), end
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
