// A scrape shows the decisions of each source, and the calls without a decision. The script gives
// redis_exporter the counts of INFO funnel.

package promhook

import (
	"context"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

var ctx = context.Background()

// slow is a limit whose funnel leaks nothing during a test.
var slow = limiter.Per(1, servertest.StillPeriod*time.Second).WithCapacity(3)

func ask(t *testing.T, l *limiter.Limiter, key string) (allowed int) {
	for range 6 {
		result, err := l.Allow(ctx, key, slow)
		require.NoError(t, err)
		allowed += result.Allowed
	}
	return allowed
}

func TestScrapeShowsWhatWasDecided(t *testing.T) {
	server := servertest.StartModule(t)
	rdb := server.Client(t, func(options *redis.Options) { options.DialerRetries = 1 })
	registry := prometheus.NewPedanticRegistry()
	hook := New(registry, "login", "a:b")
	metrics := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer metrics.Close()
	counted := func(options ...limiter.Option) *limiter.Limiter {
		return limiter.New(rdb, append(options, limiter.WithHook(hook))...)
	}

	require.Equal(t, 3, ask(t, counted(limiter.WithSource(limiter.FromModule)), "login:module"))
	require.Equal(t, 3, ask(t, counted(limiter.WithSource(limiter.FromScript)), `a\:b:script`))
	l := counted()
	slots := limiter.Slots{Max: 1, TTL: time.Minute}.At("{login:slots}:slots") // as a policy with slots
	refused, err := l.TryAcquire(ctx, slots,
		limiter.Request{Key: "{login:slots}", Limit: slow, Quantity: 4})
	require.NoError(t, err)
	require.True(t, refused.Limited())
	_, err = l.Peek(ctx, "login:module", slow)
	require.NoError(t, err)
	charged, err := l.Charge(ctx, "login:module", slow, 1)
	require.NoError(t, err)
	_, err = l.Settle(ctx, &charged, 0)
	require.NoError(t, err)
	_, err = l.Allow(ctx, "login:module", limiter.PerMinute(0))
	require.Error(t, err)
	gone, giveUp := context.WithCancel(ctx)
	giveUp()
	_, err = l.Allow(gone, "login:module", slow)
	require.ErrorIs(t, err, context.Canceled)
	server.Kill()
	_, err = l.Allow(ctx, "login:module", slow)
	require.Error(t, err)
	require.Equal(t, 3, ask(t, counted(limiter.OnFailure(limiter.FailLocal)), "local"))

	require.NoError(t, testutil.ScrapeAndCompare(metrics.URL, strings.NewReader(`
# HELP funnel_decisions_total Decisions on one row, by policy, command, outcome (allowed, limited, limited_elsewhere) and source: what has decided.
# TYPE funnel_decisions_total counter
funnel_decisions_total{command="charge",outcome="allowed",policy="login",source="module"} 1
funnel_decisions_total{command="peek",outcome="limited",policy="login",source="module"} 1
funnel_decisions_total{command="refund",outcome="allowed",policy="login",source="module"} 1
funnel_decisions_total{command="reserve",outcome="allowed",policy="",source="local"} 3
funnel_decisions_total{command="reserve",outcome="allowed",policy="login",source="module"} 3
funnel_decisions_total{command="reserve",outcome="allowed",policy="a:b",source="script"} 3
funnel_decisions_total{command="reserve",outcome="limited",policy="",source="local"} 3
funnel_decisions_total{command="reserve",outcome="limited",policy="login",source="module"} 4
funnel_decisions_total{command="reserve",outcome="limited",policy="a:b",source="script"} 3
funnel_decisions_total{command="reserve",outcome="limited_elsewhere",policy="login:slots",source="module"} 1
# HELP funnel_errors_total Rows that Redis has not decided, by policy, even if this process did instead. Refunds count, too; callers that gave up do not.
# TYPE funnel_errors_total counter
funnel_errors_total{policy=""} 6
funnel_errors_total{policy="a:b"} 0
funnel_errors_total{policy="login"} 2
# HELP funnel_gave_up_total Rows whose callers gave up before a decision, by policy: their context ended, or they could not wait so long.
# TYPE funnel_gave_up_total counter
funnel_gave_up_total{policy=""} 0
funnel_gave_up_total{policy="a:b"} 0
funnel_gave_up_total{policy="login"} 1
`), "funnel_decisions_total", "funnel_errors_total", "funnel_gave_up_total"))
	families, err := registry.Gather()
	require.NoError(t, err)
	observed := map[string]uint64{} // durations, by source
	for _, family := range families {
		for _, metric := range family.Metric {
			if family.GetName() == "funnel_decision_duration_seconds" {
				observed[metric.Label[0].GetValue()] = metric.GetHistogram().GetSampleCount()
			}
		}
	}
	require.Equal(t, map[string]uint64{"local": 6, "module": 11, "none": 3, "script": 6}, observed)

	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// A request that takes a token and a slot, which is then renewed twice, is one request: the rows of
// slots have a policy of their own, and renewals a command.
func TestRequestsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		l := limiter.NewLocal(limiter.WithHook(New(registry, "api")))
		slots := limiter.Slots{Max: 5, TTL: 30 * time.Second}.At("{api:key}:slots")
		request := limiter.Request{Key: "{api:key}:rate", Limit: slow, Quantity: 1}
		got, err := l.TryAcquire(t.Context(), slots, request)
		require.NoError(t, err)
		time.Sleep(25 * time.Second) // two renewals
		require.NoError(t, got.Release(t.Context()))
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP funnel_decisions_total Decisions on one row, by policy, command, outcome (allowed, limited, limited_elsewhere) and source: what has decided.
# TYPE funnel_decisions_total counter
funnel_decisions_total{command="refund",outcome="allowed",policy="api:slots",source="local"} 1
funnel_decisions_total{command="renew",outcome="allowed",policy="api:slots",source="local"} 2
funnel_decisions_total{command="reserve",outcome="allowed",policy="api",source="local"} 1
funnel_decisions_total{command="reserve",outcome="allowed",policy="api:slots",source="local"} 1
`), "funnel_decisions_total"))
	})
}

// redis_exporter reads names and numbers from the reply of the script. The reply has all names of
// testdata, which redis_exporter has exported.
func TestScriptReturnsTheCountsOfInfo(t *testing.T) {
	script, err := os.ReadFile("funnel.lua")
	require.NoError(t, err)
	rdb := servertest.StartClient(t)
	l := limiter.New(rdb)
	_, err = l.Allow(ctx, "k", limiter.PerMinute(1))
	require.NoError(t, err)
	_, err = l.Peek(ctx, "k", limiter.PerMinute(1))
	require.NoError(t, err)

	info, err := rdb.Info(ctx, "funnel").Result()
	require.NoError(t, err)
	want := []string{"funnel_loaded", "1"}
	for _, field := range regexp.MustCompile(`(funnel_\w+):(\d+)\r\n`).FindAllStringSubmatch(info, -1) {
		if field[1] != "funnel_commit" {
			want = append(want, field[1], field[2])
		}
	}
	reply, err := rdb.Eval(ctx, string(script), nil, "0").StringSlice()
	require.NoError(t, err)
	require.Equal(t, want, reply)
	shown, err := os.ReadFile("testdata/redis_exporter.txt")
	require.NoError(t, err)
	for _, key := range regexp.MustCompile(`redis_script_values\{key="(\w+)"\}`).FindAllSubmatch(shown, -1) {
		require.Contains(t, reply, string(key[1]))
	}

	client := servertest.Start(t, servertest.Options{}).Client(t)
	reply, err = client.Eval(ctx, string(script), nil, "0").StringSlice()
	require.NoError(t, err)
	require.Equal(t, []string{"funnel_loaded", "0"}, reply, "without the module")
}

// Each alert links to a section of the page for operators.
func TestAlertsLinkToTheRunbook(t *testing.T) {
	rules, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(page), -1) {
		sections[strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	links := regexp.MustCompile(`runbook: docs/operations.md#(\S+)`).FindAllStringSubmatch(string(rules), -1)
	require.Len(t, links, strings.Count(string(rules), "- alert: "), "an alert has no runbook")
	for _, link := range links {
		require.True(t, sections[link[1]], "no section of docs/operations.md is called %s", link[1])
	}
}
