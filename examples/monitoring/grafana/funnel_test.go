// Package grafana_test checks the dashboard, and the alerting rules beside the hook for
// Prometheus, against metrics that were really exposed.
package grafana_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	promhook "funnel/examples/monitoring/prometheus"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// An expression is one of PromQL, and whose it is.
type expression struct{ owner, text string }

// panels are the expressions of funnel.json, by title.
func panels(t *testing.T) (expressions []expression) {
	t.Helper()
	content, err := os.ReadFile("funnel.json")
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
		selectors := selectorsOf(e.text)
		require.NotEmpty(t, selectors, "%s: %s", e.owner, e.text)
		for _, s := range selectors {
			require.True(t, s.selects(t, exposed), "%s: nothing is selected by %s{%s}", e.owner, s.name, s.matchers)
		}
	}
}

// rules are those of alerts.yml.
func rules(t *testing.T) (expressions []expression) {
	t.Helper()
	content, err := os.ReadFile("../prometheus/alerts.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr         string
				For                 time.Duration
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&file))
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			require.NotEmpty(t, rule.Labels["severity"], rule.Alert)
			expressions = append(expressions, expression{rule.Alert, rule.Expr})
		}
	}
	return expressions
}

// A selector is a metric and its matchers, as in name{label="value"}.
type selector struct{ name, matchers string }

// Strings come first, so that what is in them is no name.
var selectorPattern = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|((?:redis|funnel)_\w+)(?:\{([^}]*)\})?`)

func selectorsOf(expression string) (selectors []selector) {
	for _, match := range selectorPattern.FindAllStringSubmatch(expression, -1) {
		if match[1] != "" {
			selectors = append(selectors, selector{match[1], match[2]})
		}
	}
	return selectors
}

var matcherPattern = regexp.MustCompile(`(\w+)(=~|=)("(?:[^"\\]|\\.)*")(?:,|$)`)

// selects says whether one of the samples is selected.
func (s selector) selects(t *testing.T, samples model.Vector) bool {
	t.Helper()
	require.Empty(t, matcherPattern.ReplaceAllString(s.matchers, ""), "cannot be read")
	for _, sample := range samples {
		found := string(sample.Metric["__name__"]) == s.name
		for _, match := range matcherPattern.FindAllStringSubmatch(s.matchers, -1) {
			value, err := strconv.Unquote(match[3])
			require.NoError(t, err)
			if match[2] == "=" {
				value = regexp.QuoteMeta(value)
			}
			if match[1] != "instance" { // which Prometheus adds
				found = found && regexp.MustCompile("^(?:"+value+")$").MatchString(string(sample.Metric[model.LabelName(match[1])]))
			}
		}
		if found {
			return true
		}
	}
	return false
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
	script, err := os.ReadFile("../prometheus/funnel.lua")
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
