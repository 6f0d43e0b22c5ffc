package guard

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// quiet is the time for which Redis has to decide every call before an outage counts as over.
// Without it, a failover in which some calls fail and others succeed, or one key of many that is
// denied, would be logged as many outages.
const quiet = 10 * time.Second

// An outage is a time in which calls are decided without Redis. It is logged twice, when it begins
// and when it is over, however many calls succeed or fail meanwhile. Instants are times of a
// monotonic clock.
type outage struct {
	logger *slog.Logger
	policy string
	begun  atomic.Bool // read without the mutex: successes matter only during an outage

	mutex       sync.Mutex
	since       time.Duration
	lastFailure time.Duration
	calls       int // that Redis has not decided
}

// failed records a call that Redis has not decided.
func (o *outage) failed(ctx context.Context, now time.Duration, cause error) {
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
		o.logger.WarnContext(ctx, "redis unavailable: rate limits fall back to policy "+o.policy, "error", cause)
	}
}

// decided records a call that Redis has decided.
func (o *outage) decided(ctx context.Context, now time.Duration) {
	o.mutex.Lock()
	ends := o.begun.Load() && now-o.lastFailure >= quiet
	lasted, calls := o.lastFailure-o.since, o.calls
	if ends {
		o.begun.Store(false)
		o.calls = 0
	}
	o.mutex.Unlock() // before it logs
	if ends {
		o.logger.InfoContext(ctx, "redis available: it decides rate limits again", "after", lasted, "calls", calls)
	}
}
