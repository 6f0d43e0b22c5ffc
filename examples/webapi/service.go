package main

import (
	"fmt"
	"net/http"

	"funnel/limiter/httplimit"
)

// A service is what all handlers share.
type service struct {
	limiters  limiters
	customers []*customer
	archive   archive
	clients   httplimit.ClientIP // finds the address of a client behind the proxies that we trust
	metrics   *metrics
}

// public returns the handler for customers and their browsers.
func (s *service) public() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /login", s.login())
	mux.Handle("GET /price", s.forCustomers(s.limiters.prices, 1, s.price))
	mux.Handle("GET /report", s.forCustomers(s.limiters.reports, reportEstimate, s.report))

	// No limit is around the health check: a load balancer that gets 429 takes a busy server out,
	// and the others become busier. It does not ask Redis either, or an outage of Redis would take
	// all servers out.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return withCORS(mux)
}

// internal returns the handler for us. It must not be reachable from outside.
func (s *service) internal() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.listCustomers)
	mux.HandleFunc("GET /customers/{name}", s.showLimits)
	mux.HandleFunc("POST /customers/{name}/reset", s.resetLimit)
	mux.Handle("GET /metrics", s.metrics)
	return http.NewCrossOriginProtection().Handler(mux) // other sites cannot press the buttons
}

// price is the cheap endpoint.
func (s *service) price(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "price: 12.50") }
