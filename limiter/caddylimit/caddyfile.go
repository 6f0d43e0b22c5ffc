package caddylimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("funnel", parseApp)
	httpcaddyfile.RegisterHandlerDirective("funnel", parseHandler)
	// A limit of logins has to come before the password is hashed. To limit by the user that an
	// authentication finds, an operator puts both into a route, or sets the order.
	httpcaddyfile.RegisterDirectiveOrder("funnel", httpcaddyfile.Before, "basic_auth")
}

// parseApp reads the global option.
func parseApp(d *caddyfile.Dispenser, before any) (any, error) {
	a := new(App)
	err := a.UnmarshalCaddyfile(d)
	if err == nil && before != nil {
		err = d.Err("funnel: the global option is set twice: write all settings into one block")
	}
	return httpcaddyfile.App{Name: "funnel", Value: caddyconfig.JSON(a, nil)}, err
}

// UnmarshalCaddyfile reads the global option:
//
//	funnel {
//		redis             <address>...
//		cluster
//		sentinel          <name of the primary>
//		username          <text>
//		password          <text>
//		sentinel_username <text>
//		sentinel_password <text>
//		tls
//		tls_ca            <file>
//		tls_certificate   <file> <file of the key>
//		prefix            <text>
//		timeout           <duration>
//		on_failure        local|open|closed|error
//		lease             <duration>
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // funnel
	if d.NextArg() {
		return d.Errf("funnel: '%s' is one word too many: the settings stand in a block, as in funnel { redis localhost:6379 }", d.Val())
	}
	seen := map[string]bool{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		l := line{d, "funnel", d.Val()}
		if seen[l.name] {
			return l.errorf("is set twice")
		}
		seen[l.name] = true
		err := a.parse(l)
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *App) parse(l line) (err error) {
	switch l.name {
	case "redis":
		a.Redis, err = l.words("an address, or several: host:port, the path of a Unix socket, or a URL such as redis://host:6379")
	case "cluster":
		a.Cluster, err = true, l.alone()
	case "sentinel":
		err = l.text(&a.Sentinel, "the name of the primary")
	case "username":
		err = l.text(&a.Username, "a user of Redis")
	case "password":
		err = l.text(&a.Password, "the password, such as {env.REDIS_PASSWORD}")
	case "sentinel_username":
		err = l.text(&a.SentinelUsername, "a user of the Sentinels")
	case "sentinel_password":
		err = l.text(&a.SentinelPassword, "the password, such as {env.SENTINEL_PASSWORD}")
	case "tls":
		a.TLS, err = true, l.alone()
	case "tls_ca":
		err = l.text(&a.TLSCA, "a file with the CA")
	case "tls_certificate":
		err = l.take("two files: the certificate and its key", &a.TLSCertificate, &a.TLSKey)
	case "prefix":
		err = l.text(&a.Prefix, "what is put before every key")
	case "timeout":
		err = l.duration(&a.Timeout)
	case "on_failure":
		err = l.text(&a.OnFailure, onFailures)
		if err != nil {
			return err
		}
		_, err = readOnFailure(a.OnFailure)
		if err != nil {
			return l.errorf("%w", err)
		}
	case "lease":
		err = l.duration(&a.Lease)
	default:
		err = l.unknown("redis, cluster, sentinel, username, password, sentinel_username, sentinel_password, tls, tls_ca, " +
			"tls_certificate, prefix, timeout, on_failure or lease")
	}
	return err
}

func parseHandler(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	err := h.UnmarshalCaddyfile(helper.Dispenser)
	return h, err
}

// UnmarshalCaddyfile reads the directive:
//
//	funnel [<matcher>] {
//		policy <name> {
//			match {
//				<matchers>
//			}
//			key         <words>...
//			ipv6_prefix <bits>
//
//			rate        <count> <period>
//			at_most     <max> <within>
//			window      <max> <within>
//			quota       <max> day|week|month|year [<zone>]
//			slots       <max> [<ttl>]
//
//			capacity    <number>
//			cost        <number>
//		}
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // funnel
	if d.NextArg() {
		return d.Errf("funnel: '%s' is one word too many: policies stand in a block, as in funnel { policy api { rate 100 1m } }", d.Val())
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		l := line{d, "funnel", d.Val()}
		if l.name != "policy" {
			return l.unknown("policy")
		}
		p := new(Policy)
		err := l.text(&p.Name, "a name")
		if err == nil {
			err = p.unmarshal(d)
		}
		if err == nil && slices.ContainsFunc(h.Policies, func(other *Policy) bool { return other.Name == p.Name }) {
			err = d.Errf("funnel: policy %q: %w", p.Name, errTwice)
		}
		if err != nil {
			return err
		}
		h.Policies = append(h.Policies, p)
	}
	if len(h.Policies) == 0 {
		return d.WrapErr(errNoPolicy)
	}
	return nil
}

// unmarshal reads the block of a policy.
func (p *Policy) unmarshal(d *caddyfile.Dispenser) error {
	place := fmt.Sprintf("funnel: policy %q", p.Name)
	seen := map[string]bool{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		l := line{d, place, d.Val()}
		if seen[l.name] && l.name != "match" { // the request has to match one of several
			return l.errorf("is set twice")
		}
		seen[l.name] = true
		err := p.parse(l)
		if err != nil {
			return err
		}
	}
	err := p.check()
	if err != nil {
		return d.Errf("%s: %w", place, err)
	}
	return nil
}

func (p *Policy) parse(l line) (err error) {
	switch l.name {
	case "match":
		matchers, err := caddyhttp.ParseCaddyfileNestedMatcherSet(l.d)
		if err != nil {
			return l.errorf("%w", err)
		}
		p.MatcherSetsRaw = append(p.MatcherSetsRaw, matchers)
	case "key":
		p.Key, err = l.words("words, such as {client_ip} or {header.X-Api-Key}")
	case "ipv6_prefix":
		err = l.take("a number of bits", &p.IPv6Prefix)
	case "rate":
		p.Rate = new(Rate)
		err = l.take("a number and a period, as in rate 100 1m", &p.Rate.Count, &p.Rate.Period)
	case "at_most":
		p.AtMost = new(Within)
		err = l.take("a number and a time, as in at_most 5 15m", &p.AtMost.Max, &p.AtMost.Within)
	case "window":
		p.Window = new(Within)
		err = l.take("a number and a time, as in window 5 15m", &p.Window.Max, &p.Window.Within)
	case "quota":
		p.Quota = new(Quota)
		err = l.take("a number, a period and perhaps a zone, as in quota 10000 month Europe/Berlin",
			&p.Quota.Max, &p.Quota.Period, optional{&p.Quota.Zone})
	case "slots":
		p.Slots = new(Slots)
		err = l.take("a number and perhaps a ttl, as in slots 5 30s", &p.Slots.Max, optional{&p.Slots.TTL})
	case "capacity":
		err = l.take("a number", &p.Capacity)
		if err == nil && p.Capacity < 1 {
			err = l.errorf("is %d: it must be at least 1", p.Capacity)
		}
	case "cost":
		err = l.text(&p.Cost, "a number, or a placeholder that stands for one")
		_, isNumber := strconv.Atoi(p.Cost)
		if err == nil && isNumber != nil && !strings.Contains(p.Cost, "{") || strings.HasPrefix(p.Cost, "-") {
			err = l.errorf("is '%s': %w", p.Cost, errCost)
		}
	default:
		err = l.unknown("match, key, ipv6_prefix, " + strings.Replace(limitWords, " or ", ", ", 1) + ", capacity or cost")
	}
	return err
}

// A line is a line of a block, whose name has been read.
type line struct {
	d     *caddyfile.Dispenser
	place string // of the block, for errors
	name  string
}

// errorf returns an error with the place, the file and the number of the line.
func (l line) errorf(format string, words ...any) error {
	return l.d.Errf("%s: %s %w", l.place, l.name, fmt.Errorf(format, words...))
}

func (l line) unknown(accepted string) error {
	return l.d.Errf("%s: there is no setting '%s': it must be %s", l.place, l.name, accepted)
}

// alone reads a line without arguments.
func (l line) alone() error {
	if l.d.NextArg() {
		return l.errorf("takes no argument, but got '%s'", l.d.Val())
	}
	return nil
}

// words reads a line of one argument or more.
func (l line) words(what string) ([]string, error) {
	words := l.d.RemainingArgs()
	if len(words) == 0 {
		return nil, l.errorf("needs %s", what)
	}
	return words, nil
}

// text reads a line of one argument.
func (l line) text(target *string, what string) error { return l.take(what, target) }

// duration reads a line of one duration.
func (l line) duration(target *caddy.Duration) error {
	return l.take("a duration such as 50ms", target)
}

// An optional target need not have an argument.
type optional struct{ target any }

// take reads a line of arguments for the targets: *string, *int and *caddy.Duration.
func (l line) take(what string, targets ...any) error {
	words := l.d.RemainingArgs()
	least := 0
	for _, target := range targets {
		if _, isOptional := target.(optional); !isOptional {
			least++
		}
	}
	if len(words) < least || len(words) > len(targets) {
		return l.errorf("needs %s, but got '%s'", what, strings.Join(words, " "))
	}
	for i, text := range words {
		target := targets[i]
		if inner, isOptional := target.(optional); isOptional {
			target = inner.target
		}
		err := l.set(target, text)
		if err != nil {
			return err
		}
	}
	return nil
}

func (l line) set(target any, text string) error {
	switch target := target.(type) {
	case *string:
		*target = text
	case *int:
		number, err := strconv.Atoi(text)
		if err != nil {
			return l.errorf("has '%s' where it needs a whole number", text)
		}
		*target = number
	case *caddy.Duration:
		d, err := caddy.ParseDuration(text)
		if err != nil || d <= 0 {
			return l.errorf("has '%s' where it needs a time above 0, such as 50ms, 1m or 1d", text)
		}
		*target = caddy.Duration(d)
	}
	return nil
}

// Interface guards.
var (
	_ caddyfile.Unmarshaler = (*App)(nil)
	_ caddyfile.Unmarshaler = (*Handler)(nil)
)
