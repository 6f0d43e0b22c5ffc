// Package httplimit limits the rate of HTTP requests by a [limiter.Limiter]. It has middleware for the requests that a
// server gets, and a [Transport] for the requests that a client sends.
//
//	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
//	limit := httplimit.New(l, limiter.PerMinute(30).WithCapacity(15),
//		httplimit.WithName("reply"),
//		httplimit.WithKey(httplimit.ByIP(proxies...)))
//	http.Handle("POST /reply", limit(reply))
//
// # The idea
//
// A middleware is a policy with a name. It says from which funnel a request takes tokens (the key), how large that
// funnel is (the limit), and how many tokens the request takes (the cost). An allowed request goes to your handler. A
// limited request is answered 429 Too Many Requests with Retry-After. Both get the headers that docs/go.md lists:
//
//	RateLimit-Policy: "reply";q=15;w=30
//	RateLimit: "reply";r=14;t=2
//	X-RateLimit-Limit: 15
//	X-RateLimit-Remaining: 14
//	X-RateLimit-Reset: 2
//
// A request can pass several middlewares, such as a limit by address and a limit by account: give each a name.
// RateLimit and RateLimit-Policy are lists, in which each middleware has a member. The X-RateLimit headers hold one
// number, and describe the policy with the least remaining. If an inner middleware limits the request, the tokens that
// an outer one has taken stay taken. [WithAlso] takes from several limits all or nothing instead.
//
// # Handlers
//
// A handler may learn only while it works what a request costs. It takes the Result from the context ([ResultFrom]) and
// settles it by [limiter.Limiter.Settle]. A handler that asks a Limiter itself writes the headers with [SetHeaders].
//
// # Without Redis
//
// With [limiter.FailOpen], [limiter.FailClosed] and [limiter.FailLocal] the Limiter decides without Redis. With
// [limiter.FailWithError], the default, requests are answered 503: see [OnError]. Give the Limiter
// [limiter.WithTimeout] in any case, or requests wait as long as the client of Redis does.
//
// # Trying a limit
//
// [limiter.Shadow] tries a policy on real traffic: New(limiter.Shadow(l, nil), limit) takes tokens, logs the requests
// that it would have limited, and lets all of them through. They get all headers except Retry-After; a handler can
// delete the headers.
//
// # Outgoing requests
//
// A [Transport] reserves a token before each request, and sleeps until the reservation is due. If the service answers
// with Retry-After, all processes of the fleet wait:
//
//	client := http.Client{Transport: &httplimit.Transport{Limiter: l, Limit: limiter.PerSecond(50)}}
//
// # Routers
//
// The middleware does not wrap the [http.ResponseWriter], so handlers can flush, hijack and use
// [http.ResponseController] as without it. It is plain net/http:
//
//	http.ListenAndServe(address, limit(mux))   // everything
//	mux.Handle("POST /reply", limit(reply))    // one route
//	r.Use(limit)                               // chi, before the routes
//	e.Use(echo.WrapMiddleware(limit))          // echo
//
// gin calls the next handler unless the context is aborted, so gin.WrapH is not enough. Use limit(engine) for
// everything, or for a group of routes:
//
//	group.Use(func(c *gin.Context) {
//		passed := false
//		limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
//			passed = true
//			c.Request = r
//			c.Next()
//		})).ServeHTTP(c.Writer, c.Request)
//		if !passed {
//			c.Abort()
//		}
//	})
//
// CORS middleware belongs outside: a browser shows scripts neither a 429 without CORS headers nor headers that
// Access-Control-Expose-Headers does not name.
package httplimit
