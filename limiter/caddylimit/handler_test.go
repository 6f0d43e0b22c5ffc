// What clients get from real Caddys with a real Redis.

package caddylimit

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// Two Caddys behind a client that alternates let through what one would, by one policy and by two
// that are decided together. A refused request takes from neither.
func TestTwoCaddysShare(t *testing.T) {
	t.Parallel()
	redis := servertest.StartModule(t)
	site := `
	funnel {
		policy all {
			key all
			rate 30 1000000s
		}
		policy each {
			rate 20 1000000s
			match path /each
		}
	}
	respond ok`
	one, two := start(t, redis.Addr(), "", site), start(t, redis.Addr(), "", site)
	allowed := func(requests int, path string) (allowed int64) {
		var count atomic.Int64
		var group sync.WaitGroup
		for i := range requests {
			group.Go(func() {
				a, err := []*server{one, two}[i%2].try(t.Context(), path)
				assert.NoError(t, err)
				if a.status == http.StatusOK {
					count.Add(1)
				} else {
					assert.Equal(t, http.StatusTooManyRequests, a.status)
				}
			})
		}
		group.Wait()
		return count.Load()
	}
	require.EqualValues(t, 20, allowed(60, "/each"))
	require.EqualValues(t, 10, allowed(60, "/"), "what policy all has left: refused requests took nothing")
	for outcome, number := range map[string]int{"allowed": 30, "limited": 50, "limited_elsewhere": 40} {
		sum := 0
		for _, caddy := range []*server{one, two} {
			sum += caddy.metrics(t, "decisions_total", `policy="all"`, fmt.Sprintf(`outcome="%s"`, outcome))
		}
		require.Equal(t, number, sum, outcome)
	}
}

// Answers have the headers and placeholders that the page names, and an upstream's headers are
// united with ours.
func TestAnswers(t *testing.T) {
	t.Parallel()
	redis := servertest.StartModule(t)
	upstream := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "0")
		fmt.Fprint(w, "upstream")
	})
	caddy := start(t, redis.Addr(), "prefix test:", `
	funnel /login {
		policy login {
			at_most 5 1000000s
			capacity 2
		}
	}
	funnel /cost {
		policy cost {
			rate 10 1000000s
			cost {query.cost}
		}
	}
	handle /cost {
		respond ok
	}
	funnel /proxy {
		policy proxy {
			rate 10 1000000s
		}
	}
	handle /proxy {
		reverse_proxy `+upstream+`
	}
	handle {
		respond ok
	}
	handle_errors {
		respond "{err.status_code} [{http.funnel.policy}] [{http.funnel.retry_after}] [{http.funnel.key}] {err.message}"
	}`)
	require.Empty(t, caddy.ask(t, "/").header.Get("RateLimit"), "no policy applies")

	a := caddy.ask(t, "/login")
	require.Equal(t, "200 ok", fmt.Sprint(a.status, " ", a.body))
	require.Equal(t, `"login";q=5;w=1000000`, a.header.Get("RateLimit-Policy"))
	require.Regexp(t, `^"login";r=1;t=\d+$`, a.header.Get("RateLimit"))
	require.Equal(t, "5", a.header.Get("X-RateLimit-Limit"))
	require.Empty(t, a.header.Get("Retry-After"))
	caddy.ask(t, "/login")
	a = caddy.ask(t, "/login")
	require.Equal(t, http.StatusTooManyRequests, a.status)
	after := a.header.Get("Retry-After")
	require.Regexp(t, `^(250000|249\d\d\d)$`, after)
	require.Equal(t, `429 [login] [`+after+`] [{login:127.0.0.1}:rate] too many requests: try again in `+after+
		` seconds (policy "login")`, a.body)
	require.Equal(t, "0", a.header.Get("X-RateLimit-Remaining"))

	a = caddy.ask(t, "/proxy")
	require.Equal(t, "upstream", a.body)
	require.Equal(t, []string{"0"}, a.header.Values("X-RateLimit-Remaining"), "the side with less remaining")

	require.Equal(t, http.StatusOK, caddy.ask(t, "/cost?cost=4").status)
	require.Equal(t, http.StatusOK, caddy.ask(t, "/cost").status, "an empty cost is 1")
	require.Equal(t, http.StatusOK, caddy.ask(t, "/cost?cost=0").status)
	require.Empty(t, caddy.ask(t, "/cost?cost=0").header.Get("RateLimit"), "a cost of 0: the policy does not apply")
	require.Equal(t, "4", caddy.ask(t, "/cost").header.Get("X-RateLimit-Remaining"))
	a = caddy.ask(t, "/cost?cost=11")
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	require.Contains(t, a.body, "it costs 11, and at most 10 can be granted")
	require.Contains(t, a.body, "413 [cost] []")
	a = caddy.ask(t, "/cost?cost=x")
	require.Equal(t, http.StatusInternalServerError, a.status)
	require.Contains(t, a.body, `the cost of the request, {http.request.uri.query.cost}, is "x": it must be a whole number of at least 0`)

	keys, err := redis.Client(t).Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"test:{login:127.0.0.1}:rate", "test:{cost:127.0.0.1}:rate",
		"test:{proxy:127.0.0.1}:rate"}, keys)
}

// Caddy's trusted proxies decide who the client is, and a Go program with the same policy shares
// what is used.
func TestClients(t *testing.T) {
	t.Parallel()
	redis := servertest.StartModule(t)
	caddy := start(t, redis.Addr(), "", `
	funnel /ip {
		policy ip {
			rate 1 1000000s
		}
	}
	funnel /key {
		policy key {
			key {header.X-Api-Key}
			rate 1 1000000s
		}
	}
	respond ok`)
	from := func(address string) int { return caddy.ask(t, "/ip", "X-Forwarded-For", address).status }
	require.Equal(t, http.StatusOK, from("192.0.2.1"))
	require.Equal(t, http.StatusTooManyRequests, from("192.0.2.1"))
	require.Equal(t, http.StatusTooManyRequests, from("::ffff:192.0.2.1"))
	require.Equal(t, http.StatusOK, from("192.0.2.2"))
	require.Equal(t, http.StatusOK, from("2001:db8:1:2::1"))
	require.Equal(t, http.StatusTooManyRequests, from("2001:db8:1:2:3::4"), "the same /64")
	require.Equal(t, http.StatusOK, from("2001:db8:1:3::1"))

	l := limiter.New(redis.Client(t))
	limit := limiter.Per(1, 1_000_000*time.Second)
	result, err := l.Allow(t.Context(), httplimit.LimitKey("key", httplimit.HeaderKey("X-Api-Key", "secret"), limit), limit)
	require.NoError(t, err)
	require.True(t, result.OK)
	require.Equal(t, http.StatusTooManyRequests, caddy.ask(t, "/key", "X-Api-Key", "secret").status)
	require.Equal(t, http.StatusOK, caddy.ask(t, "/key", "X-Api-Key", "other").status)
	require.Equal(t, http.StatusOK, caddy.ask(t, "/key", "X-Forwarded-For", "192.0.2.1").status)
	require.Equal(t, http.StatusTooManyRequests, caddy.ask(t, "/key", "X-Forwarded-For", "192.0.2.1").status,
		"without a key the address counts")
	require.Equal(t, http.StatusOK, caddy.ask(t, "/key", "X-Forwarded-For", "192.0.2.2").status)
}

// Reloads while clients ask neither lose a request nor count one twice, whether or not they change
// the settings of Redis. Metrics go on.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	redis := servertest.StartModule(t)
	const capacity = 2000
	site := fmt.Sprintf(`
	funnel {
		policy all {
			key all
			rate %d 1000000s
		}
	}
	respond `, capacity)
	caddy := start(t, redis.Addr(), "", site+"0")
	var allowed, limited atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for ctx.Err() == nil {
				a, err := caddy.try(t.Context(), "/")
				if err != nil {
					t.Errorf("a request is lost: %v", err)
					return
				}
				switch a.status {
				case http.StatusOK:
					allowed.Add(1)
				case http.StatusTooManyRequests:
					limited.Add(1)
				default:
					t.Errorf("the answer is %v", a)
					return
				}
			}
		})
	}
	rdb := redis.Client(t)
	connected := func() int {
		list, err := rdb.ClientList(t.Context()).Result()
		require.NoError(t, err)
		return strings.Count(list, "\n")
	}
	before := connected()
	for i := range 6 {
		if i == 3 {
			caddy.setup["SETTINGS"] = "timeout 2s"
		}
		require.NoError(t, caddy.reload(t, fmt.Sprint(site, i+1)))
		servertest.Eventually(t, "the new site", func() bool {
			a, err := caddy.try(t.Context(), "/")
			require.NoError(t, err)
			if a.status == http.StatusOK {
				allowed.Add(1)
			} else {
				limited.Add(1)
			}
			return a.status == http.StatusTooManyRequests || a.body == fmt.Sprint(i+1)
		})
	}
	servertest.Eventually(t, "a refusal", func() bool { return limited.Load() > 0 })
	stop()
	group.Wait()
	require.EqualValues(t, capacity, allowed.Load())
	require.Equal(t, capacity, caddy.metrics(t, "decisions_total", `outcome="allowed"`))
	require.EqualValues(t, limited.Load(), caddy.metrics(t, "decisions_total", `outcome="limited"`))
	servertest.Eventually(t, "the end of the first connection", func() bool { return connected() <= before })
}

// Without Redis on_failure decides; when Redis is back, Redis decides again. The log has a line for
// the outage, not for each request.
func TestRedisKilledAndBack(t *testing.T) {
	t.Parallel()
	for policy, statuses := range map[string][]int{
		"":                  {200, 200, 429, 429},
		"on_failure local":  {200, 200, 429, 429},
		"on_failure open":   {200, 200, 200, 200},
		"on_failure closed": {429, 429, 429, 429},
		"on_failure error":  {503, 503, 503, 503},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			redis := servertest.StartModule(t)
			caddy := start(t, redis.Addr(), policy, `
	funnel {
		policy api {
			rate 2 1000000s
		}
	}
	respond ok`)
			require.Equal(t, http.StatusOK, caddy.ask(t, "/").status)
			redis.Kill()
			for i, status := range statuses {
				a := caddy.ask(t, "/")
				require.Equal(t, status, a.status, "request %d", i)
				if status == http.StatusServiceUnavailable || policy == "on_failure closed" {
					require.Equal(t, "1", a.header.Get("Retry-After"))
				}
			}
			for range 50 {
				caddy.ask(t, "/")
			}
			require.Equal(t, 54, caddy.metrics(t, "funnel_errors_total", `policy="api"`))
			redis.Restart(t)
			before := caddy.metrics(t, "decisions_total", `source="module"`)
			servertest.Eventually(t, "a decision of Redis", func() bool {
				caddy.ask(t, "/")
				return caddy.metrics(t, "decisions_total", `source="module"`) > before
			})
			message := "redis unavailable: rate limits fall back to policy " + cmp.Or(strings.TrimPrefix(policy, "on_failure "), "local")
			if policy == "on_failure error" {
				message = "rate limits are not decided"
			}
			lines := caddy.logged(t, message)
			require.Len(t, lines, 1)
			require.NotEmpty(t, lines[0]["error"])
			require.NotEmpty(t, lines[0]["logger"])
		})
	}
}

// Caddy starts without Redis. It does not start if Redis refuses the user, and a reload with a
// wrong password leaves the configuration before.
func TestStart(t *testing.T) {
	t.Parallel()
	redis := servertest.StartModule(t)
	admin := redis.Client(t)
	require.NoError(t, admin.Do(t.Context(), servertest.Words("acl setuser caddy on >secret ~* +@all")...).Err())
	site := `
	funnel {
		policy api {
			rate 2 1000000s
		}
	}
	respond `
	caddy := start(t, redis.Addr(), "username caddy\npassword {env.CADDY_TEST_PASSWORD}", site+"before")
	require.Equal(t, "before", caddy.ask(t, "/").body)
	require.Equal(t, 1, caddy.metrics(t, "decisions_total", `source="module"`))
	caddy.setup["SETTINGS"] = "username caddy\npassword wrong"
	require.ErrorContains(t, caddy.reload(t, site+"after"), "username, password or redis: the user is refused by Redis: ")
	require.Equal(t, "before", caddy.ask(t, "/").body)
	redis.Kill()
	caddy.setup["SETTINGS"] = "on_failure open"
	require.NoError(t, caddy.reload(t, site+"without"))
	require.Equal(t, "without", caddy.ask(t, "/").body)
	require.Len(t, caddy.logged(t, "no connection to Redis: starting without it"), 1)
}
