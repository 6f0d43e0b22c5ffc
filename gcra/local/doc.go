// Package local limits rates inside one process: the funnels of package gcra,
// kept in memory instead of in Redis.
//
// # The textbook funnel
//
// The funnel that textbooks print is an object with four fields, a method that
// lets it leak and a method that pours, and a dictionary of such objects:
//
//	class Funnel:                                  here
//	    capacity, leaking_rate                     gcra.Rate, see NewRate
//	    left_quota, leaking_ts                     one number, the TAT
//	    make_space()                               nothing to do: time passes by itself
//	    watering(quota)                            Funnel.Watering
//	funnels = {}                                   Funnels
//	is_action_allowed(user, action, 15, 0.5)       Funnels.IsActionAllowed
//
// Both answer alike, but the book's funnel has leaks in the wrong places. It adds
// up floating point numbers (or, printed in Java, drops the fraction of a token at
// each leak), it fixes capacity and leaking rate at the first call, its key
// "%s:%s" takes user "a:b" doing "c" for user "a" doing "b:c", two threads can
// pour at once, and the dictionary never forgets. Here the arithmetic is exact,
// rates may change from call to call, keys are told apart, and every method may be
// called from any number of goroutines.
//
// # Forgetting
//
// A funnel that has run empty is no different from one that was never used, so
// [Funnels] drops it. No goroutine sweeps: every call drops some of the funnels
// that have drained by then, more than it can add, and when few are left of many,
// the memory of the many is given back. So the memory is that of the funnels that
// hold water.
//
// One funnel costs 60 to 90 bytes and those of its key, more right after its
// tables have grown and less just before: measured from a thousand to three
// million funnels on 64-bit Linux. TestBytesPerFunnel measures it again.
//
// A call takes a few tenths of a microsecond and one lock for the whole set. The
// longest are those that grow the tables or give them back, because they copy what
// there is: some tens of milliseconds in a set that held a million funnels.
//
// # Clocks
//
// The clock is passed in, so tests and simulations decide what time it is. The
// clock of the computer is read in such a way that setting it, or a leap second,
// does not reach the funnels. A clock that is passed in and steps back finds them
// as package gcra describes: the water stands higher, by as much as the clock went
// back, and calls are limited until it has leaked. Funnels that had drained by the
// later time may have been forgotten, and count as empty, just as a key that
// expired in Redis.
package local
