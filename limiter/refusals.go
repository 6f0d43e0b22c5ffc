package limiter

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"funnel/internal/idle"
	"funnel/limiter/internal/backend"
)

// Refusals remember which keys have limited calls over several nodes, and until when each would limit the same call.
type refusals struct {
	now   func() time.Duration
	mutex sync.Mutex
	until idle.Map[string, time.Duration]
}

// note records what the rows of a part have decided. A node that does not answer counts as a refusal for a second.
func (r *refusals) note(p *part) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.now()
	for i := range p.results {
		key, until, wait := p.Rows[i].Key, time.Duration(0), p.results[i].RetryAfter
		if errors.Is(p.err, ErrUnavailable) {
			wait = time.Second
		}
		if wait != NoRetry && p.results[i].Limited() {
			until = now + min(wait, maxDuration-now)
		}
		switch {
		case r.until.Has(key):
			r.until.Set(key, until)
		case until > 0:
			r.until.Add(strings.Clone(key), until, func(_ string, until time.Duration) bool { return until <= now })
		}
	}
}

// separate returns the parts that would limit the call for certain if no other caller gave tokens back, and the others.
// Wall tells which quotas have ended.
func (r *refusals) separate(parts []*part, wall time.Time) (likely, others []*part) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.now()
	limits := func(row backend.Row) bool {
		return row.NeverFits() || row.HasEnded(wall) || r.until.Get(row.Key) > now
	}
	for _, p := range parts {
		if slices.ContainsFunc(p.Rows, limits) {
			likely = append(likely, p)
		} else {
			others = append(others, p)
		}
	}
	return likely, others
}
