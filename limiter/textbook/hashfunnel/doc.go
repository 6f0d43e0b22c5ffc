// Package hashfunnel implements a leaky bucket limiter on a hash in Redis or Valkey,
// with the fields water and lastTime, and a short script.
//
//	funnels := hashfunnel.New(rdb, nil)
//	allowed, err := funnels.IsActionAllowed(ctx, "laoqian", "reply", 15, 0.5)
//
// # The idea
//
// This is the textbook funnel (see package gcra/local) in the server: its fields are a
// hash, its method a script: reading and writing are one atomic step. Each
// call subtracts what has leaked since lastTime, and adds its token if there is room:
//
//	> hgetall funnel:laoqian:reply
//	1) "water"
//	2) "15"
//	3) "lastTime"
//	4) "1795238179689988"
//
// The textbook version has six bugs:
//
//   - It counts whole seconds. Two calls around the end of a second get a whole
//     second's leak; at 1000 tokens per second, they come 1000 at once. Here lastTime
//     counts microseconds.
//   - It keeps each hash for a day. Most funnels are empty after seconds, and their
//     hashes stay; one that takes longer than a day to drain expires before, and
//     allows a full burst. Here the hash expires when the funnel is empty.
//   - It adds up floating point numbers and compares them exactly. Sometimes a call that
//     comes just in time is limited. Here it may be a millionth of a token early.
//   - A clock that is set back adds tokens. Here nothing leaks until the clock is
//     where it was.
//   - It takes any number: capacity 0 never allows, a rate of 0 never leaks, a
//     negative one fills the funnel by itself, and NaN allows every call. Here those
//     are errors.
//   - It returns an integer where its caller needs a boolean.
//
// Storing nothing for a limited call, neither water nor lastTime, is right: what leaks
// meanwhile is counted from the old lastTime on.
//
// # Precision
//
// A call is decided as by package gcra/local, except for those that come
// within two microseconds, or a millionth of a token's leak, of the instant at which
// their token fits: the clock of the server counts microseconds. The
// difference does not add up. Where 1e9 nanoseconds do not
// divide by the rate, gcra/local leaks faster by the rest, less than a nanosecond
// per token, and this package does not.
//
// The field water counts tokens, not time as in CL.THROTTLE. When the rate changes, those tokens
// stay and leak at the new rate.
//
// # Costs
//
// One round trip, and two when the server does not know the script: after a restart
// or SCRIPT FLUSH. Some 190 bytes for each funnel that is not empty, key and
// expiry included; TestBytesPerFunnel measures it again. The script costs the server about
// five times what CL.THROTTLE does. Replicas and the
// AOF receive HSET and PEXPIREAT, and nothing for a limited call.
//
// # When to prefer it
//
// Where people read funnels with HGETALL, where other programs share such hashes, or
// to learn how it works: the script is short. Package limiter does the same with exact
// numbers, says how long to wait, and uses CL.THROTTLE where it is loaded. For "at
// most 5 in any minute", exactly, see package limiter/textbook/window.
//
// A command that go-redis repeats after a network error may take two tokens: that limits
// early, never late.
package hashfunnel
