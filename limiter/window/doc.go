// Package window limits how often a user may do something in any period, with a
// sorted set in Redis or Valkey, and neither a module nor a script.
//
//	windows := window.New(rdb, nil)
//	allowed, err := windows.IsActionAllowed(ctx, "laoqian", "reply", time.Minute, 5)
//
// # The idea
//
// A sorted set holds one member for each call that was allowed, scored by its
// time. A call cuts off what is older than the period, and is allowed when fewer
// than maxCount members are left. This is the sliding window that textbooks print:
//
//	pipeline, four commands                        one transaction
//	zadd key now now                               a member of its own for every call
//	zremrangebyscore key 0 now-period              the same
//	zcard key <= max_count                         decided by the server, see below
//	expire key period+1                            the same, in milliseconds
//
// The book's window has two panes missing. It adds the call before it counts, and
// a call that is turned away stays in the set: whoever keeps knocking stays locked
// out for good. And the millisecond is the member as well as the score, so that
// two calls in one millisecond are one.
//
// # One round trip
//
// Inside of MULTI nothing can depend on a reply, so what a transaction can say is
// "remove that, if it is there". The call adds its member with the score +inf,
// which makes it the last one. ZREMRANGEBYRANK from -1, the last, to maxCount-1
// removes it again if its rank is below maxCount, and nothing otherwise: the member
// is gone if, and only if, there is room. ZADD NX then adds what is gone, with the
// time as its score, and finds the member of a call that is to be rejected still
// there. Whatever is left at +inf is removed. So rejected calls leave nothing
// behind but a later expiry of the key, and calls of any number of clients come one
// after another.
//
// A call that reaches the server after one with a later time is allowed or rejected
// as at that later time. If it is allowed, its member is moved there, which is a
// second round trip; when the member has been cut off before it could be moved, the
// call is rejected.
//
// # Clocks
//
// The time is that of the client, because a transaction cannot read the clock of
// the server. What counts is the latest time that any client has shown: it only
// grows. By that time, no more than maxCount calls are allowed in any period,
// exactly, as long as all calls for one key name the same maxCount.
//
// On the clock on the wall it is any period less d, where d is how far the clocks
// of clients lie apart, and how long a call takes to the server, together: a clock
// that is ahead cuts off what others should still count. What it allows is then
// counted for that much longer. Keep NTP running; where a client may be minutes
// off, prefer CL.THROTTLE or package hashfunnel, for which one clock decides.
//
// A client whose clock is far ahead, by a day say, locks out its user for that day,
// or until nobody has called for a period. [Windows.Reset] ends that.
//
// Times are whole microseconds: what a clock shows beyond them is dropped.
//
// # Costs
//
// One round trip, two where calls overtake each other; nine commands, of which all
// that change something go to replicas and the AOF, also for calls that are
// rejected, which cost as much as the others.
//
// Memory grows with maxCount: about 30 bytes for each allowed call of the period, up
// to 128 of them, and about 120 beyond. TestBytesPerAction measures it again.
// A window of a million calls is 120 MB, for one user; a funnel is always one
// number. The key expires a second after the period has passed without a call.
//
// # When to prefer it
//
// For "at most 5 in any minute" to the letter: a funnel of capacity 5 that leaks 5 a
// minute allows 10 in some minutes, 5 at once and 5 more as they leak. For small
// counts, where the times of the calls are worth keeping (ZRANGE shows them), and
// where neither modules nor scripts are allowed. For anything else prefer package
// limiter, which takes less of everything and knows how long to wait.
//
// A command that go-redis repeats after a network error counts once, because the
// repetition brings the same member.
package window
