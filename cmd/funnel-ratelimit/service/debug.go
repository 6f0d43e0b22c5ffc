package service

import (
	"expvar"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"slices"

	"github.com/envoyproxy/ratelimit/src/config"
)

// debugRoutes returns the pages of the port for debugging.
func debugRoutes(current func() (config.RateLimitConfig, bool, bool)) http.Handler {
	showLimits := func(w http.ResponseWriter, _ *http.Request) {
		limits, _, _ := current()
		if limits != nil {
			io.WriteString(w, limits.Dump())
		}
	}
	showStatistics := func(w http.ResponseWriter, _ *http.Request) {
		expvar.Do(func(variable expvar.KeyValue) { fmt.Fprintf(w, "%s: %s\n", variable.Key, variable.Value) })
	}
	pages := []struct {
		path, help string
		handler    http.HandlerFunc
	}{
		{"/debug/pprof/", "profiles", pprof.Index},
		{"/debug/pprof/profile", "a profile of the CPU", pprof.Profile},
		{"/debug/pprof/trace", "a trace", pprof.Trace},
		{"/rlconfig", "the limits that are loaded now", showLimits},
		{"/stats", "variables of the process", showStatistics},
	}
	routes := http.NewServeMux()
	var index []string
	for _, page := range pages {
		routes.HandleFunc(page.path, page.handler)
		index = append(index, page.path+": "+page.help+"\n")
	}
	slices.Sort(index)
	routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		for _, line := range index {
			io.WriteString(w, line)
		}
	})
	return routes
}
