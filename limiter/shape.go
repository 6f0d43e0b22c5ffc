package limiter

import (
	"sync"

	"funnel/gcra"
)

// A shape is a Limit that has been checked, its words as commands take them, and those of a
// token as take.lua does.
type shape struct {
	rate                             gcra.Rate
	capacity, oneLess, count, period any
	tolerance, interval              any
}

// Shapes are those of the limits that were used: a limit is checked and written once, and
// programs have few. All methods may be called from any number of goroutines.
type shapes struct {
	mutex sync.RWMutex
	known map[Limit]*shape
}

// mostShapes bounds the memory of a program that makes up limits.
const mostShapes = 1000

// of returns the shape of a limit, or why it is not valid.
func (s *shapes) of(limit Limit) (*shape, error) {
	s.mutex.RLock()
	found := s.known[limit]
	s.mutex.RUnlock()
	if found != nil {
		return found, nil
	}
	rate, err := limit.Rate()
	if err != nil {
		return nil, err
	}
	found = &shape{rate, limit.Capacity, limit.Capacity - 1, limit.Count, secondsOf(limit.Period), rate.Tolerance(), rate.EmissionInterval()}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.known == nil || len(s.known) >= mostShapes {
		s.known = map[Limit]*shape{}
	}
	s.known[limit] = found
	return found, nil
}
