package bench_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/bench"
)

// startServer starts a server with the module and the marker.
func startServer(t *testing.T) *bench.Server {
	t.Helper()
	marker, err := bench.BuildMarker(t.Context(), t.TempDir())
	require.NoError(t, err)
	program, err := exec.LookPath(servertest.Program())
	require.NoError(t, err)
	server, err := bench.StartServer(t.Context(), bench.ServerOptions{
		Program: program,
		Modules: []string{servertest.Module(t), marker},
	})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	return server
}

// limiters are the alternatives that limit, set up on the server. The peer is
// tested with our own module in its place.
func limiters(t *testing.T, server *bench.Server) []bench.Alternative {
	t.Helper()
	var limiters []bench.Alternative
	for _, a := range bench.Alternatives() {
		if !a.Limits {
			continue
		}
		if a.Setup != nil {
			if err := a.Setup(t.Context(), server.Client); err != nil {
				t.Logf("without %s: %v", a.Name, err)
				continue
			}
		}
		limiters = append(limiters, a)
	}
	return limiters
}

// caller makes calls one after the other.
func caller(t *testing.T, server *bench.Server) func(bench.Operation) bench.Outcome {
	t.Helper()
	c, err := bench.NewCaller(t.Context(), server.Address)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return func(operation bench.Operation) bench.Outcome {
		outcome, err := c.Call(operation, 1)
		require.NoError(t, err)
		return outcome
	}
}

func TestAlternativesAllowExactlyTheCapacityAtOneInstant(t *testing.T) {
	server := startServer(t)
	for _, a := range limiters(t, server) {
		for _, capacity := range []int64{1, 2, 7, 100} {
			require.NoError(t, server.Client.FlushAll(t.Context()).Err())
			call := caller(t, server)
			// So slow that nothing leaks during the test.
			operation := a.Operation(bench.Limit{Capacity: capacity, Count: 1, Period: 3600}, 1)
			for i := range capacity {
				require.Equal(t, bench.Allowed, call(operation), "%s: call %d of %d", a.Name, i+1, capacity)
			}
			for range 3 {
				require.Equal(t, bench.Limited, call(operation), "%s: a call beyond %d", a.Name, capacity)
			}
		}
	}
}

func TestAlternativesRefillWithTime(t *testing.T) {
	server := startServer(t)
	for _, a := range limiters(t, server) {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel() // they wait
			// The key is the same for all but redis_rate, so each has a server.
			server := startServer(t)
			if a.Setup != nil {
				require.NoError(t, a.Setup(t.Context(), server.Client))
			}
			call := caller(t, server)
			limit := bench.Limit{Capacity: 3, Count: 3, Period: 4}
			operation := a.Operation(limit, 1)
			start := time.Now()
			for range limit.Capacity {
				require.Equal(t, bench.Allowed, call(operation))
			}
			if outcome := call(operation); time.Since(start) < time.Second {
				require.Equal(t, bench.Limited, outcome)
			}
			// As long as a full funnel drains, and the window ends; a little more
			// for clocks of whole seconds.
			time.Sleep(time.Duration(limit.Drain())*time.Second + 500*time.Millisecond)
			require.Equal(t, bench.Allowed, call(operation))
		})
	}
}

func TestAlternativesLeaveNothingBehind(t *testing.T) {
	server := startServer(t)
	for _, a := range limiters(t, server) {
		require.NoError(t, server.Client.FlushAll(t.Context()).Err())
		call := caller(t, server)
		call(a.Operation(bench.Limit{Capacity: 3, Count: 1, Period: 60}, 1))
		keys, err := server.Client.Keys(t.Context(), "*").Result()
		require.NoError(t, err)
		require.Len(t, keys, 1, a.Name)
		left, err := server.Client.PTTL(t.Context(), keys[0]).Result()
		require.NoError(t, err)
		require.Positive(t, left, "%s: the key must expire", a.Name)
		require.LessOrEqual(t, left, 181*time.Second, a.Name)
	}
}

func TestPeeksTakeNothing(t *testing.T) {
	server := startServer(t)
	for _, a := range limiters(t, server) {
		if !a.Peeks {
			continue
		}
		require.NoError(t, server.Client.FlushAll(t.Context()).Err())
		call := caller(t, server)
		limit := bench.Limit{Capacity: 1, Count: 1, Period: 3600}
		for range 3 {
			require.Equal(t, bench.Allowed, call(a.Operation(limit, 0)), a.Name)
		}
		require.Equal(t, bench.Allowed, call(a.Operation(limit, 1)), a.Name)
	}
}

// The script of ours answers what the command does.
func TestGCRAInLuaAnswersLikeTheCommand(t *testing.T) {
	server := startServer(t)
	ctx := t.Context()
	script, err := os.ReadFile(filepath.Join("scripts", "gcra.lua"))
	require.NoError(t, err)
	for i := range 20 {
		arguments := []any{15, 30, 60, 1 + i%3}
		want, err := server.Client.Do(ctx, append([]any{"CL.THROTTLE", "a"}, arguments...)...).Slice()
		require.NoError(t, err)
		got, err := server.Client.Eval(ctx, string(script), []string{"b"}, arguments...).Slice()
		require.NoError(t, err)
		require.Equal(t, want, got, "call %d", i+1)
	}
}

func TestChooseExplainsWhatCannotBe(t *testing.T) {
	all, err := bench.Choose(nil, false)
	require.NoError(t, err)
	require.Len(t, all, len(bench.Alternatives())-1, "all but the peer")

	_, err = bench.Choose([]string{"peer"}, false)
	require.ErrorContains(t, err, "-peer")
	_, err = bench.Choose([]string{"nonsense"}, true)
	require.ErrorContains(t, err, "throttle")
}

func TestServerThatDoesNotStartSaysWhy(t *testing.T) {
	program, err := exec.LookPath(servertest.Program())
	require.NoError(t, err)
	_, err = bench.StartServer(context.Background(), bench.ServerOptions{Program: program, Config: []string{"--no-such-option", "1"}})
	require.Error(t, err)
	require.True(t, strings.Contains(err.Error(), "no-such-option"), err)
}
