// Package limiter limits the rate of calls with Redis or Valkey: by the commands of the
// module funnel where it is loaded, and by an equivalent script where it is not.
//
//	l := limiter.New(rdb)
//	result, err := l.Allow(ctx, "user:42", limiter.PerMinute(30).Burst(15))
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
// every two seconds. 15 calls may come at once, and then one every two seconds. In the first
// minute that is 45 calls: a smaller Burst lets fewer through. A call whose tokens do not all fit
// is limited and changes nothing. The server decides in one atomic step, whatever the number of
// clients; package funnel/gcra explains the arithmetic.
//
// The limit is an argument of each call and is not stored. The key stores the time at
// which the funnel will be empty, and expires then. Burst may change at any time. Another
// rate needs another key, or a correction: see docs/commands.md, "Changing a limit".
//
// # One call
//
// A method makes a query, checks it, and passes it to decide, which returns an answer:
// from Redis, or, where Redis fails, from the [FailurePolicy]. An answer becomes a [Result].
// [Limiter.AllowAll] decides on several funnels as one, such as 10 a second and 1000 an hour.
// For unrelated calls in one round trip, use a client that pipelines (AutoPipeline), and
// goroutines. Package limiter/lease decides most calls for a hot key without a round trip.
//
// # Waiting
//
// [Limiter.Wait] reserves tokens that do not fit yet, and sleeps until they do: one call
// and one sleep. Callers are served in the order of asking, whatever the number of
// processes. [Limiter.Reserve] leaves the sleep to the caller. A reservation that is not used is
// lost. Where callers may give up before they are served, set [WithMaxWait].
//
// # Charges and refunds
//
// Where the cost of an action is known only afterwards, take an estimate, and pass the
// [Result] and the number of used tokens to [Limiter.Settle]. It charges what was used
// beyond the estimate, even if that does not fit, or gives the rest back, except for tokens that
// have leaked meanwhile. [Limiter.Charge] accounts for tokens without a Result.
//
// # From golang.org/x/time/rate
//
// There a Limiter is one bucket in one process; here it is all funnels in Redis. Make one,
// and pass key and limit with each call: rate.NewLimiter(30, 15) is PerSecond(30).Burst(15).
// Limited is the opposite of the bool there. [Limiter.Settle] with 0 takes the place of Cancel.
// There is no rate.Inf, and the zero Limit is an error.
//
// # Module or script
//
// A [Limiter] asks by the command of the module. If the server does not know it, or denies it to
// the user, the Limiter uses the script, and tries the command again after a minute. So it does
// on servers with redis-cell or Dragonfly, which have CL.THROTTLE alone. [WithPath] allows one
// path only.
//
// Module and script keep the same value under the same key and compute it alike. Both may work
// on one funnel at once: nodes may differ, and a fleet can move from one to the other. The script
// costs the server about five times as much, its clock counts microseconds, it refuses limits
// that docs/commands.md names, and above maxmemory it still decides calls that store nothing.
//
// There are two scripts. Calls that take, reserve or peek at tokens of one funnel go to a
// short one first, take.lua. The complete one, which [Script] returns, decides all others.
// A script is sent by its hash, and as text where a server lacks it. [Limiter.Peek] runs on
// replicas if the client reads from them; without the module that needs Redis 7 (EVALSHA_RO).
//
// # Without Redis
//
// When Redis does not answer, [OnFailure] decides: return the error, allow every call, limit
// every call, or use funnels inside this process. [NewLocal] is a Limiter that never asks Redis,
// for tests and for programs of one process.
//
// [WithTimeout] limits how long a call waits for Redis. After three calls in a row without
// an answer, further calls do not wait at all: one per second tries, until Redis answers.
//
// # Options of go-redis
//
// Set ContextTimeoutEnabled in [redis.Options]. A call returns when its time is over or its context
// is done, with or without it; without it, a goroutine waits on for go-redis, and a connection is
// in use, until the client's own ReadTimeout.
//
// go-redis repeats a command after a network error, three times by default. If the first attempt
// did reach the server, tokens are taken twice, which limits a little early, never late; refunds
// are sent once. MaxRetries = -1 turns retries off, and DialerRetries = 1 turns off the five
// attempts to connect, which take half a second when no server listens.
package limiter
