// What docs/clients.md says of scripts is so: in redis-cli, of the permissions, and of scripts
// and functions that call the commands inside the server.

package clients_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// TestScriptInRedisCLI: the row of the page.
func TestScriptInRedisCLI(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	row := regexp.MustCompile("(?m)^\\| redis-cli \\| `(redis-cli --eval .*)`").FindStringSubmatch(clients(t))
	require.NotNil(t, row)
	output, err := languages[0].at(server.Addr(), row[1]).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Regexp(t, `^0\n0\n0\n15\n14\n0\n2\n\d{19}\n$`, string(output))
}

// TestScriptPermissions: those that the page names suffice for all that a Limiter does
// without the module, on those keys and no others; and those of a user who only peeks.
func TestScriptPermissions(t *testing.T) {
	ctx, server := t.Context(), servertest.Start(t, servertest.Options{})
	as := func(rules string) *limiter.Limiter {
		if !servertest.Since7(t) {
			rules = regexp.MustCompile(` \+eval(sha)?_ro`).ReplaceAllString(rules, "")
		}
		return limiter.New(server.ClientOfUser(t, rules))
	}
	rules, found := strings.CutPrefix(snippet(t, "script permissions"), "ACL SETUSER app on >secret ")
	require.True(t, found)
	l, limit := as(rules), limiter.PerHour(1).Burst(5)

	both, err := l.AllowAll(ctx, limiter.Request{Key: "user:1", Limit: limit, Quantity: 2},
		limiter.Request{Key: "user:2", Limit: limit, Quantity: 1})
	require.NoError(t, err)
	_, err = l.Settle(ctx, &both[1], 0)
	require.NoError(t, err)
	result, err := l.Peek(ctx, "user:1", limit)
	require.NoError(t, err)
	require.Equal(t, 3, result.Remaining)
	require.NoError(t, l.Reset(ctx, "user:1"))
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

// TestInsideTheServer: a script or function pushes until the funnel is full, and fails
// from then on.
func TestInsideTheServer(t *testing.T) {
	ctx, client := t.Context(), servertest.StartClient(t)
	keys := []string{"{user:42}", "{user:42}:posts"}
	posts := map[string]func() *redis.Cmd{
		"lua": func() *redis.Cmd { return client.Eval(ctx, snippet(t, "lua"), keys, "hello") },
	}
	if servertest.Since7(t) {
		require.NoError(t, client.FunctionLoad(ctx, snippet(t, "function")).Err())
		posts["function"] = func() *redis.Cmd { return client.FCall(ctx, "post", keys, "hello") }
	}
	for name, post := range posts {
		require.NoError(t, client.FlushAll(ctx).Err())
		for call := range 15 {
			require.EqualValues(t, call+1, post().Val(), name)
		}
		require.Regexp(t, `^LIMITED retry in 1\.\d+ seconds, remaining 0`, post().Err().Error(), name)
		require.EqualValues(t, 15, client.LLen(ctx, keys[1]).Val(), name)
	}
}
