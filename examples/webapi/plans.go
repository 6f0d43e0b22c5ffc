package main

import (
	"context"
	"net/http"
	"time"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// A plan is what a customer has bought. A request takes its cost from the minute and from the
// quota, and holds a slot while it runs: all of them or nothing.
type plan struct {
	name   string // of the policy of the minute and the slots
	minute limiter.Limit
	slots  limiter.Slots

	period string                                  // the name of the policy of the quota
	quota  func(zone *time.Location) limiter.Limit // whose day or month begins at midnight of the customer
}

// The TTL is how long slots are held after a crash. Requests survive an outage of Redis that is
// shorter.
var (
	free = &plan{
		name:   "free",
		minute: limiter.PerMinute(60).WithCapacity(10),
		slots:  limiter.Slots{Max: 2, TTL: 30 * time.Second},
		period: "day",
		quota:  func(zone *time.Location) limiter.Limit { return limiter.Daily(1000, zone) },
	}
	pro = &plan{
		name:   "pro",
		minute: limiter.PerMinute(600).WithCapacity(50),
		slots:  limiter.Slots{Max: 10, TTL: 30 * time.Second},
		period: "month",
		quota:  func(zone *time.Location) limiter.Limit { return limiter.Monthly(20_000, zone) },
	}
	plans = []*plan{free, pro}
)

// A customer has an API key, and an account to log in with, which has the customer's name.
type customer struct {
	name     string
	plan     *plan
	zone     *time.Location
	apiKey   string
	password string // in your table a hash, by bcrypt or Argon2
}

// customers stands for a table of your database. Keep yours in memory, too, because each request
// looks into it.
var customers = []*customer{
	{name: "acme", plan: free, zone: zone("Europe/Berlin"), apiKey: "key-of-acme", password: "correct horse"},
	{name: "globex", plan: pro, zone: zone("America/New_York"), apiKey: "key-of-globex", password: "battery staple"},
}

func zone(name string) *time.Location {
	location, err := time.LoadLocation(name)
	if err != nil {
		panic(err) // main imports all zones
	}
	return location
}

const apiKeyHeader = "X-Api-Key"

// forCustomers returns a handler for requests with an API key. Each takes cost from the limits of
// its customer's plan.
func (s *service) forCustomers(l *limiter.Limiter, cost int, handler http.HandlerFunc) http.Handler {
	byKey, limited := map[string]*customer{}, map[*plan]http.Handler{}
	for _, c := range s.customers {
		byKey[c.apiKey] = c
	}
	for _, p := range plans {
		limited[p] = p.limit(l, cost)(handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := byKey[r.Header.Get(apiKeyHeader)]
		if c == nil { // Redis is not asked: a client that makes up keys fills no memory
			http.Error(w, "unknown API key: send yours in "+apiKeyHeader, http.StatusUnauthorized)
			return
		}
		limited[c.plan].ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), customerKey{}, c)))
	})
}

// limit returns the middleware of a plan.
//
// The policy of the minute has the name of the plan, since another rate needs another key: a free
// customer who has used the minute and then buys pro would wait for the tokens of the free minute.
// The quotas are named day and month, so they, too, are counted apart.
func (p *plan) limit(l *limiter.Limiter, cost int) func(http.Handler) http.Handler {
	quota := func(r *http.Request) limiter.Limit { return p.quota(customerOf(r).zone) }
	byCustomer := func(r *http.Request) string { return customerOf(r).key() }
	return httplimit.New(l, p.name, p.minute,
		httplimit.WithKey(byCustomer),
		httplimit.WithSlots(p.slots),
		httplimit.WithAlso(p.period, quota, byCustomer),
		httplimit.WithCost(func(*http.Request) int { return cost }))
}

type customerKey struct{}

// customerOf returns the customer of a request that forCustomers let through.
func customerOf(r *http.Request) *customer { return r.Context().Value(customerKey{}).(*customer) }

// key is the key of a customer in all policies. The braces keep all limits on one node of a
// cluster, which decides on them atomically.
func (c *customer) key() string { return "{" + c.name + "}" }

// limits returns the limits of a customer's plan for the admin page, with the keys that the
// middleware uses.
func (c *customer) limits(l *limiter.Limiter, cost int) []watched {
	slots := httplimit.SlotsKey(c.plan.name, c.key())
	return []watched{
		watch(l, c.plan.name, c.key(), c.plan.minute, cost),
		watch(l, c.plan.period, c.key(), c.plan.quota(c.zone), cost),
		{limiter: l, policy: c.plan.name + ":slots", key: slots, row: c.plan.slots.At(slots)},
	}
}
