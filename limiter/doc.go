// Package limiter limits the rate of calls with Redis or Valkey: by the commands of the
// module funnel where it is loaded, and by an equivalent script where it is not.
//
//	l := limiter.New(rdb)
//	result, err := l.Allow(ctx, "user:reply", limiter.PerMinute(30).Burst(15))
//	if err != nil {
//		return err
//	}
//	if result.Limited() {
//		return fmt.Errorf("try again in %v", result.RetryAfter)
//	}
//
// # The idea
//
// Each key is a funnel. A call pours tokens in, and they leak out at a constant rate:
// limiter.PerMinute(30).Burst(15) is a funnel that holds 15 tokens and leaks one every
// two seconds, so 15 calls may come at once, and then one every two seconds. A call
// whose tokens do not all fit is limited and changes nothing. The server decides in
// one atomic step, whatever the number of clients; package funnel/gcra explains the
// arithmetic.
//
// The limit is an argument of each call and not stored, so it can change at any
// time. An empty funnel leaves nothing behind.
//
// # Waiting
//
// [Limiter.Wait] reserves tokens that are still to leak, and sleeps until they have: one
// call and one sleep, in the order of asking, whatever the number of processes. Until
// then the funnel limits others, so nobody overtakes. [Limiter.Reserve] leaves the sleep
// to the caller.
//
// A reservation that is not used is lost. Where callers may go away before their turn,
// set [WithLongestWait].
//
// # From golang.org/x/time/rate
//
// There a Limiter is one bucket in one process, here it is all funnels in Redis: make one,
// and tell key and limit with each call. rate.NewLimiter(30, 15) is PerSecond(30).Burst(15);
// slower than one per second is PerMinute, PerHour or Per. Allow returns a [Result], whose
// method Limited is the opposite of the bool there. As there, WaitN returns an error at once
// for more than the capacity, which is [ErrNeverFits], and when the turn would come after the
// deadline. Reserve takes a longest wait; what Cancel does there is Refund. There is no
// rate.Inf, and the zero Limit is an error.
//
// # Several limits
//
// [Limiter.AllowAll] decides on several funnels as one, such as 10 a second and 1000 an
// hour: it pours into all of them or into none. [Limiter.AllowMany] sends calls at once
// that have nothing to do with each other.
//
// # Charges and refunds
//
// Where the cost of an action is known only afterwards, [Limiter.Charge] books what it
// was, even if that does not fit, and [Limiter.Refund] gives back what was not used.
//
// # Module or script
//
// A [Limiter] asks for the command of the module. If the server does not know it, the
// Limiter uses the script, and tries the command again after a minute. In a cluster or a
// ring, nodes may differ. [WithPath] allows one way only.
//
// Module and script keep the same value under the same key, compute it alike, and reply
// the same times, to the nanosecond. So both may work on one funnel at once, and a fleet
// of servers or clients can move from one to the other without losing tokens. They differ
// in this: the script costs the server several times as much, its clock counts
// microseconds, and when the server is out of memory it still decides calls that store
// nothing.
//
// The script is sent by its hash, and as text when a server does not have it yet. It
// declares its keys, so it works in a cluster; replicas receive the SET that it
// executes. [Limiter.Peek] runs on replicas, where the client reads from them; without the
// module that takes EVALSHA_RO, of Redis 7.
//
// # redis-cell
//
// A server that has CL.THROTTLE alone, as redis-cell and Dragonfly do, decides calls of
// [Limiter.Allow] and [Limiter.AllowN] by it, if the period is in whole seconds. Its
// times are rounded up to seconds. All else, and calls of AllowMany, are decided by the
// script.
//
// These servers, and funnel when it is loaded with compat redis-cell, read the capacity
// as one less. The Limiter finds out by the limit in the reply, and the capacity is as
// you say.
//
// # Without Redis
//
// When Redis does not answer, [OnFailure] decides: return the error, allow every
// call, limit every call, or use funnels inside this process. See [Failure].
//
// [WithTimeout] bounds how long a call waits for that. After three calls in a row without
// an answer, further calls do not wait at all: one in a second tries, until Redis answers.
// Set ContextTimeoutEnabled in [redis.Options], or each call that has a timeout or can be
// canceled takes a goroutine. With it go-redis heeds deadlines only: a call whose context
// is canceled ends by its timeout.
//
// A client of go-redis repeats a command after a network error, three times by
// default. If the first attempt did reach the server, tokens are poured twice,
// which limits a little early, never late. [redis.Options].MaxRetries = -1 turns
// retries off, and DialerRetries = 1 the five attempts to connect, which take half
// a second when no server listens.
package limiter
