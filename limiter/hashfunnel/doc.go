// Package hashfunnel limits rates with a funnel in Redis or Valkey that anybody can
// read: a hash with the fields water and lastTime, and a short script.
//
//	funnels := hashfunnel.New(rdb, nil)
//	allowed, err := funnels.IsActionAllowed(ctx, "laoqian", "reply", 15, 0.5)
//
// # The idea
//
// This is the textbook funnel, see package gcra/local, moved into the server: its
// fields into a hash, its method into a script, so that nobody comes between
// reading and writing. Each call lets leak what has run out since lastTime, and
// pours if there is room:
//
//	> hgetall funnel:laoqian:reply
//	1) "water"
//	2) "15"
//	3) "lastTime"
//	4) "1795238179689988"
//
// The script that textbooks print has leaks of its own:
//
//   - It counts whole seconds. Who calls just before a second ends and just after
//     has a second's leak for free; at 1000 tokens per second, they come in lumps of
//     1000. Here lastTime counts microseconds.
//   - It keeps each hash for a day. Most funnels are empty after seconds, and their
//     hashes are left behind; one that takes longer than a day to drain is forgotten
//     with water in it, and grants a full burst. Here the hash expires when the
//     funnel has run empty.
//   - It adds up floating point numbers and compares them exactly, so that now and
//     then a call that comes just in time is turned away. Here it may be a millionth
//     of a token early.
//   - A clock that is set back makes water flow back in. Here nothing leaks until
//     the clock is where it was.
//   - It takes any number: capacity 0 never allows, a rate of 0 never leaks, a
//     negative one fills the funnel by itself, and NaN allows everybody. Here those
//     are errors.
//   - It answers an integer, where its caller wants to know who may pass.
//
// That it stores nothing when it rejects a call, neither water nor lastTime, is no
// flaw: what leaks meanwhile is counted from the old lastTime on.
//
// # Precision
//
// A call is answered as package gcra/local would answer it, but for those that come
// within two microseconds, or a millionth of a token's leak, of the instant at which
// their token fits: the clock of the server counts microseconds. This does not add
// up; the funnel neither gains nor loses by it later. Where 1e9 nanoseconds do not
// divide by the rate, gcra/local leaks faster by the rest, less than a nanosecond
// per token, and this package does not.
//
// Water is tokens, not time as in CL.THROTTLE. When the rate changes, those tokens
// stay and leak at the new rate.
//
// # Costs
//
// One round trip, and two when the server does not know the script: after a restart
// or SCRIPT FLUSH. Some 190 bytes for each funnel that holds water, key and expiry
// included; TestBytesPerFunnel measures it again. The script costs the server about
// five times what CL.THROTTLE does. Replicas and the
// AOF receive HSET and PEXPIREAT, and nothing for a call that is rejected.
//
// # When to prefer it
//
// Where people look at funnels with HGETALL, where other programs share such hashes,
// or to learn how it works: the script fits on a screen. Package limiter does the
// same with exact numbers, knows how long to wait, and takes CL.THROTTLE where it
// is. For "at most 5 in any minute" to the letter, see package limiter/window.
//
// A command that go-redis repeats after a network error may pour twice: that limits
// early, never late.
package hashfunnel
