package limiter

import (
	"time"

	"funnel/gcra"
	"funnel/internal/funnels"
)

// A prefilter keeps, for each funnel in Redis, one in this process that is never
// fuller: what does not fit into this one does not fit into that one.
type prefilter struct {
	enabled bool
	funnels *funnels.Set
}

// limits decides a call of one funnel, for tokens now, that is surely limited. It leaves
// all others to the server.
func (p *prefilter) limits(c *call) bool {
	if !p.enabled || c.operation != gcra.Take && c.operation != gcra.Reserve || c.lastWord > 0 || len(c.funnels) != 1 || c.funnels[0].quantity == 0 {
		return false
	}
	f := &c.funnels[0]
	quantity := int64(f.quantity)
	if c.operation == gcra.Take {
		quantity = 1
	}
	decision, err := p.funnels.Peek(f.key, f.shape.rate, quantity)
	if err != nil || !decision.Limited {
		return false
	}
	decision.TAT = 0 // nothing was taken
	c.path, c.parts[0].Decision = PathPrefilter, decision
	return true
}

// learn stores the levels that a reply says. Counted from the instant at which the
// call was sent, which was before the server decided, they cannot be too high.
func (p *prefilter) learn(c *call, sent time.Time) {
	if !p.enabled {
		return
	}
	p.forget(c)
	for i := range c.funnels {
		f := &c.funnels[i]
		p.funnels.Raise(f.key, sent.Add(leastLevel(f.shape.rate, &c.parts[i].Decision)))
	}
}

// forget empties the funnels of a refund, which lowers levels, or may have where its answer is
// lost.
func (p *prefilter) forget(c *call) {
	for i := range c.funnels {
		if c.operation == gcra.Refund {
			p.funnels.Empty(c.funnels[i].key)
		}
	}
}

// leastLevel is the lowest level that a funnel can have after that reply, as the time
// in which it drains. CL.THROTTLE rounds seconds up, and whole tokens down; the better
// of the two is taken.
func leastLevel(rate gcra.Rate, decision *gcra.Decision) time.Duration {
	if decision.ResetAfter%int64(time.Second) != 0 {
		return time.Duration(decision.ResetAfter)
	}
	ofReset := decision.ResetAfter - int64(time.Second) + 1
	ofRemaining := rate.Tolerance() - (decision.Remaining+1)*rate.EmissionInterval() + 1
	return time.Duration(max(0, ofReset, ofRemaining))
}
