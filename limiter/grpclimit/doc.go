// Package grpclimit has interceptors that limit the rate of calls to gRPC servers, by a [limiter.Limiter].
//
//	limit := grpclimit.New(l, limiter.PerMinute(30).WithCapacity(15),
//		grpclimit.WithName("reply"),
//		grpclimit.WithKey(grpclimit.ByMetadata("x-api-key", grpclimit.ByPeer())))
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.Unary),
//		grpc.ChainStreamInterceptor(limit.Stream))
//
// # The idea
//
// A [Policy] has a name. It says from which funnel a call takes tokens (the key), how large that funnel is (the limit),
// and how many tokens the call takes (the cost). An allowed call goes to your handler. A stream is one call: the policy
// decides when it begins, and its messages take nothing.
//
// A call can pass several policies, such as a policy by address and a policy by account: give each a name. If an inner
// policy limits the call, the tokens that an outer one has taken stay taken. [WithAlso] takes from several limits all
// or nothing instead. Interceptors that authenticate go in front.
//
// The key of the funnel in Redis is the prefix of the Limiter, the name of the policy, a colon and the key of the call.
// Package httplimit writes the same keys. So a policy of one name is one limit over HTTP and gRPC, with ByIP there and
// [ByPeer] here, or with ByHeader and [ByMetadata].
//
// A handler may learn only while it works what a call costs. It takes the Result from the context ([ResultFrom]) and
// settles it by [limiter.Limiter.Settle].
//
// # Limited calls
//
// A limited call gets the status RESOURCE_EXHAUSTED, with details of google.rpc that clients in all languages can read,
// and one trailer:
//
//   - RetryInfo: retry_delay is the time after which to call again, to the nanosecond.
//   - QuotaFailure: one violation. Subject and quota_id are the name of the policy, description is the limit in words,
//     and quota_value is the capacity. The key is not sent, because it may be a secret.
//   - grpc-retry-pushback-ms: retry_delay in milliseconds, rounded up. A client whose service config retries
//     RESOURCE_EXHAUSTED waits that long instead of its own backoff.
//
// A call that costs more than the capacity never fits. It has no RetryInfo, and a pushback of -1: the client does not
// retry.
//
// # Undecided calls
//
// With [limiter.FailOpen], [limiter.FailClosed] and [limiter.FailLocal] the Limiter decides without Redis. With
// [limiter.FailWithError], the default, calls get UNAVAILABLE. A call that is wrong ([limiter.ErrInvalid]), such as a
// call with a cost out of range, gets INTERNAL. The cause is logged to [log/slog.Default] and is not sent: it may
// contain the address of Redis. Give the Limiter [limiter.WithTimeout] in any case, or calls wait as long as the client
// of Redis does.
//
// A call whose own context is done gets CANCELLED or DEADLINE_EXCEEDED, and nothing is logged.
//
// For other answers, chain an interceptor of your own in front: it receives these errors, and package status reads
// them.
//
// # Trying a limit
//
// [limiter.Shadow] tries a policy on real traffic: New(limiter.Shadow(l, nil), limit) takes tokens, logs the calls that
// it would have limited, and lets all of them through.
package grpclimit
