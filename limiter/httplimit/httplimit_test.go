// The middleware lets as many requests through as the funnel of their key allows, and answers all
// other requests itself. In shadow mode it lets all requests through.

package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// slow returns a limit whose funnel leaks nothing while a test runs.
func slow(capacity int) limiter.Limit { return limiter.Per(1, 24*time.Hour).WithCapacity(capacity) }

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })

func ask(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	return recorder
}

func from(address string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = net.JoinHostPort(address, "4711")
	return r
}

func unreachable(t *testing.T) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// The server removes the files of a form that the handler has parsed.
func TestFilesOfForms(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	server := httptest.NewServer(httplimit.New(limiter.NewLocal(), "form", slow(1))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { r.ParseMultipartForm(0) })))
	const body = "--x\r\nContent-Disposition: form-data; name=a; filename=a\r\n\r\ntext\r\n--x--\r\n"
	_, err := http.Post(server.URL, "multipart/form-data; boundary=x", strings.NewReader(body))
	require.NoError(t, err)
	server.Close()
	files, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestRequests(t *testing.T) { synctest.Test(t, testRequests) }

func testRequests(t *testing.T) {
	l, cost := limiter.NewLocal(), 0
	const of = ` (policy "v2:re\\ply")` + "\n"
	policy := func(l limiter.Allower) http.Handler {
		limitOf := func(r *http.Request) limiter.Limit {
			switch r.RemoteAddr {
			case "192.0.2.7:4711":
				return limiter.Daily(5, time.UTC)
			case "192.0.2.8:4711":
				return limiter.Until(5, time.Now())
			}
			return slow(5)
		}
		return httplimit.New(l, `v2:re\ply`, limitOf,
			httplimit.WithCost(func(*http.Request) int { return cost }),
			httplimit.WithSkip(func(r *http.Request) bool { return r.RemoteAddr == "192.0.2.9:4711" }))(ok)
	}
	handler, shadow := policy(l), policy(limiter.Shadow(l, func(context.Context, limiter.Result, error) {}))
	for _, step := range []struct {
		name, address   string
		cost, status    int
		remaining, body string
	}{
		{"no cost", "192.0.2.1", 0, 200, "5", "ok"},
		{"some of the tokens", "192.0.2.1", 3, 200, "2", "ok"},
		{"too many", "192.0.2.1", 3, 429, "2", "too many requests: try again in 86400 seconds" + of},
		{"more than fit, ever", "192.0.2.1", 1 << 62, 413, "2",
			"request too large: it costs 4611686018427387904, and at most 5 can be granted" + of},
		{"the others", "192.0.2.1", 2, 200, "0", "ok"},
		{"no cost, when the funnel is full", "192.0.2.1", 0, 200, "0", "ok"},
		{"all of the tokens", "192.0.2.1", 5, 429, "0", "too many requests: try again in 432000 seconds" + of},
		{"another address", "192.0.2.2", 1, 200, "4", "ok"},
		{"more than a quota", "192.0.2.7", 6, 413, "5", "request too large: it costs 6, and at most 5 can be granted" + of},
		{"a quota that has ended", "192.0.2.8", 5, 429, "0", "too many requests: the quota has ended" + of},
		{"skipped", "192.0.2.9", 5, 200, "", "ok"},
		{"skipped again", "192.0.2.9", 5, 200, "", "ok"},
	} {
		cost = step.cost
		got := ask(handler, from(step.address))
		state := fmt.Sprintf("%s: cost %d from %s: %v", step.name, step.cost, step.address, got.Header())
		require.Equal(t, step.status, got.Code, state)
		require.Equal(t, step.remaining, got.Header().Get("X-RateLimit-Remaining"), state)
		require.Equal(t, step.body, got.Body.String(), state)
		require.Equal(t, strings.Contains(step.body, "try again"), got.Header().Get("Retry-After") != "", state)
		if step.status != 200 {
			got = ask(shadow, from(step.address))
			state = fmt.Sprintf("%s, in shadow mode: %v", step.name, got.Header())
			require.Equal(t, step.remaining, got.Header().Get("X-RateLimit-Remaining"), state)
			require.Empty(t, got.Header().Get("Retry-After"), state)
			require.Equal(t, "ok", got.Body.String(), state)
		}
	}

	// Separators in the name are escaped: no other name and key are the same funnel.
	result, err := l.Charge(t.Context(), `{v2\:re\\ply:192.0.2.1}:rate`, slow(5), 7)
	require.NoError(t, err)
	require.Equal(t, 12*24*time.Hour, result.ResetAfter)
	cost = 0
	require.Equal(t, 200, ask(handler, from("192.0.2.1")).Code, "no cost, of an overfull funnel")
}

// Errors of Redis are answered 503, and errors of the application 500, because a retry would not
// help. The cause is logged, and not sent.
func TestErrors(t *testing.T) {
	const internal, unchecked = "Internal Server Error\n", "rate limits cannot be checked: try again in 1 second\n"
	for name, test := range map[string]struct {
		l                     *limiter.Limiter
		cost                  int
		limit                 limiter.Limit
		status                int
		retryAfter, body, log string
	}{
		"no Redis":      {limiter.New(unreachable(t)), 1, slow(1), 503, "1", unchecked, "127.0.0.1:1"},
		"negative cost": {limiter.NewLocal(), -1, slow(1), 500, "", internal, gcra.ErrQuantity.Error()},
		"invalid limit": {limiter.NewLocal(), 1, limiter.PerSecond(-1), 500, "", internal, "-1 per second"},
		"no limit":      {limiter.NewLocal(), 1, limiter.Limit{}, 500, "", internal, "0 per 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			previous, log := slog.Default(), new(strings.Builder)
			defer slog.SetDefault(previous)
			slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
			serve := func(l limiter.Allower, options ...httplimit.Option) *httptest.ResponseRecorder {
				options = append(options, httplimit.WithCost(func(*http.Request) int { return test.cost }))
				limitOf := func(*http.Request) limiter.Limit { return test.limit }
				return ask(httplimit.New(l, "reply", limitOf, options...)(ok), from("192.0.2.1"))
			}
			got := serve(test.l)
			require.Equal(t, test.status, got.Code)
			require.Equal(t, test.body, got.Body.String(), "neither the handler's answer nor the cause")
			require.Equal(t, test.retryAfter, got.Header().Get("Retry-After"))
			require.Empty(t, got.Header().Values("RateLimit"), "there is no result")
			require.Contains(t, log.String(), test.log)
			require.Contains(t, log.String(), "policy=reply")

			got = serve(limiter.Shadow(test.l, nil))
			require.Equal(t, "ok", got.Body.String())
			require.Empty(t, got.Header().Values("RateLimit"), "there is no result")

			got = serve(test.l, httplimit.OnError(func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, err.Error(), http.StatusTeapot)
			}))
			require.Equal(t, http.StatusTeapot, got.Code)
			require.Contains(t, got.Body.String(), test.log)
		})
	}
}

// A client that has gone gets 499, for the access log. A request whose deadline has passed gets
// 503. In both cases the handler does not run, tokens are given back, and nothing is logged.
func TestClientsWhoLeave(t *testing.T) {
	const late = "the deadline of the request has passed: try again in 1 second\n"
	for name, c := range map[string]struct {
		leaves   string // before the call, or when it is decided
		deadline bool
		cost     int
		status   int
		body     string
	}{
		"gone before the call":       {leaves: "before", cost: 1, status: 499},
		"gone when allowed":          {leaves: "decided", cost: 1, status: 499},
		"gone when refused":          {leaves: "decided", cost: 3, status: 499},
		"too late before the call":   {leaves: "before", deadline: true, cost: 1, status: 503, body: late},
		"too late when allowed":      {leaves: "decided", deadline: true, cost: 1, status: 503, body: late},
		"too late when refused":      {leaves: "decided", deadline: true, cost: 3, status: 503, body: late},
		"nobody leaves, for control": {leaves: "never", cost: 1, status: 200, body: "ok"},
	} {
		synctest.Test(t, func(t *testing.T) {
			previous, log := slog.Default(), new(strings.Builder)
			defer slog.SetDefault(previous)
			slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leave := cancel
			if c.deadline {
				ctx, cancel = context.WithTimeout(ctx, time.Minute)
				defer cancel()
				leave = func() { <-ctx.Done() }
			}
			if c.leaves == "before" {
				leave()
			}
			l := limiter.NewLocal(limiter.WithHook(func(_ context.Context, event limiter.Event) {
				if event.Command == "reserve" && c.leaves == "decided" {
					leave()
				}
			}))
			limit := httplimit.New(limiter.Allower(l), "p", slow(2),
				httplimit.WithCost(func(*http.Request) int { return c.cost }),
				httplimit.WithSlots(limiter.Slots{Max: 1, TTL: time.Hour}))
			got := ask(limit(ok), from("192.0.2.1").WithContext(ctx))
			synctest.Wait()
			require.Equal(t, c.status, got.Code, name)
			require.Equal(t, c.body, got.Body.String(), name)
			require.Empty(t, log.String(), name)
			used := 0
			if c.leaves == "never" {
				used = c.cost
			}
			tokens, err := l.Peek(t.Context(), httplimit.LimitKey("p", "192.0.2.1", slow(2)), slow(2))
			require.NoError(t, err)
			require.Equal(t, 2-used, tokens.Remaining, name)
			slots, err := l.PeekAll(t.Context(), limiter.Slots{Max: 1, TTL: time.Hour}.At(httplimit.SlotsKey("p", "192.0.2.1")))
			require.NoError(t, err)
			require.Equal(t, 1, slots[0].Remaining, name)
		})
	}
}

// The limit of each policy may depend on the request: here, a plan and a zone.
func TestLimitsOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.NewLocal()
		perMinute := func(r *http.Request) limiter.Limit {
			return map[string]limiter.Limit{"free": slow(2), "paid": limiter.Daily(5, time.UTC)}[r.Header.Get("Plan")]
		}
		perMonth := func(r *http.Request) limiter.Limit {
			return limiter.Monthly(1000, time.FixedZone(r.Header.Get("Zone"), 3600))
		}
		handler := httplimit.New(l, "minute", perMinute,
			httplimit.WithAlso("month", perMonth, httplimit.ByHeader("Zone", nil)))(ok)
		for _, c := range []struct {
			plan, zone string
			status     int
			rateLimit  string
		}{
			{plan: "free", zone: "a", status: 200, rateLimit: `"minute";r=1;t=86400, "month";r=999;t=2674800`},
			{plan: "free", zone: "b", status: 200, rateLimit: `"minute";r=0;t=172800, "month";r=999;t=2674800`},
			{plan: "free", zone: "a", status: 429, rateLimit: `"minute";r=0;t=86400, "month";r=999;t=2674800`},
			{plan: "paid", zone: "a", status: 200, rateLimit: `"minute";r=4;t=86400, "month";r=998;t=2674800`},
			{plan: "none", zone: "a", status: 500},
		} {
			r := from("192.0.2.1")
			r.Header.Set("Plan", c.plan)
			r.Header.Set("Zone", c.zone)
			got := ask(handler, r)
			require.Equal(t, c.status, got.Code, "%+v", c)
			require.Equal(t, c.rateLimit, strings.Join(got.Header().Values("RateLimit"), ", "), "%+v", c)
		}
	})
}

// A limited request is told which policy refuses it, and so is OnLimited, with the wait that the
// header says.
func TestWhoRefuses(t *testing.T) {
	month := limiter.Monthly(1000, time.UTC)
	for name, c := range map[string]struct {
		minute, month limiter.Limit
		used, cost    int
		want          httplimit.Refusal // but for its Result
		status        int
		text, x       string
		retryAfter    string
	}{
		"3 of the minute left": {
			minute: limiter.PerMinute(10), month: month, used: 7, cost: 7, status: 429,
			want:       httplimit.Refusal{Policy: "minute", RetryAfter: 24 * time.Second},
			text:       `too many requests: try again in 24 seconds (policy "minute")`,
			x:          "10 3 42",
			retryAfter: "24",
		},
		"both, the longest wait": {
			minute: limiter.PerMinute(10), month: limiter.Monthly(10, time.UTC), used: 10, cost: 1, status: 429,
			want:       httplimit.Refusal{Policy: "month", RetryAfter: 31 * 24 * time.Hour},
			text:       `too many requests: try again in 2678400 seconds (policy "month")`,
			x:          "10 0 2678400",
			retryAfter: "2678400",
		},
		"a fraction of a second": {
			minute: limiter.PerSecond(10), month: month, used: 10, cost: 1, status: 429,
			want:       httplimit.Refusal{Policy: "minute", RetryAfter: time.Second},
			text:       `too many requests: try again in 1 second (policy "minute")`,
			x:          "10 0 1",
			retryAfter: "1",
		},
		"more than the capacity": {
			minute: limiter.AtMost(10, time.Hour, 5), month: month, cost: 6, status: 413,
			want: httplimit.Refusal{Policy: "minute"},
			text: `request too large: it costs 6, and at most 5 can be granted (policy "minute")`,
			x:    "10 5 0",
		},
		"a quota that has ended": {
			minute: limiter.PerMinute(10), month: limiter.Until(10, time.Unix(1, 0)), cost: 1, status: 429,
			want: httplimit.Refusal{Policy: "month"},
			text: `too many requests: the quota has ended (policy "month")`,
			x:    "10 0 0",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			cost := c.used
			var refusal httplimit.Refusal
			limit := httplimit.New(limiter.NewLocal(), "minute", c.minute,
				httplimit.WithAlso("month", c.month, everybody),
				httplimit.WithCost(func(*http.Request) int { return cost }),
				httplimit.OnLimited(func(w http.ResponseWriter, _ *http.Request, got httplimit.Refusal) {
					refusal = got
					http.Error(w, got.String(), got.Status())
				}))
			ask(limit(ok), from("192.0.2.1"))
			cost = c.cost
			got := ask(limit(ok), from("192.0.2.1"))
			require.Equal(t, cost, refusal.Result.Quantity, name)
			require.True(t, refusal.Result.Limited(), name)
			refusal.Result = limiter.Result{}
			require.Equal(t, c.want, refusal, name)
			require.Equal(t, c.status, got.Code, name)
			require.Equal(t, c.text+"\n", got.Body.String(), name)
			require.Equal(t, c.retryAfter, got.Header().Get("Retry-After"), name)
			require.Equal(t, c.x, strings.Join(headersOf(got)[4:], " "), name)
		})
	}
}

func TestNewPanics(t *testing.T) {
	l := limiter.NewLocal()
	shadow, slots := limiter.Shadow(l, nil), httplimit.WithSlots(limiter.Slots{Max: 1, TTL: time.Second})
	make := func(l limiter.Allower, name string, limit limiter.Limit, options ...httplimit.Option) func() {
		return func() { httplimit.New(l, name, limit, options...) }
	}
	also := func(name string, limit limiter.Limit, key httplimit.KeyFunc) func() {
		return make(l, "own", slow(1), httplimit.WithAlso("first", slow(1), everybody), httplimit.WithAlso(name, limit, key))
	}
	const wrongSlots = "WithSlots needs a Max of at least 1 and a TTL of at least 1ms, not "
	const noName = ` needs a name for the policy, such as "login", not "": it is part of the keys in Redis, ` +
		"so that no two policies share a limit by accident, and of what clients are told"
	const ascii = " needs a name of printable ASCII characters, as headers have, not "
	for want, make := range map[string]func(){
		"New needs a Limiter, not nil":  make(nil, "own", slow(1)),
		"New needs a Limiter, not nil ": make((*limiter.Limiter)(nil), "own", slow(1)),
		`New needs a valid limit for "own", not 0 per day, capacity 0: ` + gcra.ErrCount.Error(): make(
			l, "own", limiter.Per(0, 24*time.Hour)),
		`New needs a limit for "own", or a function that returns it, not nil`: func() {
			httplimit.New(l, "own", (func(*http.Request) limiter.Limit)(nil))
		},
		"New" + noName:                              make(l, "", slow(1)),
		"New" + ascii + `"\x7f"`:                    make(l, "\x7f", slow(1)),
		"New" + ascii + `"\x1f"`:                    make(l, "\x1f", slow(1)),
		"New" + ascii + `"ü"`:                       make(l, "ü", slow(1)),
		"WithKey needs a function, not nil":         make(l, "own", slow(1), httplimit.WithKey(nil)),
		"WithCost needs a function, not nil":        make(l, "own", slow(1), httplimit.WithCost(nil)),
		"WithSkip needs a function, not nil":        make(l, "own", slow(1), httplimit.WithSkip(nil)),
		"OnLimited needs an answer, not nil":        make(l, "own", slow(1), httplimit.OnLimited(nil)),
		"OnError needs an answer, not nil":          make(l, "own", slow(1), httplimit.OnError(nil)),
		"WithSlots needs a Limiter with TryAcquire": make(shadow, "own", slow(1), slots),
		wrongSlots + "{Max:0 TTL:1s}": make(
			l, "own", slow(1), httplimit.WithSlots(limiter.Slots{TTL: time.Second})),
		wrongSlots + "{Max:1 TTL:0s}": make(l, "own", slow(1), httplimit.WithSlots(limiter.Slots{Max: 1})),
		"WithAlso needs a Limiter with AllowAll and PeekAll": make(
			shadow, "own", slow(1), httplimit.WithAlso("all", slow(1), everybody)),
		`WithAlso needs another name than "own", which is taken`:   also("own", slow(1), everybody),
		`WithAlso needs another name than "first", which is taken`: also("first", slow(1), everybody),
		`WithAlso needs a function for the key of "all", not nil`:  also("all", slow(1), nil),
		"WithAlso" + noName: also("", slow(1), everybody),
		`WithAlso needs a valid limit for "all", not 1 per 0s, capacity 1: ` + limiter.Per(1, 0).Validate().Error(): also(
			"all", limiter.Per(1, 0), everybody),
	} {
		require.PanicsWithValue(t, "httplimit: "+strings.TrimSpace(want), make)
	}
	require.NotPanics(t, make(l, " ~", slow(1)))
}
