// Package promhook counts the decisions of a limiter.Limiter for Prometheus. Copy this
// file, or import the package: the README of this Go module says which when.
//
// Beside it, funnel.lua has redis_exporter show what the server has counted, and
// alerts.yml has rules on both.
package promhook

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"funnel/limiter"
)

// New registers the metrics, and returns the hook that counts: for limiter.WithHook. One
// hook may serve several limiters.
//
// Keys are no labels: there may be any number of them, and each would be a time series.
func New(registerer prometheus.Registerer) limiter.Hook {
	factory := promauto.With(registerer)
	decisions := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "funnel_decisions_total",
		Help: "Decisions on one funnel, by command, outcome (allowed, limited) and path: what has decided.",
	}, []string{"command", "outcome", "path"})
	undecided := factory.NewCounter(prometheus.CounterOpts{
		Name: "funnel_errors_total",
		Help: "Calls that Redis has not decided, also where this process did instead.",
	})
	durations := factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: "funnel_decision_duration_seconds",
		Help: "Time from call to decision, by path. It does not count the sleep of a Wait.",
		// From a round trip within one machine to the timeout of a patient client.
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}, []string{"path"})

	return func(_ context.Context, event limiter.Event) {
		if event.Cause != nil {
			undecided.Inc()
		}
		path := string(event.Result.Path)
		if path == "" { // nobody has decided: the caller gets the error
			durations.WithLabelValues("none").Observe(event.Duration.Seconds())
			return
		}
		outcome := "allowed"
		if event.Result.Limited() {
			outcome = "limited"
		}
		decisions.WithLabelValues(event.Command, outcome, path).Inc()
		durations.WithLabelValues(path).Observe(event.Duration.Seconds())
	}
}
