// The tests set the clock of Leases, and count what they keep.

package lease

import "time"

func SetNow(s *Leases, now func() time.Time) {
	began := now()
	s.now = func() time.Duration { return now().Sub(began) }
}

func Count(s *Leases) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.leases.Len()
}
