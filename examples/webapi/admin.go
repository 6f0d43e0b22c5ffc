package main

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// A watched limit is a limit on the admin page.
type watched struct {
	limiter *limiter.Limiter // that decides on requests
	policy  string           // as the refused client reads it
	key     string           // in Redis
	row     limiter.Row      // to peek at
}

// watch returns the limit of a policy of httplimit, for requests of that key and cost.
func watch(l *limiter.Limiter, policy, key string, limit limiter.Limit, cost int) watched {
	inRedis := httplimit.LimitKey(policy, key, limit)
	return watched{l, policy, inRedis, limiter.Request{Key: inRedis, Limit: limit, Quantity: cost}}
}

// A view is what the page of a customer shows.
type view struct {
	Name, Plan, Zone string
	Address          string // of the client whose logins are shown, or ""
	Cost             int    // of the request that would be refused or not
	Report           int    // what a report takes before it begins
	Limits           []state
}

// A state is a row of the page.
type state struct {
	Policy, Limit   string
	Used, Remaining int
	Refuses         string // for how long, or "" if it lets a request through
	Reset           time.Duration
	Source          string
}

// limitsOf returns all limits of a customer: of the plan, and of logins.
func (s *service) limitsOf(c *customer, address string, cost int) (plan, logins []watched) {
	return c.limits(s.limiters.prices, cost), s.loginLimits(c, address)
}

//go:embed admin.html
var pages string

var page = template.Must(template.New("").Parse(pages))

func (s *service) listCustomers(w http.ResponseWriter, _ *http.Request) {
	var names []string
	for _, c := range s.customers {
		names = append(names, c.name)
	}
	render(w, "customers", names)
}

// showLimits answers why a customer is limited. It peeks, which takes nothing.
func (s *service) showLimits(w http.ResponseWriter, r *http.Request) {
	c, address, ok := s.subject(w, r)
	if !ok {
		return
	}
	cost, err := strconv.Atoi(r.FormValue("cost"))
	if err != nil || cost < 1 {
		cost = 1
	}
	v := view{
		Name: c.name, Plan: c.plan.name, Zone: c.zone.String(),
		Address: address, Cost: cost, Report: reportEstimate,
	}
	plan, logins := s.limitsOf(c, address, cost)
	for _, limits := range [][]watched{plan, logins} { // each of one Limiter, in one round trip
		states, err := peek(r.Context(), limits)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		v.Limits = append(v.Limits, states...)
	}
	render(w, "customer", v)
}

// peek returns the states of limits that belong to one Limiter.
func peek(ctx context.Context, limits []watched) (states []state, err error) {
	var rows []limiter.Row
	for _, each := range limits {
		rows = append(rows, each.row)
	}
	results, err := limits[0].limiter.PeekAll(ctx, rows...)
	if err != nil {
		return nil, err
	}
	for i, result := range results {
		states = append(states, stateOf(limits[i].policy, result))
	}
	return states, nil
}

func stateOf(policy string, result limiter.Result) state {
	most := result.Limit.Capacity
	limit := result.Limit.String()
	if result.Slots.Max > 0 {
		most = result.Slots.Max
		limit = fmt.Sprintf("%d in flight", result.Slots.Max)
	}
	refuses := ""
	switch {
	case result.OK:
	case result.Slots.Max > 0:
		refuses = "until a request ends" // sooner than its slot would
	case result.RetryAfter == limiter.NoRetry:
		refuses = "for good: the cost is above the limit"
	default:
		refuses = "for " + roundUp(result.RetryAfter).String()
	}
	return state{
		Policy: policy, Limit: limit, Used: most - result.Remaining, Remaining: result.Remaining, Refuses: refuses,
		Reset: roundUp(result.ResetAfter), Source: origin(result.Source),
	}
}

// origin says where numbers come from. While Redis does not answer, they are not what the customer
// has used.
func origin(source limiter.Source) string {
	switch source {
	case limiter.FromModule, limiter.FromScript:
		return "Redis"
	case limiter.FromLocal:
		return "this process alone: each process limits by itself"
	case limiter.FromOpen:
		return "nobody: Redis does not answer, prices are not counted and reports are refused"
	default:
		return string(source)
	}
}

func roundUp(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// resetLimit empties one limit of a customer. Of slots, it ends the requests that hold them.
func (s *service) resetLimit(w http.ResponseWriter, r *http.Request) {
	c, address, ok := s.subject(w, r)
	if !ok {
		return
	}
	policy := r.PostFormValue("policy")
	limits := slices.Concat(s.limitsOf(c, address, 1))
	at := slices.IndexFunc(limits, func(each watched) bool { return each.policy == policy })
	if at < 0 {
		http.Error(w, fmt.Sprintf("%s has no limit %q", c.name, policy), http.StatusBadRequest)
		return
	}
	err := limits[at].limiter.Reset(r.Context(), limits[at].key)
	if err != nil { // whatever OnFailure says, as nobody could keep the promise
		http.Error(w, "not reset: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	slog.Info("a limit was reset", "customer", c.name, "policy", policy, "address", address)
	query := url.Values{"address": {address}}
	http.Redirect(w, r, "/customers/"+url.PathEscape(c.name)+"?"+query.Encode(), http.StatusSeeOther)
}

// subject returns the customer in the path, and the address of the client whose logins are meant,
// or "". If it is not ok, the request has been answered.
func (s *service) subject(w http.ResponseWriter, r *http.Request) (c *customer, address string, ok bool) {
	at := slices.IndexFunc(s.customers, func(c *customer) bool { return c.name == r.PathValue("name") })
	if at < 0 {
		http.NotFound(w, r)
		return nil, "", false
	}
	address = r.FormValue("address")
	if address != "" && s.clients.KeyOf(address, nil) == httplimit.UnknownClient {
		http.Error(w, fmt.Sprintf("address must be an IP address, not %q", address), http.StatusBadRequest)
		return nil, "", false
	}
	return s.customers[at], address, true
}

func render(w http.ResponseWriter, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	err := page.ExecuteTemplate(w, name, data)
	if err != nil {
		slog.Warn("a page is not whole", "page", name, "error", err)
	}
}
