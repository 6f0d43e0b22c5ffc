// Package limiter limits the rate of calls with Redis or Valkey: with the command
// CL.THROTTLE where the module funnel is loaded, and with an equivalent script where
// it is not.
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
// # Module or script
//
// A [Limiter] asks the server once, with its first call, whether it has the command
// (COMMAND INFO), and again when a reply shows that this has changed: the command
// or the script is unknown, as after a restart. In a cluster the module is used when
// all primaries have it.
//
// Module and script keep the same value under the same key and compute it alike, to
// the nanosecond, so both may work on one funnel at once, and a fleet of servers or
// clients can move from one to the other without losing tokens. They differ in
// this: the script costs the server several times as much, its clock counts
// microseconds, it replies nanoseconds in [Result.RetryAfter] and
// [Result.ResetAfter] where the command replies seconds, rounded up, and when
// the server is out of memory it still decides calls that store nothing.
//
// The script is sent by its hash, and as text when a server does not have it yet. It
// declares its key, so it works in a cluster; replicas receive the SET that it
// executes.
//
// A server with the module redis-cell, with funnel in that mode, or Dragonfly reads
// the second argument of CL.THROTTLE as one less than the capacity. The Limiter
// detects this, and the capacity is as you say. redis-cell takes whole seconds
// only: periods such as 500ms are errors there.
//
// # Without Redis
//
// When Redis does not answer, [OnFailure] decides: return the error, allow every
// call, limit every call, or use funnels inside this process. See [Failure].
//
// A client of go-redis repeats a command after a network error, three times by
// default. If the first attempt did reach the server, tokens are poured twice,
// which limits a little early, never late. [redis.Options].MaxRetries = -1 turns
// retries off, and DialerRetries = 1 the five attempts to connect, which take half
// a second when no server listens.
package limiter
