package servertest

import (
	"sync"
	"time"
)

// Pace lets callers make calls for a length of time, for benchmarks. At a rate, in calls a second,
// the callers take turns. With a rate of 0 each makes its next call when the last one is over.
//
// A call gets the number of its caller, and the instant from which to measure it: when it is due.
// So it counts, too, that a slow call delays the next one of its caller. If the caller has slept
// until the call was due, the instant is when it woke: a timer that is late is the machine's fault.
// If call returns false, its caller stops.
func Pace(callers, rate int, length time.Duration, call func(caller int, due time.Time) bool) {
	var all sync.WaitGroup
	begin := time.Now()
	for caller := range callers {
		all.Go(func() {
			for i := caller; ; i += callers {
				due := time.Now()
				if rate > 0 {
					due = begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
				}
				if due.Sub(begin) >= length {
					return
				}
				early := time.Until(due)
				if early > 0 {
					time.Sleep(early)
					due = time.Now()
				}
				if !call(caller, due) {
					return
				}
			}
		})
	}
	all.Wait()
}
