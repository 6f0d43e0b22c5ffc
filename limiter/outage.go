package limiter

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// quiet is how long Redis has to decide every call before an outage counts as over.
const quiet = 10 * time.Second

// An outage is a time in which calls are decided without Redis. It is logged twice, when
// it begins and when it is over, however many calls succeed or fail meanwhile.
type outage struct {
	begun atomic.Bool // calls that Redis decides are told of only then

	mutex       sync.Mutex
	since       time.Time
	lastFailure time.Time
	calls       int // that Redis has not decided
}

// failed is told of a call that Redis has not decided.
func (o *outage) failed(ctx context.Context, logger *slog.Logger, now time.Time, policy FailurePolicy, cause error) {
	o.mutex.Lock()
	o.calls++
	o.lastFailure = now
	begins := !o.begun.Load()
	if begins {
		o.begun.Store(true)
		o.since = now
	}
	o.mutex.Unlock() // before it logs: the logger may block, or call the Limiter
	if begins {
		logger.WarnContext(ctx, "rate limits are decided without Redis", "on_failure", policy.String(), "error", cause)
	}
}

// decided is told of a call that Redis has decided.
func (o *outage) decided(ctx context.Context, logger *slog.Logger, now time.Time) {
	o.mutex.Lock()
	ends := o.begun.Load() && now.Sub(o.lastFailure) >= quiet
	lasted, calls := o.lastFailure.Sub(o.since), o.calls
	if ends {
		o.begun.Store(false)
		o.calls = 0
		defer logger.InfoContext(ctx, "rate limits are decided by Redis again", "after", lasted, "calls", calls)
	}
	o.mutex.Unlock() // before it logs
}
