package caddylimit

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// A Policy is a limit with a name, a key and a matcher. It has one limit: Rate, AtMost, Window,
// Quota or Slots.
type Policy struct {
	// Name is 1 or more printable ASCII characters. It is part of the keys in Redis and of the
	// headers. Policies of one name share what is used, in all sites and all Caddys.
	Name string `json:"name"`

	// Match says which requests the policy applies to. Others pass it. By default it applies to
	// all.
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// Key has words with placeholders. Requests with the same words share the limit. By default it
	// is the address of the client.
	Key []string `json:"key,omitempty"`

	// IPv6Prefix is how many bits of an IPv6 address count, from 32 to 128: 64 by default.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`

	// Rate lets Count requests through per Period.
	Rate *Rate `json:"rate,omitempty"`

	// AtMost lets never more than Max requests through in any stretch of time shorter than Within.
	AtMost *Within `json:"at_most,omitempty"`

	// Window lets Max requests through from the first one until Within later.
	Window *Within `json:"window,omitempty"`

	// Quota lets Max requests through in each period of the calendar.
	Quota *Quota `json:"quota,omitempty"`

	// Slots let Max requests run at once.
	Slots *Slots `json:"slots,omitempty"`

	// Capacity is how many requests Rate and AtMost let through at once. By default it is Count of
	// Rate, or half of Max of AtMost, rounded up.
	Capacity int `json:"capacity,omitempty"`

	// Cost is how many tokens a request takes: a number, or a text with placeholders. If it is
	// empty, the request takes 1; if it is 0, the policy does not apply.
	Cost string `json:"cost,omitempty"`

	matchers caddyhttp.MatcherSets
	limit    limited
	key      key
}

// check reads the policy, and returns an error that says what is not valid.
func (p *Policy) check() error {
	err := policy.CheckName("a policy", p.Name)
	if err != nil {
		return err
	}
	if p.IPv6Prefix != 0 && (p.IPv6Prefix < 32 || p.IPv6Prefix > 128) {
		return fmt.Errorf("ipv6_prefix is %d: it must be from 32 to 128", p.IPv6Prefix)
	}
	p.limit, err = p.limited()
	if err != nil {
		return err
	}
	p.key = newKey(p.Key, p.IPv6Prefix)
	return nil
}

// provision checks the policy, and loads its matchers.
func (p *Policy) provision(ctx caddy.Context, app *App) error {
	err := p.check()
	if err == nil {
		err = app.claim(p.Name, p.limit)
	}
	if err != nil || len(p.MatcherSetsRaw) == 0 {
		return err
	}
	matchers, err := ctx.LoadModule(p, "MatcherSetsRaw")
	if err != nil {
		return fmt.Errorf("match: %w", err)
	}
	return p.matchers.FromInterface(matchers)
}

// errCost is for the operator: what a request costs is not what its client says.
var errCost = errors.New("it must be a whole number of at least 0")

// cost returns how many tokens a request takes.
func (p *Policy) cost(replacer *caddy.Replacer) (int, error) {
	if p.Cost == "" {
		return 1, nil
	}
	value := replacer.ReplaceAll(p.Cost, "")
	if value == "" {
		return 1, nil
	}
	cost, err := strconv.Atoi(value)
	if err != nil || cost < 0 {
		return 0, fmt.Errorf("funnel: policy %q: the cost of the request, %s, is %.40q: %w", p.Name, p.Cost, value, errCost)
	}
	return cost, nil
}

// questions are what a request is asked about: names are of the requests and then of the slots.
type questions struct {
	names    []string
	requests []limiter.Request
	slots    []limiter.Row
}

// questionsOf returns the questions of all policies that apply to a request.
func (h *Handler) questionsOf(r *http.Request, replacer *caddy.Replacer) (q questions, err error) {
	var namesOfSlots []string
	for _, p := range h.Policies {
		applies, err := p.matchers.AnyMatchWithError(r)
		if err != nil {
			return q, err
		}
		if !applies {
			continue
		}
		cost, err := p.cost(replacer)
		switch {
		case err != nil:
			return q, err
		case cost == 0:
		case p.limit.slots.Max > 0:
			namesOfSlots = append(namesOfSlots, p.Name)
			q.slots = append(q.slots, p.limit.slots.At(policy.SlotsKey(p.Name, p.key.of(r, replacer))))
		default:
			q.names = append(q.names, p.Name)
			q.requests = append(q.requests, limiter.Request{
				Key: policy.LimitKey(p.Name, p.key.of(r, replacer), p.limit.limit), Limit: p.limit.limit, Quantity: cost})
		}
	}
	q.names = append(q.names, namesOfSlots...)
	return q, nil
}
