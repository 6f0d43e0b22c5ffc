// What the Caddyfile accepts, and what its errors say.

package caddylimit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/stretchr/testify/require"
)

// adapt returns the JSON of a Caddyfile.
func adapt(text string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// Errors name file and line, what was given, and what is accepted.
func TestFaultsOfCaddyfiles(t *testing.T) {
	// A site has the lines of a policy from its third line on.
	policy := func(lines string) string { return ":80 {\nfunnel {\npolicy api {\n" + lines + "\n}\n}\n}" }
	app := func(lines string) string { return "{\nfunnel {\n" + lines + "\n}\n}" }
	for _, c := range []struct{ text, err string }{
		{":80 {\nfunnel\n}",
			`funnel: there is no policy: it needs at least one, as in funnel { policy api { rate 100 1m ` +
				`} }, at Caddyfile:2`},
		{":80 {\nfunnel /x y\n}",
			`funnel: 'y' is one word too many: policies stand in a block, as in funnel { policy api { ` +
				`rate 100 1m } }, at Caddyfile:2`},
		{":80 {\nfunnel {\nzone api\n}\n}", `funnel: there is no setting 'zone': it must be policy, at Caddyfile:3`},
		{":80 {\nfunnel {\npolicy\n}\n}", `funnel: policy needs a name, but got '', at Caddyfile:3`},
		{":80 {\nfunnel {\npolicy a b\n}\n}", `funnel: policy needs a name, but got 'a b', at Caddyfile:3`},
		{":80 {\nfunnel {\npolicy é {\nrate 1 1m\n}\n}\n}",
			`a policy needs a name of printable ASCII characters, as headers have, not "é", at Caddyfile:5`},
		{":80 {\nfunnel {\npolicy a {\nrate 1 1m\n}\npolicy a {\nrate 1 1m\n}\n}\n}",
			`funnel: policy "a": the name is taken by another policy of this handler: each has its own, at Caddyfile:8`},
		{policy(""),
			`funnel: policy "api": there is no limit: it needs one of rate, at_most, window, quota or ` +
				`slots, at Caddyfile:5`},
		{policy("rate 1 1m\nslots 5"),
			`funnel: policy "api": there are two limits: a policy has one of rate, at_most, window, ` +
				`quota or slots; ` +
				`write a second policy, and a request takes from both or from none, at Caddyfile:6`},
		{policy("events 5"),
			`funnel: policy "api": there is no setting 'events': it must be match, key, ipv6_prefix, rate, ` +
				`at_most, window, quota, slots, capacity or cost, at Caddyfile:4`},
		{policy("rate 1 1m\nrate 2 1m"), `funnel: policy "api": rate is set twice, at Caddyfile:5`},
		{policy("rate 100"),
			`funnel: policy "api": rate needs a number and a period, as in rate 100 1m, but got '100', ` +
				`at Caddyfile:4`},
		{policy("rate 100 1m 10"),
			`funnel: policy "api": rate needs a number and a period, as in rate 100 1m, but got '100 1m ` +
				`10', at Caddyfile:4`},
		{policy("rate x 1m"), `funnel: policy "api": rate has 'x' where it needs a whole number, at Caddyfile:4`},
		{policy("rate 1.5 1m"), `funnel: policy "api": rate has '1.5' where it needs a whole number, at Caddyfile:4`},
		{policy("rate 1 x"),
			`funnel: policy "api": rate has 'x' where it needs a time above 0, such as 50ms, 1m or 1d, ` +
				`at Caddyfile:4`},
		{policy("rate 1 -1m"),
			`funnel: policy "api": rate has '-1m' where it needs a time above 0, such as 50ms, 1m or 1d, ` +
				`at Caddyfile:4`},
		{policy("rate 0 1m"), `funnel: policy "api": rate: `},
		{policy("rate 1 1m\ncapacity 0"), `funnel: policy "api": capacity is 0: it must be at least 1, at Caddyfile:5`},
		{policy("window 1 1m\ncapacity 1"), `funnel: policy "api": capacity is only for rate and at_most, at Caddyfile:6`},
		{policy("at_most 5 15m\ncapacity 6"),
			`funnel: policy "api": at_most: burst, the capacity, must be from 1 to 5, not 6, at Caddyfile:6`},
		{policy("at_most 5"),
			`funnel: policy "api": at_most needs a number and a time, as in at_most 5 15m, but got '5', ` +
				`at Caddyfile:4`},
		{policy("window -1 1m"), `funnel: policy "api": window: `},
		{policy("quota 5 hour"),
			`funnel: policy "api": quota: the period is 'hour': it must be day, week, month or year, at ` +
				`Caddyfile:5`},
		{policy("quota 5 day Berlin"),
			`funnel: policy "api": quota: the zone is 'Berlin': it must be UTC, or the name of a time zone ` +
				`such as Europe/Berlin, the same for all Caddys, at Caddyfile:5`},
		{policy("quota 5 day Local"), `funnel: policy "api": quota: the zone is 'Local': it must be UTC`},
		{policy("quota 5"),
			`funnel: policy "api": quota needs a number, a period and perhaps a zone, as in quota 10000 ` +
				`month Europe/Berlin, but got '5', at Caddyfile:4`},
		{policy("slots 0"), `funnel: policy "api": slots: the number is 0: it must be at least 1, at Caddyfile:5`},
		{policy("slots 1 10ms"), `funnel: policy "api": slots: the ttl is 10ms: it must be at least 1s, at Caddyfile:5`},
		{policy("slots 1\ncost 2"), `funnel: policy "api": cost is not for slots: each request holds one, at Caddyfile:6`},
		{policy("rate 1 1m\ncost x"),
			`funnel: policy "api": cost is 'x': it must be a whole number of at least 0, at Caddyfile:5`},
		{policy("rate 1 1m\ncost -1"),
			`funnel: policy "api": cost is '-1': it must be a whole number of at least 0, at Caddyfile:5`},
		{policy("rate 1 1m\nkey"),
			`funnel: policy "api": key needs words, such as {client_ip} or {header.X-Api-Key}, at Caddyfile:5`},
		{policy("rate 1 1m\nipv6_prefix 16"),
			`funnel: policy "api": ipv6_prefix is 16: it must be from 32 to 128, at Caddyfile:6`},
		{policy("rate 1 1m\nmatch {\nnothing\n}"),
			`funnel: policy "api": match getting matcher module 'nothing': module not registered: ` +
				`http.matchers.nothing`},

		{"{\nfunnel x\n}",
			`funnel: 'x' is one word too many: the settings stand in a block, as in funnel { redis ` +
				`localhost:6379 }, at Caddyfile:2`},
		{"{\nfunnel {\nredis a:1\n}\nfunnel {\nredis a:1\n}\n}",
			`funnel: the global option is set twice: write all settings into one block, at Caddyfile:7`},
		{app("redis"),
			`funnel: redis needs an address, or several: host:port, the path of a Unix socket, or a URL ` +
				`such as redis://host:6379, at Caddyfile:3`},
		{app("adress a:1"),
			`funnel: there is no setting 'adress': it must be redis, cluster, sentinel, username, ` +
				`password, sentinel_username, ` +
				`sentinel_password, tls, tls_ca, tls_certificate, prefix, timeout, on_failure or lease, at Caddyfile:3`},
		{app("redis a:1\nredis b:1"), `funnel: redis is set twice, at Caddyfile:4`},
		{app("cluster a:1"), `funnel: cluster takes no argument, but got 'a:1', at Caddyfile:3`},
		{app("sentinel"), `funnel: sentinel needs the name of the primary, but got '', at Caddyfile:3`},
		{app("tls_certificate a"),
			`funnel: tls_certificate needs two files: the certificate and its key, but got 'a', at ` +
				`Caddyfile:3`},
		{app("timeout 1"), `funnel: timeout has '1' where it needs a time above 0, such as 50ms, 1m or 1d, at Caddyfile:3`},
		{app("on_failure allow"), `funnel: on_failure is 'allow': it must be local, open, closed or error, at Caddyfile:3`},
	} {
		_, err := adapt(c.text)
		require.ErrorContains(t, err, c.err, c.text)
		require.Regexp(t, `at Caddyfile:\d+`, err.Error(), c.text)
	}
}

// What only the whole configuration shows is found by caddy validate, and names the policy or the
// setting.
func TestFaultsOfConfigurations(t *testing.T) {
	site := "\n:80 {\nfunnel {\npolicy api {\nrate 1 1m\n}\n}\n}\n"
	app := func(lines string) string { return "{\nfunnel {\n" + lines + "\n}\n}" + site }
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, c := range []struct{ text, err string }{
		{site,
			`funnel: redis is not set: name a Redis or Valkey server in the global options, as in { ` +
				`funnel { redis localhost:6379 } }`},
		{app("prefix a:"), `funnel: redis is not set: name a Redis`},
		{app("redis {env.CADDY_TEST_NOTHING}"), `funnel: redis: evaluated placeholder {env.CADDY_TEST_NOTHING} is empty`},
		{app("redis a:1\npassword {http.request.host}"), `funnel: password: unrecognized placeholder {http.request.host}`},
		{app("redis localhost"), `funnel: redis: address 1 is 'localhost': it must be host:port with a port from 1 to 65535`},
		{app("redis redis://me:SECRET@a:0"), `funnel: redis: address 1 must be host:port with a port from 1 to 65535`},
		{app("redis http://a:1"), `funnel: redis: address 1 is not like redis://user:password@host:6379`},
		{app("redis a:1 b:1"),
			`funnel: redis has 2 addresses: more than one are nodes of a cluster, which needs cluster, ` +
				`or Sentinels`},
		{app("redis a:1\ncluster\nsentinel main"), `funnel: cluster and sentinel are both set`},
		{app("redis a:1\ntls_ca /nothing"), `funnel: TLS: stat /nothing: no such file or directory`},
		{app("redis a:1\ntls_ca " + empty), `funnel: TLS: tls_ca: ` + empty + ` has no certificate in PEM`},
		{app("redis a:1\ntls_certificate " + empty + " " + empty), `funnel: TLS: tls_certificate: `},
		{app("redis a:1\ntimeout 1us"), `funnel: timeout is 1µs: it must be at least 1ms`},
		{app("redis a:1") + ":81 {\nfunnel {\npolicy api {\nrate 2 1m\n}\n}\n}",
			`funnel: policy "api": there are two policies of that name with ` +
				`different limits`},
	} {
		text, err := adapt(c.text)
		require.NoError(t, err, c.text)
		config := new(caddy.Config)
		require.NoError(t, json.Unmarshal(text, config))
		err = caddy.Validate(config)
		require.ErrorContains(t, err, c.err, c.text)
		require.NotContains(t, err.Error(), "SECRET")
	}
}

// every has every setting once, as caddy fmt writes them.
const every = `{
	admin off
	funnel {
		redis a:6379 b:6379
		sentinel main
		username me
		password {env.CADDY_TEST_PASSWORD}
		sentinel_username watcher
		sentinel_password {env.CADDY_TEST_PASSWORD}
		tls
		prefix site:
		timeout 100ms
		on_failure closed
		lease 50ms
	}
}

:80 {
	funnel /api/* {
		policy key {
			match {
				method POST PUT
				header X-Plan gold
			}
			match {
				path /api/other
			}
			key {header.X-Api-Key} {method}
			ipv6_prefix 56
			rate 100 1m
			capacity 20
			cost {header.X-Cost}
		}
		policy login {
			at_most 5 15m
			capacity 3
		}
		policy window {
			window 5 15m
		}
		policy month {
			quota 10000 month Europe/Berlin
		}
		policy uploads {
			slots 5 1m
		}
	}
	respond ok
}
`

// everyInJSON is the handler of every, by the words of the Caddyfile.
const everyInJSON = `{"handler":"funnel","policies":[
	{"name":"key","match":[{"header":{"X-Plan":["gold"]},"method":["POST","PUT"]},{"path":["/api/other"]}],
		"key":["{http.request.header.X-Api-Key}","{http.request.method}"],"ipv6_prefix":56,
		"rate":{"count":100,"period":60000000000},"capacity":20,"cost":"{http.request.header.X-Cost}"},
	{"name":"login","at_most":{"max":5,"within":900000000000},"capacity":3},
	{"name":"window","window":{"max":5,"within":900000000000}},
	{"name":"month","quota":{"max":10000,"period":"month","zone":"Europe/Berlin"}},
	{"name":"uploads","slots":{"max":5,"ttl":60000000000}}]}`

const everyAppInJSON = `{"redis":["a:6379","b:6379"],"sentinel":"main","username":"me","password":"{env.CADDY_TEST_PASSWORD}",
	"sentinel_username":"watcher","sentinel_password":"{env.CADDY_TEST_PASSWORD}","tls":true,"prefix":"site:",
	"timeout":100000000,"on_failure":"closed","lease":50000000}`

// Caddy's commands agree on a Caddyfile with every setting: fmt leaves it, adapt makes the same
// words of it, and validate accepts both the Caddyfile and the JSON.
func TestCommands(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, inJSON := filepath.Join(folder, "Caddyfile"), filepath.Join(folder, "caddy.json")
	require.NoError(t, os.WriteFile(path, []byte(every), 0o600))
	run := func(arguments ...string) string {
		command := program(t, folder, arguments...)
		output, err := command.Output()
		require.NoError(t, err, "%v: %s", arguments, output)
		return string(output)
	}
	require.Equal(t, every, run("fmt", path))
	adapted := run("adapt", "--config", path)
	var config struct {
		Apps struct {
			Funnel json.RawMessage
			HTTP   struct {
				Servers map[string]struct {
					Routes []struct{ Handle []json.RawMessage }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(adapted), &config))
	require.JSONEq(t, everyAppInJSON, string(config.Apps.Funnel))
	routes := config.Apps.HTTP.Servers["srv0"].Routes
	require.Len(t, routes, 2)
	require.JSONEq(t, everyInJSON, string(routes[0].Handle[0]))
	require.NoError(t, os.WriteFile(inJSON, []byte(adapted), 0o600))
	run("validate", "--config", path)
	run("validate", "--config", inJSON)
	require.Contains(t, run("list-modules"), "\nhttp.handlers.funnel\n")
}

// The directive runs before basic_auth, without a global option of the order.
func TestOrder(t *testing.T) {
	text, err := adapt(`{
	funnel {
		redis a:1
	}
}
:80 {
	respond ok
	basic_auth {
		me $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
	}
	funnel {
		policy a {
			rate 1 1m
		}
	}
	rewrite * /x
}`)
	require.NoError(t, err)
	var places []int
	for _, handler := range []string{"rewrite", "funnel", "authentication", "static_response"} {
		places = append(places, strings.Index(string(text), fmt.Sprintf(`"handler":%q`, handler)))
	}
	require.IsIncreasing(t, places, string(text))
}
