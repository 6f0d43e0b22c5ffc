package guard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"funnel/limiter/internal/redis"
)

// complainEach is how often a wrong configuration is logged while it lasts. Somebody has to mend it, so
// it must not be one line among many thousands, nor many thousands of lines.
const complainEach = time.Minute

// A refused is a program that Redis refuses as a whole: its password or its rights are wrong. That is no
// outage, and nobody waits for its end. Policies such as FailOpen would hide it.
type refused struct {
	logger *slog.Logger
	mutex  sync.Mutex
	next   time.Duration // when it is logged again
}

// note reports whether a cause says that Redis refuses this program, and logs it. Now is a time of a
// monotonic clock that begins at 0.
func (r *refused) note(ctx context.Context, now time.Duration, cause error) bool {
	if !redis.IsMisconfigured(cause) {
		return false
	}
	r.mutex.Lock()
	logs := now >= r.next
	if logs {
		r.next = now + complainEach
	}
	r.mutex.Unlock() // before it logs: the logger may block, or call the Limiter
	if logs {
		r.logger.ErrorContext(ctx, "redis refuses this program: check its user, password and rights", "error", cause)
	}
	return true
}
