// Package httplimit limits the rate of HTTP requests by a [limiter.Limiter]. It has middleware for
// the requests that a server gets, and a [Transport] for the requests that a client sends.
//
//	limit := httplimit.New(l, "reply", limiter.PerMinute(30).WithCapacity(15))
//	http.Handle("POST /reply", limit(reply))
//
// # The idea
//
// A middleware is a policy with a name. The key says who shares a limit, by default requests of one
// address. The limit says how many tokens there are, and the cost how many a request takes. An
// allowed request goes to your handler. A limited request is answered 429 Too Many Requests with
// Retry-After, and a line of text that names the policy. A request that costs more than the
// capacity is answered 413 without Retry-After, because waiting does not help. All get the headers
// that docs/go.md lists:
//
//	RateLimit-Policy: "reply";q=15;w=30
//	RateLimit: "reply";r=14;t=2
//	X-RateLimit-Limit: 15
//	X-RateLimit-Remaining: 14
//	X-RateLimit-Reset: 2
//
// # Several limits
//
// [WithAlso] adds a limit to a policy. A request takes from all limits or none, and the answer
// names the limit that refuses it.
//
// A request can also pass several middlewares, such as a limit by address in front of the
// authentication, and a limit by account behind it. If an inner middleware limits the request, the
// tokens that an outer one has taken stay taken.
//
// # Handlers
//
// A handler may learn only while it works what a request costs. It takes the Result from the
// context ([ResultFrom]) and settles it by [limiter.Limiter.Settle]. A handler that asks a Limiter
// itself writes the headers with [SetHeaders].
//
// The headers are set before the handler runs, so the handler can read and delete them. If the
// handler is a reverse proxy, its upstream may send such headers, too: the middleware then leaves
// one value in each X-RateLimit header, of the side with less remaining, and one member for each
// name in the lists.
//
// # Clients that leave
//
// If the context of a request is done when the decision comes, nobody waits for the handler: it
// does not run. Its slot is given back, and its tokens, if the Limiter can settle them; leases and
// [limiter.Shadow] cannot. The status is 499, or 503 if a deadline has passed.
//
// # Without Redis
//
// With [limiter.FailOpen], [limiter.FailClosed] and [limiter.FailLocal] the Limiter decides without
// Redis. With [limiter.FailWithError], the default, requests are answered 503: see [OnError].
//
// # Trying a limit
//
// [limiter.Shadow] tries a policy on real traffic: New(limiter.Shadow(l, nil), "reply", limit)
// takes tokens, logs the requests that it would have limited, and lets all of them through. They
// get all headers except Retry-After.
//
// # Outgoing requests
//
// A [Transport] reserves a token before each request, and sleeps until the reservation is due. If
// the service answers with Retry-After, all processes of the fleet wait:
//
//	client := http.Client{Transport: &httplimit.Transport{Limiter: l, Limit: limiter.PerSecond(50)}}
//
// # Routers
//
// The middleware is plain net/http:
//
//	http.ListenAndServe(address, limit(mux))   // everything
//	mux.Handle("POST /reply", limit(reply))    // one route
//	r.Use(limit)                               // chi, before the routes
//	e.Use(echo.WrapMiddleware(limit))          // echo
//
// Handlers can flush, hijack and send files as without it, and use [http.ResponseController].
//
// gin calls the next handler unless the context is aborted, so gin.WrapH is not enough. Use
// limit(engine) for everything, or for a group of routes:
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
// # Beside other middleware
//
//   - CORS belongs outside: a browser shows scripts neither a 429 without CORS headers nor headers
//     that Access-Control-Expose-Headers does not name. Preflights (OPTIONS) then take no tokens.
//   - [http.TimeoutHandler] belongs outside if there is [WithSlots]. Its handler goes on after the
//     time-out, and holds its slot until it returns only if the slot is taken inside.
//   - Health checks belong on a mux of their own, or into [WithSkip]: a busy server is not to be
//     restarted.
package httplimit
