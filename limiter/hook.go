package limiter

import (
	"context"
	"time"

	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
)

// A Hook is called with each decision, before the caller gets it, for metrics and traces. It must
// be quick, and safe for concurrent use. A panic in a hook crashes the program, because slots are
// renewed and given back in goroutines that do not recover. examples/monitoring has a hook for
// Prometheus.
//
// A hook may call the Limiter, with two exceptions: Drain, and Release of the [Acquisition] whose
// renewal the hook is called with. Both wait until the hook has returned.
type Hook func(ctx context.Context, event Event)

// An Event is a decision on one row of a call, or an error.
type Event struct {
	Command string // reserve, take, peek, charge or refund; or renew, for slots of an [Acquisition]
	Key     string // with the prefix of [WithPrefix]

	// The caller gets Result and Err. Result.Source says what decided.
	Result Result
	Err    error

	// Limited says that the call as a whole was limited, and took nothing. Result may be OK even
	// then, if another row limits the call.
	Limited bool

	// Cause is the error for which Redis has not decided, or nil. A caller may get a Result without
	// an error even then: see [OnFailure].
	Cause error

	// Duration is the time from the call to the decision.
	Duration time.Duration

	// Waited is how long the caller of [Limiter.Acquire] had waited when it asked, and Behind is
	// the number of callers behind it in the line, without callers that wait for tokens. Both are 0
	// for other methods.
	Waited time.Duration
	Behind int
}

// callHooks calls the hooks with the decision on each row of a call.
func (l *Limiter) callHooks(ctx context.Context, inv *invocation, reply *backend.Reply, err error, took time.Duration) {
	if len(l.hooks) == 0 {
		return
	}
	event := Event{Command: redis.NameOf(inv.Operation), Err: err, Limited: Results(inv.results).Limited(),
		Duration: took, Waited: inv.waited, Behind: inv.behind}
	if inv.Renews {
		event.Command = "renew"
	}
	for i := range inv.results {
		event.Key, event.Result, event.Cause = inv.Rows[i].Key, inv.results[i], err
		if reply.Has(i) && reply.Row(i).Cause != nil {
			event.Cause = reply.Row(i).Cause
		}
		for _, hook := range l.hooks {
			hook(ctx, event)
		}
	}
}
