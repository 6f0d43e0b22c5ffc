package limiter

import (
	"time"

	"funnel/gcra/local"
)

// IsFault is isFault.
var IsFault = isFault

// SetNow has a Limiter, with its funnels in this process, take the time from now.
func SetNow(l *Limiter, now func() time.Time) {
	l.now, l.server.now, l.failure.now = now, now, now
	l.prefilter.funnels, l.failure.local = local.New(now), local.New(now)
}
