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

	"funnel/internal/servertest"
	"funnel/limiter"
	promhook "funnel/test/examples/prometheus"
)

// An expression is one of PromQL, and whose it is.
type expression struct{ owner, text string }

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ Type, UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ Expr string }
}

// dashboard is the panels of funnel.json, but for the titles of rows.
func dashboard(t *testing.T) (panels []panel) {
	t.Helper()
	content, err := os.ReadFile("funnel.json")
	require.NoError(t, err)
	var all struct{ Panels []panel }
	require.NoError(t, json.Unmarshal(content, &all))
	ids := map[int]bool{}
	for _, p := range all.Panels {
		require.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		if p.Type != "row" {
			panels = append(panels, p)
		}
	}
	require.NotEmpty(t, panels)
	return panels
}

func TestPanelsSayWhatTheyShow(t *testing.T) {
	for _, p := range dashboard(t) {
		require.NotEmpty(t, p.Title)
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
	}
}

// Whatever the dashboard and the rules ask for is there.
func TestExpressionsUseWhatIsExposed(t *testing.T) {
	var expressions []expression
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			expressions = append(expressions, expression{p.Title, target.Expr})
		}
	}
	expressions = append(expressions, rules(t)...)

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
			require.NotEmpty(t, rule.Alert)
			require.Positive(t, rule.For, rule.Alert)
			require.NotEmpty(t, rule.Labels["severity"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
			expressions = append(expressions, expression{rule.Alert, rule.Expr})
		}
	}
	require.NotEmpty(t, expressions)
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
	for _, path := range []limiter.Path{limiter.PathModule, limiter.PathScript} {
		l := limiter.New(rdb, limiter.WithPath(path), limiter.WithHook(hook))
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
	var want []string
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
	require.Empty(t, reply, "without the module")
}
