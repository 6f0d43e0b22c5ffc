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

// Refusals remember which keys have limited calls over several nodes, and until when each would
// limit the same call.
type refusals struct {
	now   func() time.Duration
	mutex sync.Mutex
	until idle.Map[string, time.Duration]
}

const (
	// sameInstant is the difference between two refusals that are until the same instant. It is far
	// above the jitter of a round trip, and far below the second after which a contested call asks
	// again: a caller that took the tokens meanwhile would have put the instant off by that.
	sameInstant = 100 * time.Millisecond

	// maxRefusals bounds the memory: a key takes less than 200 bytes. Beyond it, all are forgotten,
	// and their calls ask all parts at once.
	maxRefusals = 10_000
)

// note records what the rows of a part have decided. A node that does not answer counts as a
// refusal for a second. IsKnown is true if each row that refuses has refused until the same instant
// before, or refuses for ever.
func (r *refusals) note(p *part) (isKnown bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.now()
	isKnown = p.refused()
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
		before := r.until.Get(key)
		if until > 0 && (before == 0 || (until-before).Abs() > sameInstant) {
			isKnown = false
		}
		switch {
		case r.until.Has(key):
			r.until.Set(key, until)
		case until > 0:
			if r.until.Len() >= maxRefusals {
				r.until = idle.Map[string, time.Duration]{}
			}
			r.until.Add(strings.Clone(key), until, func(_ string, until time.Duration) bool { return until <= now })
		}
	}
	return isKnown
}

// separate returns the parts that will probably limit the call: they do unless another caller has
// given tokens back. It also returns the others. Wall tells which quotas have ended.
func (r *refusals) separate(parts []*part, wall time.Time) (likely, others []*part) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.now()
	limits := func(row backend.AskedRow) bool {
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
