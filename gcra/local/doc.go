// Package local limits rates inside one process: the funnels of package gcra,
// kept in memory instead of in Redis.
//
// # The textbook funnel
//
// The textbook version is an object with four fields, a method that
// lets it leak and a method that pours water in, and a dictionary of such objects:
//
//	class Funnel:                                  here
//	    capacity, leaking_rate                     gcra.Rate, see NewRate
//	    left_quota, leaking_ts                     one number, the TAT
//	    make_space()                               nothing to do: time passes by itself
//	    watering(quota)                            Funnel.Take
//	funnels = {}                                   Funnels
//	is_action_allowed(user, action, 15, 0.5)       Funnels.IsActionAllowed
//
// Both decide alike, but the textbook version has five defects. It adds up floating
// point numbers (or, in Java, drops the fraction of a token at each leak), it fixes
// capacity and leaking rate at the first call, its key "%s:%s" is the same for user
// "a:b" doing "c" and user "a" doing "b:c", two threads can change it at once, and the
// dictionary only grows. Here the arithmetic is exact, rates may change from call to
// call, keys are distinct, every method may be called from any number of goroutines,
// and empty funnels are removed.
//
// # Memory
//
// An empty funnel is the same as one that was never used, so [Funnels] removes it.
// There is no background goroutine: every call removes some of the funnels that have
// drained by then, more than it can add, and when few of many are left, the tables
// shrink. The memory is that of the funnels that are not empty.
//
// One funnel takes 60 to 90 bytes and those of its key, more right after the tables
// have grown and less just before: measured from a thousand to three
// million funnels on 64-bit Linux. TestBytesPerFunnel measures it again.
//
// A call takes a few tenths of a microsecond and one lock for the whole set. Calls
// that grow or shrink the tables copy them: some tens of milliseconds in a set that
// held a million funnels.
//
// # Clocks
//
// The clock is an argument, for tests and simulations. time.Now is read as a
// monotonic clock, so setting the system clock, or a leap second, has no effect. When
// another clock steps back, funnels are fuller by as much as it went back, and calls
// are limited until that has leaked. Funnels that had drained by the later time may
// have been removed, and count as empty, like a key that expired in Redis.
package local
