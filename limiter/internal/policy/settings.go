package policy

import (
	"errors"
	"fmt"
	"time"

	"funnel/internal/isnil"
	"funnel/limiter"
)

// A LimitFor is a limit of a policy: one for all requests, or a function that returns the limit of
// a request.
type LimitFor[Req any] interface {
	limiter.Limit | func(Req) limiter.Limit
}

// Settings are what options set. Req is the request of the package: the options of httplimit and
// grpclimit are these.
type Settings[Req any] struct {
	key   func(Req) string
	cost  func(Req) int
	skip  func(Req) bool
	slots *limiter.Slots // nil for none
	also  []namedLimit[Req]
}

// A namedLimit is one limit of a policy.
type namedLimit[Req any] struct {
	option  string // that the limit was given to, for errors
	name    string
	fixed   limiter.Limit // unless limitOf is set
	limitOf func(Req) limiter.Limit
	isFixed bool
	key     func(Req) string
}

func newNamedLimit[Req any, L LimitFor[Req]](option, name string, limit L, key func(Req) string) namedLimit[Req] {
	n := namedLimit[Req]{option: option, name: name, key: key}
	switch limit := any(limit).(type) {
	case limiter.Limit:
		n.fixed, n.isFixed = limit, true
	case func(Req) limiter.Limit:
		n.limitOf = limit
	}
	return n
}

// limit returns the limit of a request.
func (n *namedLimit[Req]) limit(r Req) limiter.Limit {
	if n.isFixed {
		return n.fixed
	}
	return n.limitOf(r)
}

// An Option changes Settings.
type Option[Req any] func(*Settings[Req])

// WithKey sets the key of requests.
func WithKey[Req any](key func(Req) string) Option[Req] {
	return func(s *Settings[Req]) { s.key = key }
}

// WithCost sets how many tokens a request takes.
func WithCost[Req any](cost func(Req) int) Option[Req] {
	return func(s *Settings[Req]) { s.cost = cost }
}

// WithSkip lets some requests pass without a decision.
func WithSkip[Req any](skip func(Req) bool) Option[Req] {
	return func(s *Settings[Req]) { s.skip = skip }
}

// WithSlots limits how many requests of a key run at once.
func WithSlots[Req any](slots limiter.Slots) Option[Req] {
	return func(s *Settings[Req]) { s.slots = &slots }
}

// WithAlso adds a limit with a name and a key of its own.
func WithAlso[Req any, L LimitFor[Req]](name string, limit L, key func(Req) string) Option[Req] {
	added := newNamedLimit("WithAlso", name, limit, key)
	return func(s *Settings[Req]) { s.also = append(s.also, added) }
}

// New returns a policy with that name, that limit, and the key byDefault unless an option sets
// another. It panics, in the name of the package caller, if l is nil or lacks a method, or if a
// name, a limit or an option is not valid.
func New[Req any, L LimitFor[Req]](caller string, l limiter.Allower, name string, limit L,
	byDefault func(Req) string, options ...Option[Req]) *Policy[Req] {
	s := Settings[Req]{key: byDefault, cost: func(Req) int { return 1 }, skip: func(Req) bool { return false }}
	for _, option := range options {
		option(&s)
	}
	p := &Policy[Req]{
		asker: NewAsker(l, name, nil),
		cost:  s.cost, skip: s.skip, slots: s.slots,
		limits: append([]namedLimit[Req]{newNamedLimit("New", name, limit, s.key)}, s.also...),
	}
	for _, n := range p.limits {
		p.names = append(p.names, n.name)
	}
	err := s.check()
	switch {
	case isnil.Is(l):
		err = errors.New("New needs a Limiter, not nil")
	case err != nil:
	case s.slots != nil && p.asker.acquirer == nil:
		err = errors.New("WithSlots needs a Limiter with TryAcquire")
	case s.slots == nil && len(s.also) > 0 && p.asker.several == nil:
		err = errors.New("WithAlso needs a Limiter with AllowAll and PeekAll")
	default:
		err = checkLimits(p.limits)
	}
	if err != nil {
		panic(caller + ": " + err.Error())
	}
	if p.slots != nil {
		p.names = append(p.names, name)
	}
	return p
}

// check returns an error that says which option is not valid, or nil.
func (s *Settings[Req]) check() error {
	switch {
	case s.key == nil:
		return errors.New("WithKey needs a function, not nil")
	case s.cost == nil:
		return errors.New("WithCost needs a function, not nil")
	case s.skip == nil:
		return errors.New("WithSkip needs a function, not nil")
	case s.slots != nil && (s.slots.Max < 1 || s.slots.TTL < time.Millisecond):
		return fmt.Errorf("WithSlots needs a Max of at least 1 and a TTL of at least 1ms, not %+v", *s.slots)
	}
	return nil
}

// checkLimits returns an error that says which limit of a policy is not valid, or nil.
func checkLimits[Req any](limits []namedLimit[Req]) error {
	names := map[string]bool{}
	for _, n := range limits {
		err := CheckName(n.option, n.name)
		switch {
		case err != nil:
			return err
		case names[n.name]:
			return fmt.Errorf("%s needs another name than %q, which is taken", n.option, n.name)
		case n.key == nil:
			return fmt.Errorf("%s needs a function for the key of %q, not nil", n.option, n.name)
		case !n.isFixed && n.limitOf == nil:
			return fmt.Errorf("%s needs a limit for %q, or a function that returns it, not nil", n.option, n.name)
		}
		if n.isFixed {
			err = n.fixed.Validate()
		}
		if err != nil {
			return fmt.Errorf("%s needs a valid limit for %q, not %v: %w", n.option, n.name, n.fixed, err)
		}
		names[n.name] = true
	}
	return nil
}

// CheckName accepts what a string in a header may hold (RFC 9651, section 3.3.3).
func CheckName(option, name string) error {
	if name == "" {
		return fmt.Errorf(`%s needs a name for the policy, such as "login", not "": it is part of the keys in Redis, `+
			"so that no two policies share a limit by accident, and of what clients are told", option)
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return fmt.Errorf("%s needs a name of printable ASCII characters, as headers have, not %q", option, name)
		}
	}
	return nil
}
