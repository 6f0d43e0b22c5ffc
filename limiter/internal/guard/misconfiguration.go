package guard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"funnel/limiter/internal/redis"
)

// complainEach is how often a wrong configuration is logged while it lasts. Somebody has to mend
// it, so it must not be one line among many thousands, nor many thousands of lines.
const complainEach = time.Minute

// A misconfiguration is a wrong user, password or permission: Redis rejects every call. That is no
// outage: it lasts until somebody corrects it, and policies such as FailOpen would hide it.
type misconfiguration struct {
	logger *slog.Logger
	mutex  sync.Mutex
	next   time.Duration // when it is logged again
}

// note reports whether a cause says that Redis refuses this program, and logs it. Now is a time of
// a monotonic clock that begins at 0.
func (m *misconfiguration) note(ctx context.Context, now time.Duration, cause error) bool {
	if !redis.IsMisconfigured(cause) {
		return false
	}
	m.mutex.Lock()
	logs := now >= m.next
	if logs {
		m.next = now + complainEach
	}
	m.mutex.Unlock() // before it logs: the logger may block, or call the Limiter
	if logs {
		m.logger.ErrorContext(ctx, "redis refuses this program: check its user, password and rights", "error", cause)
	}
	return true
}
