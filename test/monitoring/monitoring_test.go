// Package monitoring_test checks the dashboard and the alerting rules of examples/monitoring:
// Prometheus parses them, and the metrics that they name were really exposed.
package monitoring_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	promhook "funnel/examples/monitoring/prometheus"
	"funnel/internal/servertest"
	"funnel/limiter"
)

const examples = "../../examples/monitoring/"

// An expression is one of PromQL, and whose it is.
type expression struct{ owner, text string }

// panels are the expressions of funnel.json, by title.
func panels(t *testing.T) (expressions []expression) {
	t.Helper()
	content, err := os.ReadFile(examples + "grafana/funnel.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(content, &dashboard))
	for _, panel := range dashboard.Panels {
		require.Equal(t, panel.Type == "row", len(panel.Targets) == 0, panel.Title)
		for _, target := range panel.Targets {
			expressions = append(expressions, expression{panel.Title, target.Expr})
		}
	}
	return expressions
}

// Whatever the dashboard and the rules ask for is there.
func TestExpressionsUseWhatIsExposed(t *testing.T) {
	expressions := append(panels(t), rules(t)...)
	require.Greater(t, len(expressions), 20)
	exposed := append(recorded(t), scraped(t)...)
	for _, e := range expressions {
		// Grafana replaces its variables; strings hold the others.
		parsed, err := parser.ParseExpr(strings.ReplaceAll(e.text, "$__rate_interval", "5m"))
		require.NoError(t, err, "%s: %s", e.owner, e.text)
		selectors := parser.ExtractSelectors(parsed)
		require.NotEmpty(t, selectors, "%s: %s", e.owner, e.text)
		for _, selector := range selectors {
			require.True(t, slices.ContainsFunc(exposed, func(sample *model.Sample) bool {
				return !slices.ContainsFunc(selector, func(m *labels.Matcher) bool {
					return m.Name != "instance" /* which Prometheus adds */ && !m.Matches(string(sample.Metric[model.LabelName(m.Name)]))
				})
			}), "%s: nothing is selected by %v", e.owner, selector)
		}
	}
}

// rules are those of alerts.yml, as Prometheus reads them: with their templates.
func rules(t *testing.T) (expressions []expression) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(examples+"prometheus/alerts.yml", false)
	require.Empty(t, errs)
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			require.NotEmpty(t, rule.Labels["severity"], rule.Alert)
			expressions = append(expressions, expression{rule.Alert, rule.Expr})
		}
	}
	return expressions
}

// recorded is what redis_exporter has shown.
func recorded(t *testing.T) model.Vector {
	t.Helper()
	file, err := os.Open("redis_exporter.txt")
	require.NoError(t, err)
	defer file.Close()
	return samplesOf(t, file)
}

// scraped is what the hook shows.
func scraped(t *testing.T) model.Vector {
	t.Helper()
	registry := prometheus.NewRegistry()
	rdb := servertest.StartClient(t)
	hook := promhook.New(registry)
	for _, only := range []limiter.Option{limiter.WithModuleOnly(), limiter.WithScriptOnly()} {
		l := limiter.New(rdb, only, limiter.WithHook(hook))
		_, err := l.Allow(t.Context(), "k", limiter.PerMinute(1))
		require.NoError(t, err)
	}
	response := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(response, httptest.NewRequest("GET", "/metrics", nil))
	return samplesOf(t, response.Body)
}

func samplesOf(t *testing.T, text io.Reader) (samples model.Vector) {
	t.Helper()
	decoder := expfmt.SampleDecoder{Dec: expfmt.NewDecoder(text, expfmt.NewFormat(expfmt.TypeTextPlain)), Opts: &expfmt.DecodeOptions{}}
	for {
		var some model.Vector
		err := decoder.Decode(&some)
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, samples)
			return samples
		}
		require.NoError(t, err)
		samples = append(samples, some...)
	}
}

// redis_exporter runs the script so, and takes the reply for names and numbers.
func TestScriptReturnsTheCountsOfInfo(t *testing.T) {
	script, err := os.ReadFile(examples + "prometheus/funnel.lua")
	require.NoError(t, err)
	rdb := servertest.StartClient(t)
	l := limiter.New(rdb)
	_, err = l.Allow(t.Context(), "k", limiter.PerMinute(1))
	require.NoError(t, err)
	_, err = l.Peek(t.Context(), "k", limiter.PerMinute(1))
	require.NoError(t, err)

	info, err := rdb.Info(t.Context(), "funnel").Result()
	require.NoError(t, err)
	want := []string{"funnel_loaded", "1"}
	for _, field := range regexp.MustCompile(`(funnel_\w+):(\d+)\r\n`).FindAllStringSubmatch(info, -1) {
		if field[1] != "funnel_commit" {
			want = append(want, field[1], field[2])
		}
	}
	reply, err := rdb.Eval(t.Context(), string(script), nil, "0").StringSlice()
	require.NoError(t, err)
	require.Equal(t, want, reply)
	for _, sample := range recorded(t) {
		if sample.Metric["__name__"] == "redis_script_values" {
			require.Contains(t, reply, string(sample.Metric["key"]))
		}
	}

	bare := servertest.Start(t, servertest.Options{}).Client(t)
	reply, err = bare.Eval(t.Context(), string(script), nil, "0").StringSlice()
	require.NoError(t, err)
	require.Equal(t, []string{"funnel_loaded", "0"}, reply, "without the module")
	require.Contains(t, rules(t), expression{"FunnelNotLoaded", `redis_script_values{key="funnel_loaded"} == 0`})
}
