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
	pages := []struct {
		path, help string
		handler    http.HandlerFunc
	}{
		{"/debug/pprof/", "root of various pprof endpoints. hit for help.", pprof.Index},
		{"/debug/pprof/profile", "CPU profiling endpoint", pprof.Profile},
		{"/debug/pprof/trace", "trace endpoint", pprof.Trace},
		{"/rlconfig", "print out the currently loaded configuration for debugging", func(w http.ResponseWriter, _ *http.Request) {
			limits, _, _ := current()
			if limits != nil {
				io.WriteString(w, limits.Dump())
			}
		}},
		{"/stats", "print out stats", func(w http.ResponseWriter, _ *http.Request) {
			expvar.Do(func(variable expvar.KeyValue) { fmt.Fprintf(w, "%s: %s\n", variable.Key, variable.Value) })
		}},
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
