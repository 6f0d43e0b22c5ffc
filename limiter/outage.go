package limiter

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// quiet is how long Redis has to decide every call before an outage counts as over.
const quiet = 10 * time.Second

// An outage is a time in which calls are decided without Redis. It is logged twice, when
// it begins and when it is over, however many calls succeed or fail meanwhile.
type outage struct {
	mutex sync.Mutex
	since time.Time // or zero
	last  time.Time // of the calls that Redis has not decided
	calls int
}

// add is told of a call that Redis has not decided.
func (o *outage) add(ctx context.Context, logger *slog.Logger, now time.Time, policy Failure, cause error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.calls++
	o.last = now
	if o.since.IsZero() {
		o.since = now
		logger.WarnContext(ctx, "rate limits are decided without Redis", "policy", policy.String(), "error", cause)
	}
}

// over is told of a call that Redis has decided.
func (o *outage) over(ctx context.Context, logger *slog.Logger, now time.Time) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.since.IsZero() || now.Sub(o.last) < quiet {
		return
	}
	logger.InfoContext(ctx, "rate limits are decided by Redis again", "after", o.last.Sub(o.since), "calls", o.calls)
	o.since, o.calls = time.Time{}, 0
}
