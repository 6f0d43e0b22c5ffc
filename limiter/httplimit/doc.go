// Package httplimit limits the rate of HTTP requests: middleware for net/http that
// asks a [limiter.Limiter] before each request.
//
//	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
//	limit := httplimit.New(l, limiter.PerMinute(30).Burst(15),
//		httplimit.WithName("reply"),
//		httplimit.WithKey(httplimit.ByIP(proxies...)))
//	http.Handle("POST /reply", limit(reply))
//
// # The idea
//
// A middleware is a policy with a name: whose funnel a request pours into (the key),
// how large that funnel is (the limit) and how many tokens it takes (the cost). What
// fits goes on to your handler; what does not is answered 429 Too Many Requests with
// Retry-After, and never reaches it. Either way the client is told where it stands,
// in the headers that README.md lists under "HTTP headers":
//
//	RateLimit-Policy: "reply";q=15;w=30
//	RateLimit: "reply";r=14;t=2
//	X-RateLimit-Limit: 15
//	X-RateLimit-Remaining: 14
//	X-RateLimit-Reset: 2
//
// A request can pass several middlewares, say one by address and one by account; give
// each a name of its own. RateLimit and RateLimit-Policy are lists and get one member
// from each; the X-RateLimit headers, which hold one number, are those of the policy
// with the least remaining. What an outer middleware has poured stays poured when an
// inner one limits the request.
//
// # Without Redis
//
// With [limiter.FailOpen], [limiter.FailClosed] and [limiter.FailLocal] the Limiter
// answers all the same, and so does the middleware. With [limiter.FailWithError],
// the default, requests are answered 503; see [OnError]. Give the Limiter
// [limiter.WithTimeout] in any case, or requests wait as long as the client of Redis
// does.
//
// # Routers
//
// The middleware does not wrap the [http.ResponseWriter], so handlers can flush,
// hijack and use [http.ResponseController] as without it, nor does it copy the
// request. It is plain net/http:
//
//	http.ListenAndServe(address, limit(mux))   // everything
//	mux.Handle("POST /reply", limit(reply))    // one route
//	r.Use(limit)                               // chi, before the routes
//	e.Use(echo.WrapMiddleware(limit))          // echo
//
// gin goes on with the next handler unless it is told not to, so gin.WrapH is not
// enough; limit(engine) is, around the whole, or for a group of routes:
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
// CORS belongs outside of it: a browser shows scripts neither a 429 without CORS
// headers nor headers that Access-Control-Expose-Headers does not name.
package httplimit
