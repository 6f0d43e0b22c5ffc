package caddylimit

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// The metrics have the names and labels of the hook in examples/monitoring, so that its rules fit
// both. They are of the process, because each configuration has a registry of its own.
var (
	decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "funnel_decisions_total",
		Help: "Decisions on one policy of a request, by policy, outcome (allowed, limited, limited_elsewhere) and " +
			"source: what has decided.",
		ConstLabels: prometheus.Labels{"command": "reserve"},
	}, []string{"policy", "outcome", "source"})

	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "funnel_errors_total",
		Help: "Policies of requests that Redis has not decided, even if this process did instead.",
	}, []string{"policy"})

	durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "funnel_decision_duration_seconds",
		Help: "Time that a request has waited for its decision, by source.",
		// From a round trip within one machine to the timeout of a patient client.
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}, []string{"source"})
)

// registerMetrics registers the metrics with the registry of a configuration.
func registerMetrics(registry *prometheus.Registry) error {
	for _, collector := range []prometheus.Collector{decisions, failures, durations} {
		err := registry.Register(collector)
		var already prometheus.AlreadyRegisteredError
		if err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

// count counts the decision on a request that was asked about the policies of these names.
func count(names []string, admission *policy.Admission, err error, took time.Duration) {
	if err != nil {
		durations.WithLabelValues("none").Observe(took.Seconds())
		if errors.Is(err, limiter.ErrUnavailable) {
			for _, name := range names {
				failures.WithLabelValues(name).Inc()
			}
		}
		return
	}
	durations.WithLabelValues(string(admission.Results[0].Source)).Observe(took.Seconds())
	isLimited := admission.Results.Limited()
	for i, result := range admission.Results {
		outcome := "allowed"
		switch {
		case result.Limited():
			outcome = "limited"
		case isLimited:
			outcome = "limited_elsewhere"
		}
		decisions.WithLabelValues(names[i], outcome, string(result.Source)).Inc()
		switch result.Source {
		case limiter.FromLocal, limiter.FromOpen, limiter.FromClosed:
			failures.WithLabelValues(names[i]).Inc()
		}
	}
}
