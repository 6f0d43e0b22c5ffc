package limiter

import (
	"time"

	"funnel/gcra"
	"funnel/gcra/local"
)

// A prefilter keeps, for each funnel in Redis, one in this process that is never
// fuller: what does not fit into this one does not fit into that one.
type prefilter struct {
	enabled bool
	funnels *local.Funnels
}

func (p *prefilter) start(clock Clock) { p.funnels = local.New(clock.Now) }

func (p *prefilter) empty(key string) { p.funnels.Empty(key) }

// limits decides a call that is surely limited. It leaves peeks to the server, whose
// reply is exact.
func (p *prefilter) limits(c call) (Result, bool) {
	if !p.enabled || c.quantity == 0 {
		return Result{}, false
	}
	decision, err := p.funnels.Peek(c.key, c.rate, int64(c.quantity))
	if err != nil || !decision.Limited {
		return Result{}, false
	}
	return resultOf(c, decision, PathPrefilter), true
}

// learn stores the level that a reply says. Counted from the instant at which the
// call was sent, which was before the server decided, it cannot be too high.
func (p *prefilter) learn(c call, result Result, sent time.Time) {
	if p.enabled {
		p.funnels.Raise(c.key, sent.Add(leastLevel(c.rate, result)))
	}
}

// leastLevel is the lowest level that a funnel can have after that reply, as the time
// in which it drains. The module rounds seconds up, and whole tokens down; the better
// of the two is taken.
func leastLevel(rate gcra.Rate, result Result) time.Duration {
	if result.Path != PathModule {
		return result.ResetAfter
	}
	tolerance, interval := time.Duration(rate.Tolerance()), time.Duration(rate.EmissionInterval())
	ofReset := result.ResetAfter - time.Second + 1
	ofRemaining := tolerance - time.Duration(result.Remaining)*interval - interval + 1
	return max(0, ofReset, ofRemaining)
}
