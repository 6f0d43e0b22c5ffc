// A Limiter uses the module if the server has it and the user may call it, and otherwise the
// script. It notices if this changes, and no call fails meanwhile.

package limiter_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// The Limiter notices within a minute that a module is loaded or granted, and at once that a module
// is gone or denied, or that a script was flushed. If one command is denied, the others still go to
// the module. No token is lost.
func TestModuleComesAndGoes(t *testing.T) {
	t.Parallel()
	server := withoutModule(t, "--save", "", "--appendonly", "yes")
	client := server.Client(t, func(options *redis.Options) { options.MaxRetries = 3 }) // for the restart
	l, clock := onClock(client)
	after := func(d time.Duration) func() { return func() { clock.advance(d) } }
	send := func(line string) func() { return func() { servertest.Call(t, client, line) } }
	flush, load := send("script flush"), send("module load "+servertest.Module(t))
	restart := func() { // with all but the module
		server.Stop()
		server.Restart(t)
	}
	remaining := 100
	for _, step := range []struct {
		name   string
		change func()
		source limiter.Source
		peeks  limiter.Source
	}{
		{"no module", after(0), limiter.FromScript, limiter.FromScript},
		{"script flushed", flush, limiter.FromScript, limiter.FromScript},
		{"module loaded", load, limiter.FromScript, limiter.FromScript},
		{"a minute later", after(time.Minute), limiter.FromModule, limiter.FromModule},
		{"script flushed beside the module", flush, limiter.FromModule, limiter.FromModule},
		{"reservations denied", send("acl setuser default -cl.reserve"), limiter.FromScript, limiter.FromModule},
		{"reservations granted", send("acl setuser default +cl.reserve"), limiter.FromScript, limiter.FromModule},
		{"almost a minute later", after(time.Minute - 1), limiter.FromScript, limiter.FromModule},
		{"a minute later", after(1), limiter.FromModule, limiter.FromModule},
		{"module gone", restart, limiter.FromScript, limiter.FromScript},
		{"a minute later, still gone", after(time.Minute), limiter.FromScript, limiter.FromScript},
		{"module loaded again", load, limiter.FromScript, limiter.FromScript},
	} {
		step.change()
		for range 2 {
			remaining--
			result := allow(t, l, "key", perDay(100))
			require.Equal(t, step.source, result.Source, step.name)
			require.Equal(t, remaining, result.Remaining, step.name)
			peeked, err := l.Peek(t.Context(), "key", perDay(100))
			require.NoError(t, err, step.name)
			require.Equal(t, step.peeks, peeked.Source, "%s: Peek", step.name)
		}
	}
}

// With only one source, a server that lacks the module counts as down, and a server that has the
// module gets the script.
func TestOneSourceOnly(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		byModule := source
		if source == limiter.FromScript {
			byModule = limiter.FromOpen
		}
		for only, want := range map[limiter.Source]limiter.Source{"module": byModule, "script": limiter.FromScript} {
			l := limiter.New(client, limiter.WithSource(only), limiter.OnFailure(limiter.FailOpen))
			for range 2 {
				require.Equal(t, want, allow(t, l, "key", fifteenPerDay).Source, only)
			}
		}
	})
}

// A server that lacks EVALSHA_RO, as Redis 6.2 does, gets it once.
func TestServerWithoutReadOnlyScripts(t *testing.T) {
	t.Parallel()
	counted := &counting{Client: withoutModule(t, "--rename-command", "evalsha_ro", "hidden").Client(t)}
	l := limiter.New(counted, limiter.WithSource(limiter.FromScript))
	require.Equal(t, 14, allow(t, l, "key", fifteenPerDay).Remaining)
	for _, trips := range []int64{2, 1, 1} {
		before := counted.trips.Load()
		result, err := l.Peek(t.Context(), "key", fifteenPerDay)
		require.NoError(t, err)
		require.Equal(t, 14, result.Remaining)
		require.Equal(t, trips, counted.trips.Load()-before)
	}
}

// For users with few permissions, all methods work by the module or by the script. Each call is one
// command, and an error names the missing permission.
func TestPermissions(t *testing.T) {
	t.Parallel()
	ctx, server := context.Background(), servertest.StartModule(t)
	const module = "+cl.reserve +cl.take +cl.peek +cl.charge +cl.refund"
	const script = "+eval +evalsha +eval_ro +evalsha_ro +get +set +del"
	for _, c := range []struct {
		name   string
		rules  string
		source limiter.Source
		sent   int64  // commands of a call, but for the first
		err    string // if none decides
	}{
		{"module", module, limiter.FromModule, 1, ""},
		{"script", script + " +time", limiter.FromScript, 1, ""},
		{"both", script + " +time " + module, limiter.FromModule, 1, ""},
		{"neither", "+get", "", 2, "'?cl.(reserve|take|peek|charge|refund)'? command"},
		{"script without TIME", script, "", 1, "failure in script|can't run this command"},
	} {
		counted := &counting{Client: server.ClientOfUser(t, c.rules+" ~user:*")}
		l := limiter.New(counted)
		for round := range 2 {
			for _, command := range slices.Sorted(maps.Keys(methods)) {
				before := counted.trips.Load()
				result, err := methods[command](l, "user:42", 1)
				require.Equal(t, c.source, result.Source, "%s: %s", c.name, command)
				if c.err == "" {
					require.NoError(t, err, "%s: %s", c.name, command)
				} else {
					require.Regexp(t, c.err, err, "%s: %s", c.name, command)
				}
				if round > 0 {
					require.Equal(t, c.sent, counted.trips.Load()-before, "%s: commands sent for %s", c.name, command)
				}
			}
		}

		// A key that is denied concerns that key alone.
		if c.err == "" {
			before := counted.trips.Load()
			_, err := l.Allow(ctx, "other:42", fifteenPerDay)
			require.ErrorContains(t, err, "NOPERM", c.name)
			require.Contains(t, err.Error(), `limiter: key "other:42": `, c.name)
			require.EqualValues(t, 1, counted.trips.Load()-before, c.name)
			require.ErrorContains(t, l.Reset(ctx, "other:42"), `limiter: key "other:42": NOPERM`, c.name)
			require.Equal(t, c.source, allow(t, l, "user:42", fifteenPerDay).Source, c.name)
		}
	}
}
