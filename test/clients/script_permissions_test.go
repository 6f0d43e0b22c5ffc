package clients_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// TestScriptPermissions: those that the page names suffice for all that a Limiter does
// without the module, on those keys and no others; and those of a user who only peeks.
func TestScriptPermissions(t *testing.T) {
	ctx := context.Background()
	server := servertest.Start(t, servertest.Options{})
	as := func(rules string) *limiter.Limiter {
		t.Helper()
		if !servertest.Since7(t) {
			rules = regexp.MustCompile(` \+eval(sha)?_ro`).ReplaceAllString(rules, "")
		}
		words := append(servertest.Words("acl setuser app reset on >secret"), servertest.Words(rules)...)
		require.NoError(t, server.Client(t).Do(ctx, words...).Err())
		return limiter.New(server.Client(t, func(options *redis.Options) { options.Username, options.Password = "app", "secret" }))
	}
	rules, found := strings.CutPrefix(snippet(t, "script permissions"), "ACL SETUSER app on >secret ")
	require.True(t, found)
	l, limit := as(rules), limiter.PerHour(1).Burst(5)

	_, err := l.Allow(ctx, "user:1", limit)
	require.NoError(t, err)
	both, err := l.AllowAll(ctx, limiter.Request{Key: "user:1", Limit: limit, Quantity: 1},
		limiter.Request{Key: "user:2", Limit: limit, Quantity: 1})
	require.NoError(t, err)
	_, err = l.Charge(ctx, "user:1", limit, 1)
	require.NoError(t, err)
	_, err = l.Settle(ctx, &both[1], 0)
	require.NoError(t, err)
	result, err := l.Peek(ctx, "user:1", limit)
	require.NoError(t, err)
	require.Equal(t, 2, result.Remaining)
	require.NoError(t, l.Reset(ctx, "user:1"))
	require.NoError(t, l.Wait(ctx, "user:3", limit))
	_, err = l.Allow(ctx, "admin:1", limit)
	require.ErrorContains(t, err, "NOPERM")

	if !servertest.Since7(t) {
		return // there, a permission for a key is one to read and to write it
	}
	reader := regexp.MustCompile("`(%R~[^`]*)`").FindStringSubmatch(clients(t))
	require.NotNil(t, reader)
	l = as(reader[1])
	_, err = l.Peek(ctx, "user:1", limit)
	require.NoError(t, err)
	_, err = l.Allow(ctx, "user:1", limit)
	require.Error(t, err)
}
