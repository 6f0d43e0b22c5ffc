// The tests set the clock of Leases, and count what they keep.

package lease

import "time"

// SetNow has Leases take the time from now.
func SetNow(s *Leases, now func() time.Time) {
	began := now()
	s.now = func() time.Duration { return now().Sub(began) }
}

// Count is how many leases there are.
func Count(s *Leases) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.leases.Len()
}
