package limiter

import (
	"context"
	"time"
)

// A Hook is called with each decision, before the caller gets it, for metrics and traces. It must be
// quick, and safe for concurrent use. examples/monitoring has hooks for Prometheus and OpenTelemetry.
type Hook func(ctx context.Context, event Event)

// An Event is a decision on one funnel, or an error.
type Event struct {
	Command string // reserve, take, peek, charge or refund
	Key     string // with the prefix of [WithPrefix]

	// Result and Err are what the caller gets; Result.Path says what decided.
	Result Result
	Err    error

	// Cause is why Redis has not decided, or nil, also where the caller gets no error.
	Cause error

	// Duration is the time from the call to the decision.
	Duration time.Duration
}

// callHooks calls the hooks with the decision on each funnel of a query.
func (l *Limiter) callHooks(ctx context.Context, a *answer, event Event) {
	event.Command = operationNames[a.query.operation].name.(string)
	for i := range a.query.funnels {
		event.Key, event.Result = a.query.funnels[i].redisKey, a.result(i)
		for _, hook := range l.hooks {
			hook(ctx, event)
		}
	}
}
