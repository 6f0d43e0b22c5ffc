package httplimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// Of any number of requests at once from one address, exactly as many pass as the
// funnel holds: through one process or several, with the prefilter or without.
func TestExactlyTheCapacityPassesAtOnce(t *testing.T) {
	withAndWithoutModule(t, func(t *testing.T, rdb *redis.Client) {
		for round := range 8 {
			capacity := 1 + rand.IntN(30)
			requests := capacity + rand.IntN(60)
			t.Run(fmt.Sprintf("%d of %d", capacity, requests), func(t *testing.T) {
				var reached atomic.Int64
				counting := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
				var processes []http.Handler
				for _, options := range [][]limiter.Option{nil, {limiter.WithPrefilter()}} {
					limit := httplimit.New(limiter.New(rdb, options...), slow(capacity),
						httplimit.WithName(fmt.Sprint("round ", round)),
						httplimit.WithKey(httplimit.ByIP(prefixes("127.0.0.0/8")...)))
					processes = append(processes, limit(counting))
				}
				var next atomic.Int64
				server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					processes[next.Add(1)%2].ServeHTTP(w, r)
				}))

				var passed, limited atomic.Int64
				var wait sync.WaitGroup
				start := make(chan struct{})
				for i := range requests {
					wait.Go(func() {
						<-start
						// One customer, many addresses of one /64.
						client := fmt.Sprintf("2001:db8:0:1::%x", i)
						switch got := get(t, server, setHeader("X-Forwarded-For", client)); got.StatusCode {
						case http.StatusOK:
							passed.Add(1)
						case http.StatusTooManyRequests:
							limited.Add(1)
						}
					})
				}
				close(start)
				wait.Wait()
				require.EqualValues(t, capacity, passed.Load())
				require.EqualValues(t, requests-capacity, limited.Load())
				require.EqualValues(t, capacity, reached.Load())
			})
		}
	})
}
