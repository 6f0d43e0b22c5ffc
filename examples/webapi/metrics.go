package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"funnel/limiter"
)

// metrics counts decisions for Prometheus, by the names of examples/monitoring, whose alerts fit.
// That one uses the library of Prometheus, and also measures durations: copy it if your program has
// the library.
//
// Keys are no labels: each of any number of customers would be a time series.
type metrics struct {
	mutex  sync.Mutex
	counts map[string]map[string]int // by metric, and by its labels
}

// newMetrics returns metrics whose errors are 0 from the beginning: an increase can be seen only
// from a number that was there before.
func newMetrics() *metrics {
	m := &metrics{counts: map[string]map[string]int{"funnel_decisions_total": {}, "funnel_errors_total": {}}}
	policies := []string{"login", "account", "address"}
	for _, p := range plans {
		policies = append(policies, p.name, p.name+":slots", p.period)
	}
	for _, policy := range policies {
		m.counts["funnel_errors_total"][fmt.Sprintf("policy=%q", policy)] = 0
	}
	return m
}

// count is the hook of all Limiters.
func (m *metrics) count(ctx context.Context, event limiter.Event) {
	policy := policyOf(event.Result.Key)
	if event.Cause != nil && ctx.Err() == nil { // Redis has not decided, and the client is still there
		m.add("funnel_errors_total", fmt.Sprintf("policy=%q", policy))
	}
	source := event.Result.Source
	if source == "" { // nobody has decided: the caller gets an error
		return
	}
	outcome := "allowed"
	switch {
	case event.Result.Limited():
		outcome = "limited"
	case event.Limited: // by another limit of the request
		outcome = "limited_elsewhere"
	}
	m.add("funnel_decisions_total", fmt.Sprintf("policy=%q,command=%q,outcome=%q,source=%q",
		policy, event.Command, outcome, source))
}

// policyOf returns the policy that has made a key, as "pro" of "pro:{globex}:rate". Slots have a
// policy of their own, as in the headers: "pro:slots".
func policyOf(key string) string {
	policy, rest, _ := strings.Cut(strings.TrimPrefix(key, "{"), ":")
	if strings.HasSuffix(rest, ":slots") {
		return policy + ":slots"
	}
	return policy
}

func (m *metrics) add(metric, labels string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.counts[metric][labels]++
}

// ServeHTTP writes the metrics as Prometheus reads them.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, metric := range slices.Sorted(maps.Keys(m.counts)) {
		fmt.Fprintf(w, "# TYPE %s counter\n", metric)
		for _, labels := range slices.Sorted(maps.Keys(m.counts[metric])) {
			fmt.Fprintf(w, "%s{%s} %d\n", metric, labels, m.counts[metric][labels])
		}
	}
}
