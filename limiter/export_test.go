package limiter

import (
	"time"

	"funnel/internal/funnels"
)

// IsFault is isFault.
var IsFault = isFault

// SetNow has a Limiter, with its funnels in this process, take the time from now.
func SetNow(l *Limiter, now func() time.Time) {
	l.now, l.failure.now = now, now
	if l.server != nil {
		l.server.now = now
	}
	l.prefilter.funnels, l.failure.local = funnels.New(now), funnels.New(now)
}
