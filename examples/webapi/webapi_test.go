// Days of requests in a moment, without Redis: in a bubble of testing/synctest, a Limiter of
// NewLocal goes by the bubble's clock, which begins at midnight UTC on 1 January 2000.

package main

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// A bench is a service whose limits are in this process.
type bench struct {
	t                *testing.T
	public, internal http.Handler
	rowsOf           func(day int) int
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, rowsOf: func(int) int { return 100 }}
	s := &service{
		customers: customers,
		metrics:   newMetrics(),
		archive:   archive{perRow: time.Millisecond, rowsOf: func(day int) int { return b.rowsOf(day) }},
		clients:   httplimit.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}},
	}
	l := limiter.NewLocal(limiter.WithHook(s.metrics.count))
	s.limiters = limiters{login: l, prices: l, reports: l}
	b.public = s.public()
	b.internal = s.internal()
	return b
}

// send sends a request, and waits until its slot has been given back.
func send(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	synctest.Wait()
	return w
}

// as returns a request of a customer.
func as(ctx context.Context, customer, path string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.Header.Set("X-Api-Key", "key-of-"+customer)
	return r
}

func (b *bench) get(customer, path string) *httptest.ResponseRecorder {
	return send(b.public, as(b.t.Context(), customer, path))
}

// see asks the internal site.
func (b *bench) see(path string) *httptest.ResponseRecorder {
	return send(b.internal, httptest.NewRequestWithContext(b.t.Context(), http.MethodGet, path, nil))
}

// login tries to log in through a proxy.
func (b *bench) login(account, password, address string) *httptest.ResponseRecorder {
	r := form(b.t, "/login", url.Values{"account": {account}, "password": {password}})
	r.RemoteAddr = "10.0.0.7:4711"
	r.Header.Set("X-Forwarded-For", "198.51.100.1, "+address) // the first one is what the client has written
	return send(b.public, r)
}

func form(t *testing.T, path string, values url.Values) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// limits returns what the admin page says of each policy: limit, used, remaining, refuses and reset
// after.
func (b *bench) limits(path string) map[string]string {
	w := b.see(path)
	require.Equal(b.t, http.StatusOK, w.Code, w.Body)
	return limitsOn(b.t, w.Body.String())
}

// limitsOn reads the rows of the admin page.
func limitsOn(t *testing.T, page string) map[string]string {
	limits := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^<td>(.*)$`).FindAllStringSubmatch(page, -1) {
		policy, rest, found := strings.Cut(html.UnescapeString(row[1]), "<td>")
		if found {
			limits[policy] = strings.ReplaceAll(rest, "<td>", " | ")
		}
	}
	require.NotEmpty(t, limits, page)
	return limits
}

// local is where all numbers of these tests come from.
const local = " | this process alone: each process limits by itself"

// A customer of each plan sends all that is allowed, and sleeps for Retry-After when it is limited.
// The minute limits it each second, until its quota is used. That is there again when the day or
// the month begins where the customer is.
func TestPlans(t *testing.T) {
	for _, c := range []struct {
		customer           string
		firstMinute, quota int // how many are allowed
		policy             string
		after              time.Duration // until the quota is used
		begins             time.Time     // the next period
	}{
		// Berlin is an hour ahead of UTC: its day begins at 23:00.
		{customer: "acme", firstMinute: 10 + 59, quota: 1000, policy: "day",
			after: (1000 - 10) * time.Second, begins: time.Date(2000, 1, 1, 23, 0, 0, 0, time.UTC)},
		// In New York it is still 19:00 on 31 December: the month that begins 5 hours later is
		// January.
		{customer: "globex", firstMinute: 50 + 59*10, quota: 20_000, policy: "month",
			after: (20_000 - 50) / 10 * time.Second, begins: time.Date(2000, 1, 1, 5, 0, 0, 0, time.UTC)},
	} {
		t.Run(c.customer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				began := time.Now()
				allowed := 0
				firstMinute := 0
				for allowed <= c.quota && time.Since(began) < time.Hour {
					w := b.get(c.customer, "/price")
					if w.Code == http.StatusOK {
						allowed++
						continue
					}
					require.Equal(t, http.StatusTooManyRequests, w.Code, w.Body)
					if strings.Contains(w.Body.String(), `(policy "`+c.policy+`")`) {
						require.Equal(t, c.begins, time.Now().Add(retryAfter(t, w)).UTC())
						break
					}
					time.Sleep(retryAfter(t, w))
					if time.Since(began) == time.Minute {
						firstMinute = allowed
					}
				}
				require.Equal(t, c.firstMinute, firstMinute)
				require.Equal(t, c.quota, allowed)
				require.Equal(t, c.after, time.Since(began))

				time.Sleep(time.Until(c.begins) - time.Second)
				require.Equal(t, http.StatusTooManyRequests, b.get(c.customer, "/price").Code, "a second before")
				time.Sleep(time.Second)
				require.Equal(t, http.StatusOK, b.get(c.customer, "/price").Code)
				require.Contains(t, b.limits("/customers/" + c.customer)[c.policy], " | 1 | ", "used in the new period")
			})
		})
	}
}

func retryAfter(t *testing.T, w *httptest.ResponseRecorder) time.Duration {
	seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
	require.NoError(t, err)
	return time.Duration(seconds) * time.Second
}

// A request without a key of a customer is refused, and takes nothing from anybody.
func TestUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		require.Equal(t, http.StatusUnauthorized, b.get("nobody", "/price").Code)
		metrics := b.see("/metrics")
		require.NotContains(t, metrics.Body.String(), "funnel_decisions_total{")
	})
}

// A customer of free has two requests in flight. The page says what refuses a third, and that it is
// not the minute.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 2 {
			go b.public.ServeHTTP(httptest.NewRecorder(), as(t.Context(), "acme", "/report?days=10")) // takes a second
		}
		time.Sleep(500 * time.Millisecond)
		w := b.get("acme", "/price")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "too many requests at once: try again in a moment (policy \"free\")\n", w.Body.String())
		limits := b.limits("/customers/acme")
		require.Contains(t, limits["free:slots"], "2 in flight | 2 | 0 | until a request ends | ")
		require.Contains(t, limits["free"], "60 per minute, capacity 10 | 10 | 0 | for 1s | ", "two estimates of 5")

		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, http.StatusOK, b.get("acme", "/price").Code)
		require.Equal(t, "2 in flight | 0 | 2 | no | 0s"+local, b.limits("/customers/acme")["free:slots"])
	})
}

// A report takes an estimate, and its customer pays for what was read: less, more, more than the
// limit, and what was read until its client left. The answer has the headers of the settled limits.
func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		days         string
		rows         int // of a day, each of which takes a millisecond
		giveUp       time.Duration
		status, used int
		header       string // in RateLimit
	}{
		"less than the estimate": {days: "2", rows: 100, status: 200, used: 2, header: `"day";r=998;t=82800`},
		"more than the estimate": {days: "9", rows: 100, status: 200, used: 9, header: `"day";r=991;t=82800`},
		"more than the minute":   {days: "30", rows: 99, status: 200, used: 30, header: `"day";r=970;t=82798`},
		"nothing to read":        {days: "9", status: 200, used: 1, header: `"day";r=999;t=82800`},
		"not a number":           {days: "x", status: 400, used: 1, header: `"day";r=999;t=82800`},
		"too long":               {days: "367", status: 400, used: 1, header: `"day";r=999;t=82800`},
		"a client that leaves": {days: "366", rows: 100, giveUp: 350 * time.Millisecond,
			status: 503, used: 3, header: `"day";r=997;t=82800`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.rowsOf = func(int) int { return c.rows }
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if c.giveUp > 0 {
					time.AfterFunc(c.giveUp, leave)
				}
				w := send(b.public, as(ctx, "acme", "/report?days="+c.days))
				require.Equal(t, c.status, w.Code, w.Body)
				require.Contains(t, w.Header().Values("RateLimit"), c.header)
				limits := b.limits("/customers/acme")
				require.Contains(t, limits["day"], "1000 per day in Europe/Berlin | "+strconv.Itoa(c.used)+" | ")
				require.Contains(t, limits["free:slots"], " | 0 | 2 | no | ")
			})
		})
	}
}

// A report that has cost more than the minute makes its customer wait, and the page says for how
// long.
func TestAReportAboveTheMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		require.Equal(t, http.StatusOK, b.get("acme", "/report?days=30").Code) // in 3 seconds, for 30 tokens of 10
		require.Equal(t, http.StatusTooManyRequests, b.get("acme", "/price").Code)
		refuses := regexp.MustCompile(`\| for (\S+) \|`).FindStringSubmatch(b.limits("/customers/acme")["free"])
		require.NotNil(t, refuses, b.limits("/customers/acme"))
		wait, err := time.ParseDuration(refuses[1])
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, b.get("acme", "/price").Code)
		time.Sleep(wait)
		require.Equal(t, http.StatusOK, b.get("acme", "/price").Code)
	})
}

// An address has five guesses in 15 minutes, three of them at once. What the client writes into
// X-Forwarded-For gives it no more, nor does another way to write the account. Other addresses go
// on, until the account has been guessed at too often.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 20 {
			w := b.login("acme", "correct horse", "192.0.2.1")
			require.Equal(t, http.StatusOK, w.Code, "right ones do not count")
		}
		require.Equal(t, "key-of-acme\n", b.login("ACME", "correct horse", "192.0.2.1").Body.String())

		began := time.Now()
		guesses := 0
		for time.Since(began) < 15*time.Minute {
			w := b.login([]string{"acme", "Acme"}[guesses%2], "guess", "192.0.2.1")
			if w.Code == http.StatusUnauthorized {
				guesses++
			} else {
				require.Contains(t, w.Body.String(), `(policy "login")`)
			}
			if time.Since(began) == 0 && guesses < 3 {
				continue
			}
			require.GreaterOrEqual(t, guesses, 3)
			time.Sleep(time.Second)
		}
		require.Equal(t, 5, guesses)

		allowed := 0
		for i := range 100 {
			w := b.login("acme", "guess", netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)}).String())
			if w.Code == http.StatusUnauthorized {
				allowed++
			} else {
				require.Contains(t, w.Body.String(), `(policy "account")`)
			}
		}
		require.Equal(t, 15, allowed, "of a botnet")
		require.Equal(t, http.StatusOK, b.login("globex", "battery staple", "192.0.2.1").Code, "another account")
	})
}

// All spellings that lead to an account have one key: a long s is no S.
func TestSpellings(t *testing.T) {
	s := &service{customers: []*customer{{name: "sam", password: "x"}}}
	require.NotNil(t, s.authenticate("SAM", "x"))
	require.Nil(t, s.authenticate("\u017fam", "x"))
	require.NotEqual(t, accountKey("sam"), accountKey("\u017fam"))
}

// A client that invents accounts is limited by its address.
func TestLoginOfInventedAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 50 {
			require.Equal(t, http.StatusUnauthorized, b.login("nobody"+strconv.Itoa(i), "", "192.0.2.1").Code)
		}
		require.Contains(t, b.login("somebody", "", "192.0.2.1").Body.String(), `(policy "address")`)
		for _, account := range []string{"", strings.Repeat("x", 65), strings.Repeat("x", 5000)} {
			require.Equal(t, http.StatusBadRequest, b.login(account, "", "192.0.2.2").Code)
		}
		require.Contains(t, b.limits("/customers/acme?address=192.0.2.2")["address"], " | 0 | 50 | no | ")
	})
}

// The page tells which limit refuses, and the button empties that limit and no other.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		page := "/customers/acme?address=192.0.2.1"
		for range 11 {
			b.get("acme", "/price")
		}
		for range 4 {
			b.login("acme", "guess", "192.0.2.1")
		}
		require.Equal(t, map[string]string{
			"free":       "60 per minute, capacity 10 | 10 | 0 | for 1s | 10s" + local,
			"day":        "1000 per day in Europe/Berlin | 10 | 990 | no | 23h0m0s" + local,
			"free:slots": "2 in flight | 0 | 2 | no | 0s" + local,
			"account":    "30 per hour, capacity 15 | 3 | 12 | no | 6m0s" + local,
			"login":      "at most 5 in any 15m0s, 3 at once | 3 | 0 | for 5m0s | 15m0s" + local,
			"address":    "50 in 15m0s from the first call | 3 | 47 | no | 15m0s" + local,
		}, b.limits(page))
		require.Equal(t, map[string]string{
			"free":       "60 per minute, capacity 10 | 10 | 0 | for good: the cost is above the limit | 10s" + local,
			"day":        "1000 per day in Europe/Berlin | 10 | 990 | no | 23h0m0s" + local,
			"free:slots": "2 in flight | 0 | 2 | no | 0s" + local,
			"account":    "30 per hour, capacity 15 | 3 | 12 | no | 6m0s" + local,
		}, b.limits("/customers/acme?cost=11"))

		before := b.limits(page)
		for _, policy := range []string{"free", "login"} {
			press := url.Values{"policy": {policy}, "address": {"192.0.2.1"}}
			w := send(b.internal, form(t, "/customers/acme/reset", press))
			require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
			require.Equal(t, page, w.Header().Get("Location"))
		}
		after := b.limits(page)
		require.Contains(t, after["free"], " | 0 | 10 | no | 0s")
		require.Contains(t, after["login"], " | 0 | 3 | no | 0s")
		for _, policy := range []string{"day", "account", "address"} {
			require.Equal(t, before[policy], after[policy])
		}
		require.Equal(t, http.StatusOK, b.get("acme", "/price").Code)
		require.Equal(t, http.StatusUnauthorized, b.login("acme", "guess", "192.0.2.1").Code)
	})
}

// The admin pages refuse what they cannot do, and what other sites ask for.
func TestAdminRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		require.Equal(t, http.StatusOK, b.see("/").Code)
		require.Equal(t, http.StatusNotFound, b.see("/customers/nobody").Code)
		require.Equal(t, http.StatusBadRequest, b.see("/customers/acme?address=x").Code)
		reset := func(policy, site string) int {
			r := form(t, "/customers/acme/reset", url.Values{"policy": {policy}})
			r.Header.Set("Sec-Fetch-Site", site)
			return send(b.internal, r).Code
		}
		require.Equal(t, http.StatusSeeOther, reset("free", "same-origin"))
		require.Equal(t, http.StatusForbidden, reset("free", "cross-site"))
		require.Equal(t, http.StatusBadRequest, reset("pro", "same-origin"))
		require.Equal(t, http.StatusNotFound, b.get("acme", "/metrics").Code, "the public does not see it")
	})
}

// The preflight of a browser and health checks count nowhere. A page of another site can read why
// it is refused.
func TestBrowsersAndHealthChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 30 {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/price", nil)
			r.Header.Set("Origin", "https://example.com")
			r.Header.Set("Access-Control-Request-Method", "GET")
			r.Header.Set("Access-Control-Request-Headers", "x-api-key")
			w := send(b.public, r)
			require.Equal(t, http.StatusNoContent, w.Code)
			require.Equal(t, "X-Api-Key", w.Header().Get("Access-Control-Allow-Headers"))
			require.Equal(t, http.StatusOK, b.get("acme", "/healthz").Code)
		}
		require.Contains(t, b.limits("/customers/acme")["free"], " | 0 | 10 | no | 0s")
		for range 10 {
			require.Equal(t, http.StatusOK, b.get("acme", "/price").Code)
		}
		w := b.get("acme", "/price")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"))
		exposed := w.Header().Get("Access-Control-Expose-Headers")
		for _, header := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "X-RateLimit-Remaining"} {
			require.Regexp(t, `(^|, )`+header+`(,|$)`, exposed)
		}
	})
}

// The metrics count each limit of a request by its policy. A client that leaves is no error of
// Redis.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 12 {
			b.get("acme", "/price")
		}
		b.login("acme", "guess", "192.0.2.1")
		gone, leave := context.WithCancel(t.Context())
		leave()
		require.Equal(t, 499, send(b.public, as(gone, "globex", "/price")).Code)
		w := b.see("/metrics")
		text, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		for _, line := range []string{
			`# TYPE funnel_decisions_total counter`,
			`funnel_decisions_total{policy="free",command="reserve",outcome="allowed",source="local"} 10`,
			`funnel_decisions_total{policy="free",command="reserve",outcome="limited",source="local"} 2`,
			`funnel_decisions_total{policy="day",command="reserve",outcome="limited_elsewhere",source="local"} 2`,
			`funnel_decisions_total{policy="free:slots",command="refund",outcome="allowed",source="local"} 10`,
			`funnel_decisions_total{policy="login",command="reserve",outcome="allowed",source="local"} 1`,
			`funnel_errors_total{policy="month"} 0`,
		} {
			require.Contains(t, string(text), line+"\n")
		}
	})
}
