package local

import (
	"time"

	"funnel/gcra"
	"funnel/internal/funnels"
)

// Funnels is a set of funnels, each under its key. Make one with [New]; all
// methods may be called from any number of goroutines.
type Funnels struct{ set *funnels.Set }

// New returns an empty set. The time comes from now, between 1970 and 2262; nil
// means time.Now.
func New(now func() time.Time) *Funnels { return &Funnels{funnels.New(now)} }

// Take takes quantity tokens, at least 0, from the funnel of that key, where 0 peeks: all of
// them, or none if they do not fit, and the decision says Limited. A key that is not there is
// an empty funnel. The rate may differ from call to call, as [gcra.Rate.Decide] describes.
// The errors are those of Decide; they change nothing.
func (f *Funnels) Take(key string, rate gcra.Rate, quantity int64) (gcra.Decision, error) {
	return f.set.Take(key, rate, quantity)
}

// IsActionAllowed takes one token from the funnel of [Key](user, action), which
// holds capacity tokens and leaks leakingRate tokens per second, and reports
// whether it fitted. The errors are those of [NewRate] and of [gcra.Rate.Decide]; beside
// an error the answer is false.
func (f *Funnels) IsActionAllowed(user, action string, capacity int64, leakingRate float64) (bool, error) {
	rate, err := NewRate(capacity, leakingRate)
	if err != nil {
		return false, err
	}
	decision, err := f.Take(Key(user, action), rate, 1)
	return err == nil && !decision.Limited, err
}

// Len returns how many funnels are kept: those that were not empty at the last call,
// and those that have drained and not been removed yet.
func (f *Funnels) Len() int { return f.set.Len() }
