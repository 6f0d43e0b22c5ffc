package nodes

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"funnel/internal/decision"
	"funnel/internal/idle"
	"funnel/limiter/internal/backend"
)

// Refusals remember which keys have limited calls over several nodes, and until when each would limit
// the same call.
type refusals struct {
	now   func() time.Duration
	mutex sync.Mutex
	until idle.Map[string, time.Duration]
}

// note records what the rows of a part have decided. A node that does not answer counts as a refusal
// for a second.
func (r *refusals) note(p *part) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.now()
	for i := range p.call.Rows {
		key, row := p.call.Rows[i].Key, p.reply.Row(i)
		until, wait := time.Duration(0), row.Wait
		isDown := errors.Is(p.err, backend.ErrUnavailable)
		if isDown {
			wait = time.Second
		}
		if (isDown || row.Limited) && wait != time.Duration(decision.Never) {
			until = now + min(wait, math.MaxInt64-now)
		}
		switch {
		case r.until.Has(key):
			r.until.Set(key, until)
		case until > 0:
			r.until.Add(strings.Clone(key), until, func(_ string, until time.Duration) bool { return until <= now })
		}
	}
}

// separate returns the parts that would limit the call for certain if no other caller gave tokens back,
// and the others. Wall tells which quotas have ended.
func (r *refusals) separate(parts []*part, wall time.Time) (likely, others []*part) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.now()
	limits := func(row backend.Row) bool {
		return row.NeverFits() || row.HasEnded(wall) || r.until.Get(row.Key) > now
	}
	for _, p := range parts {
		if slices.ContainsFunc(p.call.Rows, limits) {
			likely = append(likely, p)
		} else {
			others = append(others, p)
		}
	}
	return likely, others
}
