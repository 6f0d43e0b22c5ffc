// The runbook of docs/operations.md does what it says.

package pages_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/test/pages/page"
)

// TestRunbook: the commands show what their comments say. Those that stop the module's commands do so at once: a
// Limiter goes on by the script if its user may send it, and else does not decide.
func TestRunbook(t *testing.T) {
	t.Parallel()
	page.NeedRedisCLI(t)
	ctx, server := t.Context(), servertest.StartModule(t)
	shell := func(name string) string {
		return page.Shell(t, top, server.Port, page.Marked(t, top+"/docs/operations.md", name))
	}
	for _, c := range []struct {
		rules  string
		source limiter.Source // of a call after the commands were stopped
	}{{"+@all", limiter.FromScript}, {"+@all -@scripting", ""}} {
		servertest.Call(t, server.Client(t), "acl setuser app reset on >secret ~* "+c.rules)
		connection := server.Client(t, func(options *redis.Options) { options.Username, options.Password = "app", "secret" })
		l, limit := limiter.New(connection), limiter.PerHour(1).WithCapacity(5)
		before, err := l.Allow(ctx, "user:42", limit)
		require.NoError(t, err)
		require.Equal(t, limiter.FromModule, before.Source)
		require.Equal(t, "OK\n", shell("stop"))
		after, err := l.Allow(ctx, "user:42", limit)
		require.Equal(t, c.source, after.Source, c.rules)
		if c.source == "" {
			require.ErrorIs(t, err, limiter.ErrUnavailable)
		} else {
			require.NoError(t, err)
			require.Equal(t, before.Remaining-1, after.Remaining)
		}
	}
	require.Regexp(t, `(?s)funnel_commit:.*cmdstat_cl.reserve:.*rejected_calls=2,.*cl.reserve`, shell("look"))
	require.Regexp(t, `(?s)cmdstat_cl.reserve:.*usec_per_call=.*latest_fork_usec:.*rdb_bgsave_in_progress:`, shell("slow"))
}
