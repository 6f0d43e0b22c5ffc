// Package window implements a sliding window limiter on a sorted set in Redis or
// Valkey, with neither a module nor a script: a user may do something so many times in
// any period.
//
//	windows := window.New(rdb, nil)
//	allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", time.Minute, 5)
//
// # The idea
//
// A sorted set holds one member for each call that was allowed, scored by its
// time. A call removes what is older than the period, and is allowed when fewer than
// maxCount members are left. This is the textbook version, and what differs:
//
//	pipeline, four commands                        one transaction
//	zadd key now now                               a member of its own for every call
//	zremrangebyscore key 0 now-period              the same
//	zcard key <= max_count                         decided by the server, see below
//	expire key period+1                            the same, in milliseconds
//
// The textbook version has two bugs. It adds the call before it counts, so a limited
// call stays in the set, and a user who keeps calling is limited forever. And the
// millisecond is both member and score, so two calls in one millisecond count as one.
//
// # One round trip
//
// Inside MULTI nothing can depend on a reply, but a command can remove members if they
// are there. The call adds its member with the score +inf, which makes it the last.
// ZREMRANGEBYRANK from -1, the last, to maxCount-1 removes it again if its rank is
// below maxCount, and nothing otherwise: the member is gone if, and only if, there is
// room. ZADD NX then adds the member if it is gone, with the time as its score; the
// member of a limited call is still there. What is left at +inf is removed. Limited
// calls leave nothing behind but a later expiry of the key, and calls of any number of
// clients are decided one after another.
//
// A call that reaches the server after one with a later time is allowed or limited
// as at that later time. If it is allowed, its member is moved there, which is a
// second round trip; when the member has been removed before that, the call is
// limited.
//
// # Clocks
//
// The time is that of the client, because a transaction cannot read the clock of
// the server. What counts is the latest time that any client has sent, which
// only grows. By that time, no more than maxCount calls are allowed in any period,
// exactly, as long as all calls for one key name the same maxCount.
//
// In real time it is any period less d, where d is the distance between the clocks of
// clients plus the time that a call takes to the server: a clock that is ahead removes
// what others should still count. What it allows is then counted for that much longer.
// Keep NTP running; where a client may be minutes off, prefer CL.THROTTLE or package
// hashfunnel, which go by one clock.
//
// A client whose clock is ahead by a day limits its user for that day, or until no call
// has come for a period. [Windows.Reset] ends that.
//
// Times are whole microseconds: what a clock shows beyond them is dropped.
//
// # Costs
//
// One round trip, two where calls arrive out of order; nine commands, of which all
// that change something go to replicas and the AOF, also for limited calls,
// which cost as much as the others.
//
// Memory grows with maxCount: about 30 bytes for each allowed call of the period, up
// to 128 of them, and about 120 beyond. TestBytesPerAction measures it again.
// A window of a million calls is 120 MB, for one user; a funnel is always one
// number. The key expires a second after the period has passed without a call.
//
// # When to prefer it
//
// For "at most 5 in any minute", exactly: a funnel of capacity 5 that leaks 5 a
// minute allows 10 in some minutes, 5 at once and 5 more as they leak. For small
// counts, where the times of the calls are worth keeping (ZRANGE shows them), and
// where neither modules nor scripts are allowed. Otherwise prefer package limiter,
// which costs less and says how long to wait.
//
// A command that go-redis repeats after a network error counts once, because the
// repetition brings the same member.
package window
