// Requests that yield do not stand before other requests, and ask again with jitter.

package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// send sends a request, and returns how long it has waited for its turn.
func send(t *testing.T, by http.RoundTripper) time.Duration {
	began := time.Now()
	_, err := by.RoundTrip(httptest.NewRequest(http.MethodGet, "http://api.example.com", nil))
	require.NoError(t, err)
	return time.Since(began)
}

// A hundred batch jobs share 10 requests a second with users, who send four a second. Users do not
// wait behind batch jobs that yield, and batch jobs get what users leave. Behind batch jobs that do
// not yield, users wait for seconds.
func TestBatchJobsYield(t *testing.T) {
	for name, c := range map[string]struct {
		yield             bool
		shortest, longest time.Duration // what half of the users wait
	}{
		"with Yield":    {yield: true, longest: 0},
		"without Yield": {shortest: 5 * time.Second, longest: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, limit := limiter.NewLocal(), limiter.PerSecond(10)
			users := &httplimit.Transport{Limiter: l, Limit: limit.WithCapacity(10), Base: service(ok)}
			batch := &httplimit.Transport{Limiter: l, Limit: limit.WithCapacity(2), Base: service(ok), Yield: c.yield}
			stop := time.Now().Add(time.Minute)
			var group sync.WaitGroup
			var mutex sync.Mutex
			batches, waits := 0, []time.Duration(nil)
			for range 100 {
				group.Go(func() {
					for {
						send(t, batch)
						if !time.Now().Before(stop) {
							return
						}
						mutex.Lock()
						batches++
						mutex.Unlock()
					}
				})
			}
			for range 240 {
				time.Sleep(time.Second / 4)
				group.Go(func() {
					waited := send(t, users)
					mutex.Lock()
					waits = append(waits, waited)
					mutex.Unlock()
				})
			}
			group.Wait()
			slices.Sort(waits)
			p50 := waits[len(waits)/2]
			t.Logf("%s: users wait p50 %v, max %v; %d batch requests", name, p50, waits[len(waits)-1], batches)
			require.GreaterOrEqual(t, p50, c.shortest, name)
			require.LessOrEqual(t, p50, c.longest, name)
			require.GreaterOrEqual(t, batches, 330, "%s: users leave 360", name)
		})
	}
}

// A request that yields reserves nothing, asks again within twice the wait, and at most a second
// later, and gives up at once if its token would be due after its deadline.
func TestYield(t *testing.T) {
	for name, c := range map[string]struct {
		interval         time.Duration // in which a token leaks
		maxWait          time.Duration
		earliest, latest time.Duration
		fails            bool
	}{
		"a short wait":            {interval: time.Second / 10, earliest: time.Second / 10, latest: time.Second / 5},
		"a long wait":             {interval: time.Minute, earliest: time.Minute, latest: time.Minute + time.Second},
		"in time, without jitter": {interval: time.Minute, maxWait: time.Minute, earliest: time.Minute, latest: time.Minute},
		"after the deadline":      {interval: time.Minute, maxWait: time.Minute - 1, fails: true},
	} {
		spread := map[time.Duration]bool{}
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				var commands []string
				l := limiter.NewLocal(limiter.WithHook(func(_ context.Context, event limiter.Event) {
					if event.Key == "{api.example.com}:rate" {
						commands = append(commands, event.Command)
					}
				}))
				limit := limiter.Every(c.interval)
				_, err := l.Allow(t.Context(), "{api.example.com}:rate", limit)
				require.NoError(t, err)
				transport := &httplimit.Transport{Limiter: l, Limit: limit, Base: service(ok), Yield: true, MaxWait: c.maxWait}
				if c.fails {
					_, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, "http://api.example.com", nil))
					require.ErrorIs(t, err, limiter.ErrWaitTooLong, name)
					var late *limiter.WaitError
					require.ErrorAs(t, err, &late, name)
					require.Positive(t, late.RetryAfter, name)
					return
				}
				waited := send(t, transport)
				require.GreaterOrEqual(t, waited, c.earliest, name)
				require.LessOrEqual(t, waited, c.latest, name)
				require.Equal(t, []string{"reserve", "reserve", "reserve"}, commands, "%s: of the test, refused, allowed", name)
				spread[waited] = true
			})
		}
		require.Equal(t, c.latest > c.earliest, len(spread) > 1, "%s: jitter", name)
	}
}
