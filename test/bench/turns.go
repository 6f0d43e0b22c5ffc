package bench

import (
	"fmt"
	"math/rand/v2"

	"github.com/montanaflynn/stats"
)

// A contestant is measured in rounds, in turn with others.
type contestant struct {
	title  string
	round  func() round // measures one
	rounds []round
}

type round [7]float64 // figures

const (
	rate        = iota // calls per second
	processor          // time that the server's threads worked, in microseconds per call
	p50                // microseconds until the reply
	p99                // the same
	asked              // calls per second that reached the server
	cpu                // time that this process worked, in microseconds per call
	allocations        // per call
)

// takeTurns measures rounds of all contestants, in another order each time: a machine that becomes
// slower is then slower for all of them. The first round does not count. It returns false after an
// error.
func (s *Setting) takeTurns(part string, all []*contestant) bool {
	random := rand.New(rand.NewPCG(1, 1))
	for turn := range 1 + s.Rounds {
		s.Progress("%s: round %d of %d", part, turn, s.Rounds)
		for _, i := range random.Perm(len(all)) {
			result := all[i].round()
			if s.failed(nil) {
				return false
			}
			if turn > 0 {
				all[i].rounds = append(all[i].rounds, result)
			}
		}
	}
	return true
}

func (c *contestant) median(figure int) float64 { return c.quartiles(nil, figure).Q2 }

// ratio formats the median of the ratio to a reference, and its quartiles.
func (c *contestant) ratio(reference *contestant, figure int) string {
	q := c.quartiles(reference, figure)
	return fmt.Sprintf("%.2f (%.2f–%.2f)", q.Q2, q.Q1, q.Q3)
}

// quartiles returns the quartiles of a figure over all rounds, divided by the figure of the
// reference in the same round.
func (c *contestant) quartiles(reference *contestant, figure int) stats.Quartiles {
	var values []float64
	for turn, own := range c.rounds {
		value := own[figure]
		if reference != nil {
			value /= reference.rounds[turn][figure]
		}
		values = append(values, value)
	}
	q, _ := stats.Quartile(values) // an error is for no values
	return q
}
