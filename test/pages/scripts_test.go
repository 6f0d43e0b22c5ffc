// What docs/clients.md says about scripts holds: about redis-cli, about permissions, and about
// scripts that call the commands inside the server.

package pages_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestScriptInRedisCLI(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	line := regexp.MustCompile("`(redis-cli --eval [^`]*)`").FindStringSubmatch(clients(t))
	require.NotNil(t, line)
	output, err := languageOf(t, "redis-cli").at(server.Addr(), line[1]).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Regexp(t, `^0\n0\n0\n15\n14\n0\n2\n\d{19}\n$`, string(output))
}

// TestScriptPermissions: the permissions on the page suffice for all that a Limiter does without
// the module, on the page's keys and no others. Fewer suffice for a user who only peeks.
func TestScriptPermissions(t *testing.T) {
	ctx := t.Context()
	server := servertest.Start(t, servertest.Options{})
	as := func(rules string) *limiter.Limiter {
		if !servertest.Since7(t) {
			rules = regexp.MustCompile(` \+eval(sha)?_ro`).ReplaceAllString(rules, "")
		}
		return limiter.New(server.ClientOfUser(t, rules))
	}
	rules, found := strings.CutPrefix(snippet(t, "script permissions"), "ACL SETUSER app on >secret ")
	require.True(t, found)
	l := as(rules)
	limit := limiter.PerHour(1).WithCapacity(5)

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

	more := regexp.MustCompile("need `(.*?)`, before Redis 7.0 `(.*?)`, and slots `(.*?)`").FindStringSubmatch(clients(t))
	require.NotNil(t, more)
	expiry := more[1]
	if !servertest.Since7(t) {
		expiry = more[2]
	}
	month := limiter.Request{Key: "user:month", Limit: limiter.Monthly(5, time.UTC), Quantity: 1}
	l = as(rules + " " + expiry + " " + more[3])
	var got *limiter.Acquisition
	for range 2 { // the second call finds keys
		got, err = l.TryAcquire(ctx, limiter.Slots{Max: 2, TTL: time.Hour}.At("user:slots"), month)
		require.NoError(t, err)
	}
	require.NoError(t, got.Release(ctx))

	t.Run("redis-py", func(t *testing.T) { // loads the script, which needs a permission of its own
		python := languageOf(t, "redis-py")
		python.program = replaced(t, python.program, "port=PORT", "port=PORT, username='user', password='secret'")
		client := server.Client(t)
		require.NoError(t, client.ScriptFlush(ctx).Err())
		end := run(t, client, python.at(server.Addr(), snippet(t, python.script)))
		require.NoError(t, end.err, end)
	})

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
