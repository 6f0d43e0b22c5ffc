// Package limiter limits the rate of calls with Redis or Valkey: by the commands of the
// module funnel where it is loaded, and by an equivalent script where it is not.
//
//	l := limiter.New(rdb)
//	result, err := l.Allow(ctx, "user:reply", limiter.PerMinute(30).Burst(15))
//	if err != nil {
//		return err
//	}
//	if result.Limited() {
//		return fmt.Errorf("try again in %v", result.RetryAfter.Round(time.Millisecond))
//	}
//
// # The idea
//
// Each key is a funnel. The tokens that a call takes fill it, and leak out at a constant
// rate: limiter.PerMinute(30).Burst(15) is a funnel that holds 15 tokens and leaks one
// every two seconds. 15 calls may come at once, and then one every two seconds. A call
// whose tokens do not all fit is limited and changes nothing. The server decides in one
// atomic step, whatever the number of clients; package funnel/gcra explains the
// arithmetic.
//
// The limit is an argument of each call and is not stored. The key stores the time at
// which the funnel will be empty, and expires then. Burst may change at any time. Another
// rate needs another key, or a correction: the time that 15 tokens take to leak at 30 per
// minute is that of 1,500 tokens at 3,000 per minute, and the funnel limits for 29.7
// seconds. See docs/commands.md, "Changing a limit".
//
// # Waiting
//
// [Limiter.Wait] reserves tokens that do not fit yet, and sleeps until they do: one call
// and one sleep. Callers are served in the order of asking, whatever the number of
// processes. [Limiter.Reserve] leaves the sleep to the caller.
//
// A reservation that is not used is lost. Where callers may give up before they are
// served, set [WithLongestWait].
//
// # From golang.org/x/time/rate
//
// There a Limiter is one bucket in one process; here it is all funnels in Redis. Make one,
// and pass key and limit with each call. rate.NewLimiter(30, 15) is PerSecond(30).Burst(15);
// slower than one per second is PerMinute, PerHour, Per or Every. Allow returns a [Result], whose
// method Limited is the opposite of the bool there. As there, WaitN returns an error at once
// for more than the capacity, which is [ErrNeverFits], and when the wait would end after the
// deadline. Reserve takes a longest wait. There is no rate.Inf, and the zero Limit is an
// error.
//
// [Limiter.Settle] with 0 takes the place of Cancel: it gives back those tokens of the
// reservation that have not leaked, even once it is due, and even if later ones were made.
// Cancel returns none once the reservation is due, and fewer if later ones were made.
//
// # Several limits
//
// [Limiter.AllowAll] decides on several funnels as one, such as 10 a second and 1000 an
// hour: it takes tokens from all of them or from none. [Limiter.AllowMany] sends unrelated
// calls in one round trip.
//
// # Charges and refunds
//
// Where the cost of an action is known only afterwards, take an estimate, and pass the
// [Result] and the number of used tokens to [Limiter.Settle]. It charges what was used
// beyond the estimate, even if that does not fit, or gives the rest back. The Result has a
// receipt, by which tokens that have leaked meanwhile do not come back.
//
// [Limiter.Charge] and [Limiter.Refund] account for tokens without a Result, such as those
// of another process. A late Refund gives back other callers' tokens.
//
// # Module or script
//
// A [Limiter] asks for the command of the module. If the server does not know it, the
// Limiter uses the script, and tries the command again after a minute. In a cluster or a
// ring, nodes may differ. [WithModuleOnly] and [WithScriptOnly] allow one way only.
//
// Module and script keep the same value under the same key, compute it alike, and reply
// the same times, to the nanosecond. Both may work on one funnel at once, and a fleet of
// servers or clients can move from one to the other without losing tokens. They differ in
// three ways: the script costs the server about five times as much; its clock counts
// microseconds; and when the server is out of memory, it still decides calls that store
// nothing.
//
// There are two scripts. Calls that take, reserve or peek at tokens of one funnel go to a
// short one first, take.lua. The complete one, which [Script] returns, decides all other
// calls, and those that take.lua leaves to it, such as calls on keys that hold no funnel.
//
// A script is sent by its hash, and as text when a server does not have it yet. It
// declares its keys, so it works in a cluster; replicas receive the SET that it executes.
// [Limiter.Peek] runs on replicas if the client reads from them; without the module that
// needs EVALSHA_RO, which Redis has from version 7 on.
//
// # redis-cell
//
// A server that has CL.THROTTLE alone, as redis-cell and Dragonfly do, decides calls of
// [Limiter.Allow] and [Limiter.AllowN] by it, if the period is in whole seconds. Its
// times are rounded up to seconds. The script decides everything else, including calls of
// AllowMany.
//
// These servers, and funnel when it is loaded with compat redis-cell, allow one token more
// than the capacity that they are sent. The Limiter sends them one less: the capacity is what
// you say. How funnel was loaded it learns once, before its first call, by the same command
// with quantity 0, from the limit in the reply. When a server is restarted in the other mode,
// the next reply shows it. A call that has taken nothing is then asked again, and the result
// of any other is corrected; it may have been allowed one token too many. All nodes of a
// cluster or ring should be loaded in one mode.
//
// # Without Redis
//
// When Redis does not answer, [OnFailure] decides: return the error, allow every
// call, limit every call, or use funnels inside this process. See [Failure]. [NewLocal] is a
// Limiter that never asks Redis, for tests and for programs of one process.
//
// [WithTimeout] limits how long a call waits for Redis. After three calls in a row without
// an answer, further calls do not wait at all: one per second tries, until Redis answers.
// Set ContextTimeoutEnabled in [redis.Options], or each call that has a timeout or can be
// canceled needs a goroutine. With it go-redis heeds deadlines only: a call whose context
// is canceled ends by its timeout.
//
// A client of go-redis repeats a command after a network error, three times by default. If
// the first attempt did reach the server, tokens are taken twice, which limits a little
// early, never late; refunds are sent once. [redis.Options].MaxRetries = -1 turns retries
// off, and DialerRetries = 1 turns off the five attempts to connect, which take half a second
// when no server listens.
package limiter
