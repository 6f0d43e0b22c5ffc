// Package limiter limits the rate of calls over all processes that share a Redis or Valkey server.
// It sends the commands of the module funnel, or an equivalent script if the server lacks the
// module.
//
//	l := limiter.New(rdb)
//	result, err := l.Allow(ctx, "user:42", limiter.PerMinute(30).WithCapacity(15))
//	if err != nil {
//		return err
//	}
//	if result.Limited() {
//		return fmt.Errorf("try again in %v", result.RetryAfter.Round(time.Millisecond))
//	}
//
// # The idea
//
// Each key is a funnel. The tokens that a call takes fill the funnel, and leak out at a constant
// rate: limiter.PerMinute(30).WithCapacity(15) is a funnel that holds 15 tokens and leaks one every
// two seconds. 15 calls may come at once, and then one every two seconds: 44 in the first minute. A
// call whose tokens do not all fit is limited and changes nothing. The server decides in one atomic
// step; package funnel/gcra explains the arithmetic.
//
// The limit is an argument of each call and is not stored. The key stores the time at which the
// funnel will be empty, and expires at that time. A program may change the capacity of a key at any
// time. Another rate needs another key, or a correction: see docs/commands.md, "Changing a limit".
//
// # Several limits, many calls
//
// [Limiter.AllowAll] takes tokens from several limits, such as 10 a second and 1000 an hour, all or
// nothing, even if their keys are on several nodes of a cluster. Make unrelated calls from several
// goroutines, by a client that pipelines. For hot keys, see package lease.
//
// # Waiting and settling
//
// [Limiter.Wait] reserves tokens that do not fit yet, and sleeps until they do. Callers are served
// in the order of asking, whatever the number of processes. [Limiter.Reserve] returns the delay
// instead of sleeping. If callers may give up before they are served, set [WithMaxWait].
//
// If the cost of an action is known only afterwards, take an estimate, and pass the [Result] and
// the number of used tokens to [Limiter.Settle].
//
// # Slots
//
// A funnel limits how many calls begin. Slots limit how many are in flight. [Limiter.TryAcquire]
// takes slots, and tokens with them, all or nothing; [Limiter.Acquire] waits for them in line. The
// [Acquisition] that both return holds the slots until it is released, or until their TTL is over
// if the process has crashed:
//
//	got, err := l.TryAcquire(ctx,
//		limiter.Slots{Max: 50, TTL: 30 * time.Second}.At("{org}:slots"),
//		limiter.Slots{Max: 5, TTL: 30 * time.Second}.At("{org}:key7:slots"),
//		limiter.Request{Key: "{org}:minute", Limit: limiter.PerMinute(600), Quantity: 1})
//	...
//	defer got.Release(ctx)
//
// # Quotas
//
// A funnel leaks: 1000 a day lets nearly 2000 through in the first day. A quota does not leak. It
// is a [Limit] like any other, and limits the sum of tokens in a day, a week, a month or a year of
// a time zone, until an instant, or for a time from the first call:
//
//	berlin, err := time.LoadLocation("Europe/Berlin")
//	...
//	result, err := l.AllowAll(ctx,
//		limiter.Request{Key: "{user:42}:rate", Limit: limiter.PerSecond(10), Quantity: 1},
//		limiter.Request{Key: "{user:42}:month", Limit: limiter.Monthly(1_000_000, berlin), Quantity: 1})
//
// [Daily] says when a period begins, and whose clock counts. The receipt of a call names its
// period, so [Limiter.Settle] gives nothing back in a later one.
//
// # Callers that give up
//
// A command belongs to the Limiter, not to its caller. Go-redis gets a context that ends with
// [WithTimeout], never the deadline or the cancellation of the caller: it would close the
// connection, and the server could execute the command all the same, even after a refund on another
// connection.
//
// A caller whose deadline is before the time-out leaves at once when its context is done. When the
// answer comes, what the call took is given back: tokens by their receipt, slots by their holder.
// Charges are not given back, since they were used, nor reservations for later, since a refund
// moves nobody forward.
//
// If the answer never comes, tokens stay taken. Slots are asked back each tenth of their TTL, until
// Redis answers, for at most an hour or one TTL, whichever is longer. The call may be executed even
// after that, so they are asked back for one TTL more.
//
// With a *redis.Client, *redis.ClusterClient or *redis.Ring that has ContextTimeoutEnabled, any
// other caller sends the command itself, and waits for the answer, even if its context is cancelled
// meanwhile, but no longer than the time-out. With other clients, every caller leaves at once. A
// decision that arrives counts: it is returned without an error.
//
// The values of a context, such as the span of a trace, may be read in the background after the
// method has returned. Do not pass a context that a framework uses again for its next request, as
// *fasthttp.RequestCtx and *gin.Context are: pass the request's own.
//
// [Limiter.Drain] waits for what goes on in the background. Call it before the program ends.
//
// # From golang.org/x/time/rate
//
// In that package a Limiter is one bucket in one process. Here one Limiter serves all keys: make it
// once, and pass key and limit with each call. rate.NewLimiter(30, 15) is
// PerSecond(30).WithCapacity(15). Result.Limited is the opposite of the bool that rate's Allow
// returns. [Limiter.Settle] with 0 takes the place of Cancel. There is no rate.Inf, and the zero
// Limit is an error.
//
// # Module or script
//
// If the server does not know a command of the module, or denies it to the user, the Limiter sends
// the script in its place, and tries the command again after a minute. A server that has only
// CL.THROTTLE, as with redis-cell or Dragonfly, gets the script. [WithSource] restricts the Limiter
// to one of the two.
//
// Module and script store the same value under the same key: nodes may differ, and a fleet can move
// from one to the other. The script costs the server more (docs/clients.md, "Without the module"),
// its clock counts microseconds, and it refuses the limits that [Script] names. Calls that take,
// reserve or peek at tokens of one funnel first go to a shorter script, take.lua. [Limiter.Peek]
// runs on replicas if the client reads from them; without the module that needs Redis 7
// (EVALSHA_RO).
//
// # Without Redis
//
// If Redis does not answer, [OnFailure] decides: return the error, allow every call, limit every
// call, or decide inside this process. After three calls in a row without an answer, calls do not
// wait for Redis: one call per second tries, until Redis answers. Slots are renewed and given back
// even then. [NewLocal] is a Limiter that never asks Redis, for tests and for programs of one
// process.
//
// # Options of go-redis
//
//	&redis.Options{Addr: address, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1}
//
// Without ContextTimeoutEnabled, each call costs a goroutine, and a call that has timed out keeps
// it and a connection until the ReadTimeout. With the default MaxRetries, go-redis repeats a
// command three times after a network error: tokens may be taken twice, which limits a little
// early, never late. Refunds are sent once. With DialerRetries: 1, go-redis tries to connect once;
// its five attempts take half a second. It logs each failed attempt: redis.SetLogger changes that.
package limiter
