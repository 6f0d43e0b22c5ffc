// Package promhook counts the decisions of a limiter.Limiter for Prometheus. Copy this file, or
// import the package.
//
// With funnel.lua, redis_exporter exports the counts of the server. The rules in alerts.yml use
// both.
package promhook

import (
	"context"
	"errors"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"funnel/limiter"
)

// New registers the metrics, and returns a hook that counts, for limiter.WithHook. One hook may
// serve several limiters.
//
// The label policy is one of policies if the key begins with its name and a colon, perhaps after a
// brace, as the keys of httplimit and grpclimit do. For all other keys it is empty. The slots of
// the policy api are the policy api:slots: a request that takes a token and a slot would otherwise
// count twice, and each renewal once more. The command of a renewal is renew. Keys are no labels,
// because each of any number of keys would be a time series.
//
// To count requests, sum over the command reserve of one policy. A caller that gave up before there
// was a decision is counted by funnel_gave_up_total alone, whether its context ended or it could
// not wait so long.
//
// The outcome of a row is limited_elsewhere if the row fits and another row limits the call: then
// nothing was taken.
func New(registerer prometheus.Registerer, policies ...string) limiter.Hook {
	factory := promauto.With(registerer)
	decisions := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "funnel_decisions_total",
		Help: "Decisions on one row, by policy, command, outcome (allowed, limited, limited_elsewhere) and source: " +
			"what has decided.",
	}, []string{"policy", "command", "outcome", "source"})
	undecided := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "funnel_errors_total",
		Help: "Rows that Redis has not decided, by policy, even if this process did instead. " +
			"Refunds count, too; callers that gave up do not.",
	}, []string{"policy"})
	abandoned := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "funnel_gave_up_total",
		Help: "Rows whose callers gave up before a decision, by policy: their context ended, or they could not wait so long.",
	}, []string{"policy"})
	prefixes := make([]string, len(policies)) // of the keys of each policy
	for i, policy := range policies {
		prefixes[i] = strings.NewReplacer(`\`, `\\`, `:`, `\:`, `{`, `\<`, `}`, `\>`).Replace(policy) + ":"
		undecided.WithLabelValues(policy) // 0, not absent, before the first
		abandoned.WithLabelValues(policy)
	}
	undecided.WithLabelValues("")
	abandoned.WithLabelValues("")
	policyOf := func(result limiter.Result) string {
		for i, prefix := range prefixes {
			isOf := strings.HasPrefix(strings.TrimPrefix(result.Key, "{"), prefix)
			switch {
			case isOf && result.Slots.TTL > 0:
				return policies[i] + ":slots"
			case isOf:
				return policies[i]
			}
		}
		return ""
	}

	durations := factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: "funnel_decision_duration_seconds",
		Help: "Time from call to decision, by source. It does not count the sleep of a Wait.",
		// From a round trip within one machine to the timeout of a patient client.
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}, []string{"source"})

	return func(ctx context.Context, event limiter.Event) {
		policy := policyOf(event.Result)
		gaveUp := ctx.Err() != nil || errors.Is(event.Cause, limiter.ErrWaitTooLong) ||
			errors.Is(event.Cause, limiter.ErrTooManyWaiting)
		source := string(event.Result.Source)
		switch {
		case gaveUp && source == "":
			abandoned.WithLabelValues(policy).Inc()
		case event.Cause != nil && !gaveUp:
			undecided.WithLabelValues(policy).Inc()
		}
		if source == "" { // nobody has decided: the caller gets the error
			durations.WithLabelValues("none").Observe(event.Duration.Seconds())
			return
		}
		outcome := "allowed"
		switch {
		case event.Result.Limited():
			outcome = "limited"
		case event.Limited:
			outcome = "limited_elsewhere"
		}
		decisions.WithLabelValues(policy, event.Command, outcome, source).Inc()
		durations.WithLabelValues(source).Observe(event.Duration.Seconds())
	}
}
