// Tests outside of the package set the clock of Leases, and count the keys that they keep.

package lease

import "time"

func SetClock(s *Leases, now func() time.Duration) { s.now = now }

func Count(s *Leases) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.leases.Len()
}
