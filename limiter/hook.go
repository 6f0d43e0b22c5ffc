package limiter

import (
	"context"
	"time"

	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
)

// A Hook is called with each decision, before the caller gets it, for metrics and traces. It must be
// quick, and safe for concurrent use. A panic in a hook ends the program: slots are renewed and given back in
// goroutines that nobody recovers. examples/monitoring has one for Prometheus.
type Hook func(ctx context.Context, event Event)

// An Event is a decision on one row of a call, or an error.
type Event struct {
	Command string // reserve, take, peek, charge or refund
	Key     string // with the prefix of [WithPrefix]

	// Result and Err are what the caller gets; Result.Source says what decided.
	Result Result
	Err    error

	// Limited says that the call as a whole was limited, and took nothing. Result may be OK then: another row of
	// the call limits it.
	Limited bool

	// Cause is why Redis has not decided, or nil, even if the caller gets no error.
	Cause error

	// Duration is the time from the call to the decision.
	Duration time.Duration

	// Waited is how long the caller of [Limiter.Acquire] had waited when it asked, and Behind how many callers stood
	// behind it in the line; a caller that waits for tokens is not in the line. Both are 0 for other methods.
	Waited time.Duration
	Behind int
}

// callHooks calls the hooks with the decision on each row of a call.
func (l *Limiter) callHooks(ctx context.Context, q *query, event Event) {
	if len(l.hooks) == 0 {
		return
	}
	event.Command = redis.NameOf(q.Operation)
	event.Limited, event.Waited, event.Behind = Results(q.results).Limited(), q.waited, q.behind
	for i := range q.results {
		event.Key, event.Result = q.Rows[i].Key, q.results[i]
		for _, hook := range l.hooks {
			hook(ctx, event)
		}
	}
}

// causeOf returns why Redis has not decided.
func causeOf(reply *backend.Reply, err error) error {
	if reply.Cause != nil {
		return reply.Cause
	}
	return err
}
