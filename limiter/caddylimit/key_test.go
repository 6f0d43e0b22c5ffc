package caddylimit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"

	"funnel/limiter/httplimit"
)

func TestKeys(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/a{b}?token=t", nil)
	r.RemoteAddr = "203.0.113.9:1234"
	r.Header.Set("X-Api-Key", "secret")
	r.Header.Set("Cookie", "session=s")
	for _, c := range []struct {
		words, client, key string
		bits               int
	}{
		{"", "192.0.2.1", "192.0.2.1", 0},
		{"", "2001:db8:1:2:3::", "2001:db8:1:2::/64", 0},
		{"", "2001:db8:1:2:3::", "2001:db8:1::/56", 56},
		{"", "64:ff9b::c000:201", "192.0.2.1", 0},
		{"", "", "unknown", 0},
		{"{http.vars.client_ip}", "192.0.2.1", "192.0.2.1", 0},
		{"{http.request.remote.host}", "192.0.2.1", "203.0.113.9", 0},
		{"all", "192.0.2.1", "all", 0},
		{"{http.request.uri.path}", "192.0.2.1", "/a%7Bb%7D", 0},
		{"{http.request.header.X-Api-Key}", "192.0.2.1", httplimit.HeaderKey("X-Api-Key", "secret"), 0},
		{"{http.request.header.X-None}", "192.0.2.1", "192.0.2.1", 0},
		{"{http.request.header.X-None}", "2001:db8:1:2:3::", "2001:db8:1:2::/64", 0},
		{"{http.request.cookie.session}", "192.0.2.1", httplimit.HeaderKey("cookie.session", "s"), 0},
		{"{http.request.uri.query.token}", "192.0.2.1", httplimit.HeaderKey("query.token", "t"), 0},
		{"v1-{http.request.header.X-Api-Key}", "192.0.2.1", httplimit.HeaderKey("text", "v1-secret"), 0},
		{"v1-{http.request.header.X-None}", "192.0.2.1", "192.0.2.1", 0},
		{"{http.auth.user.id}", "192.0.2.1", "%ip:192.0.2.1", 0},
		{"id-{http.auth.user.id}", "192.0.2.1", "%ip:192.0.2.1", 0},
		{"{http.request.method} {http.vars.client_ip}", "192.0.2.1", "GET|192.0.2.1", 0},
		{"{http.auth.user.id} {http.request.method}", "192.0.2.1", "%25ip:192.0.2.1|GET", 0},
	} {
		replacer := caddyhttp.NewTestReplacer(r)
		replacer.Set("http.vars.client_ip", c.client)
		vars := map[string]any{caddyhttp.ClientIPVarKey: c.client}
		got := newKey(strings.Fields(c.words), c.bits).of(
			r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars)), replacer)
		require.Equal(t, c.key, got, c.words)
	}

	// A user who is called like an address does not share the limit of those without a name.
	replacer := caddyhttp.NewTestReplacer(r)
	for id, key := range map[string]string{"192.0.2.1": "192.0.2.1", "%ip:192.0.2.1": "%25ip:192.0.2.1"} {
		replacer.Set("http.auth.user.id", id)
		require.Equal(t, key, newKey([]string{"{http.auth.user.id}"}, 0).of(r, replacer))
	}
}
