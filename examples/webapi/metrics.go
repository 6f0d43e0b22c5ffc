package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"funnel/limiter"
)

// metrics counts decisions, through a limiter.Hook, and shows them in the text format of
// Prometheus, as an http.Handler. It is written by hand so that neither this example
// nor the module asks anybody to take a metrics library along; with one, Decided is
// where its counters are to be increased.
//
// Keys are no labels: there may be any number of them.
type metrics struct {
	mutex     sync.Mutex
	decisions [2]map[limiter.Path]int // allowed, limited
	errors    int
	seconds   float64
}

var outcomes = [...]string{"allowed", "limited"}

// Decided counts one decision.
func (m *metrics) Decided(_ context.Context, decision limiter.Decision) {
	outcome := 0
	if decision.Result.Limited() {
		outcome = 1
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if decision.Err != nil {
		m.errors++
	}
	if decision.Result.Path != "" {
		if m.decisions[outcome] == nil {
			m.decisions[outcome] = map[limiter.Path]int{}
		}
		m.decisions[outcome][decision.Result.Path]++
	}
	m.seconds += decision.Duration.Seconds()
}

// ServeHTTP shows the counts.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintln(w, "# TYPE funnel_decisions_total counter")
	for outcome, paths := range m.decisions {
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			fmt.Fprintf(w, "funnel_decisions_total{outcome=%q,path=%q} %d\n", outcomes[outcome], path, paths[path])
		}
	}
	fmt.Fprintf(w, "# TYPE funnel_errors_total counter\nfunnel_errors_total %d\n", m.errors)
	fmt.Fprintf(w, "# TYPE funnel_decision_seconds_total counter\nfunnel_decision_seconds_total %g\n", m.seconds)
}
