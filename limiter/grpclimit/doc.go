// Package grpclimit has interceptors that limit the rate of calls to gRPC servers, by a
// [limiter.Limiter].
//
//	limit := grpclimit.New(l, "reply", limiter.PerMinute(30).WithCapacity(15),
//		grpclimit.WithKey(grpclimit.ByMetadata("x-api-key", grpclimit.ByPeer())))
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.Unary),
//		grpc.ChainStreamInterceptor(limit.Stream))
//
// # The idea
//
// A [Policy] has a name. The key says who shares a limit, by default calls of one address. The
// limit says how many tokens there are, and the cost how many a call takes. An allowed call goes to
// your handler. A stream is one call: the policy decides when it begins. With [WithMessages] it
// also decides on each message that the stream receives.
//
// [WithAlso] adds a limit to a policy: a call takes from all limits or none. A call can also pass
// several policies. If an inner policy limits the call, the tokens that an outer one has taken stay
// taken. Interceptors that authenticate go in front.
//
// Package httplimit has the same options, and writes the same keys. So a policy of one name is one
// limit over HTTP and gRPC, with ByIP there and [ByPeer] here, or with ByHeader and [ByMetadata].
//
// A handler may learn only while it works what a call costs. It takes the Result from the context
// ([ResultFrom]) and settles it by [limiter.Limiter.Settle].
//
// Calls of the health service, grpc.health.v1.Health, always pass, and take no tokens: a busy
// server is not to be restarted.
//
// # Limited calls
//
// A limited call gets the status RESOURCE_EXHAUSTED with a text that names the policy, with details
// of google.rpc that clients in all languages can read, and with a trailer:
//
//   - QuotaFailure: one violation. Subject and quota_id are the name of the limit that refuses the
//     call, as [New] or [WithAlso] got it. If several limits refuse it, this is the limit with the
//     longest wait. Description is the limit in words, and quota_value its number. The key is not
//     sent, because it may be a secret.
//   - RetryInfo: retry_delay is the time after which to call again, to the nanosecond.
//   - grpc-retry-pushback-ms: retry_delay in milliseconds, rounded up. A client whose service
//     config retries RESOURCE_EXHAUSTED waits that long instead of its own backoff.
//
// A call that costs more than the capacity never fits. It has no RetryInfo, and a pushback of -1:
// the client does not retry. A call that lacks only a slot has neither RetryInfo nor the trailer,
// because nobody knows when a slot comes free.
//
// # Undecided calls
//
// With [limiter.FailOpen], [limiter.FailClosed] and [limiter.FailLocal] the Limiter decides without
// Redis. With [limiter.FailWithError], the default, calls get UNAVAILABLE. A call that is wrong
// ([limiter.ErrInvalid]), such as a call with a cost out of range, gets INTERNAL. The cause is not
// sent, since it may contain the address of Redis. It is logged to [log/slog.Default]: a line when
// an outage begins and a line when it has ended, and a line a minute about calls that are wrong.
//
// If the context of a call is done when the decision comes, nobody waits for the handler: it does
// not run, its slots and tokens are given back, and nothing is logged. Leases and
// [limiter.Shadow] give no tokens back. The call gets CANCELED, or DEADLINE_EXCEEDED if its
// deadline has passed.
//
// For other answers, chain an interceptor of your own in front: it receives these errors, and
// package status reads them.
//
// # Trying a limit
//
// [limiter.Shadow] tries a policy on real traffic: New(limiter.Shadow(l, nil), "reply", limit)
// takes tokens, logs the calls that it would have limited, and lets all of them through.
package grpclimit
