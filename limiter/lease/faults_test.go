// A call for tokens that fails or hangs harms only those who wait for it, and hooks may ask the Leases.

package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/limiter"
	"funnel/limiter/lease"
)

func TestFaults(t *testing.T) {
	failed := fate{err: errors.New("the connection ended")}
	patient := limiter.WithTimeout(5 * time.Second)
	tell(t, "those who share a call that fails ask alone, and others for a second", hundred, time.Minute, func(s *story) {
		s.meets("cl.take", failed) // as where it is denied
		const failure = 4 * time.Second
		var callers []*answer
		var passed time.Duration
		for _, at := range []time.Duration{0, 0, 0, failure - 1, failure + time.Second - 1, failure + time.Second - 1} {
			pass(at - passed)
			passed, callers = at, append(callers, s.ask(ctx, 1))
		}
		s.meets("none", failed)
		pass(1)
		callers = append(callers, s.ask(ctx, 1), s.ask(ctx, 1))
		pass(time.Minute)
		for i, took := range []time.Duration{2, 6, 6, 2, 2, 2, 2, 2} {
			require.NoError(s, callers[i].err)
			require.Equal(s, took*time.Second, callers[i].took.Round(time.Second), i)
		}
		require.Equal(s, "cl.reserve 1, cl.take 2"+strings.Repeat(", cl.reserve 1", 5)+", cl.take 3", s.sent())
		require.Len(s, s.told, 2, "of the last call")
	}, patient)
	tell(t, "tokens ahead are used while Redis is down, and limits end", hundred, time.Minute, func(s *story) {
		s.network(1)
		for range 20 {
			s.now(1)
		}
		s.meets("", failed)
		for s.now(1).Source != limiter.FromLocal {
		}
		for range 20 {
			require.Equal(s, limiter.FromLocal, s.now(1).Source, "what Redis did not grant is not ahead")
			pass(time.Second)
		}
		s.meets("none", failed)
		require.Equal(s, limiter.FromModule, s.now(1).Source)
		pass(time.Hour)
		s.now(95)
		require.True(s, s.now(10).Limited())
		require.Equal(s, limiter.FromLease, s.now(10).Source)
		s.meets("", failed)
		s.now(1)
		pass(time.Second)
		require.Equal(s, limiter.FromLocal, s.now(10).Source, "nobody backs off")
	}, limiter.OnFailure(limiter.FailLocal), patient)
	tell(t, "errors of a call reach the callers of that key", hundred, time.Minute, func(s *story) {
		s.server.values["key"] = contract.Value{Type: "string", Text: "no funnel"}
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(time.Minute)
		for _, a := range callers {
			require.ErrorContains(s, a.err, "does not hold a funnel")
		}
		require.Equal(s, "cl.reserve 1, cl.reserve 1, cl.reserve 1", s.sent())
		var result limiter.Result
		for range 10 {
			result, _ = s.leases.Allow(ctx, "other", hundred)
		}
		require.Equal(s, limiter.FromLease, result.Source)
	})
	tell(t, "with d of 0, a server that lies, and calls for several tokens", hundred, 0, func(s *story) {
		s.meets("cl.take", fate{reply: []any{int64(1), "0", []any{[]any{int64(1), int64(100), int64(100), "0", "0", "0"}}, int64(0)}})
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(time.Minute)
		require.Equal(s, "cl.reserve 1, cl.take 2", s.sent(), "a reply decides all who waited for it")
		for _, a := range callers[1:] {
			require.NoError(s, a.err)
			require.Equal(s, []any{0, limiter.FromModule, time.Duration(1)}, []any{a.Allowed, a.Source, a.RetryAfter})
		}
		s.ask(ctx, 2)
		s.ask(ctx, 2)
		pass(time.Second)
		require.Equal(s, "cl.reserve 2, cl.reserve 2", s.sent())
	})
	var of *story
	type nested struct{}
	asks := func(ctx context.Context, _ limiter.Event) {
		if ctx.Value(nested{}) == nil {
			result, err := of.leases.Allow(context.WithValue(ctx, nested{}, true), "key", hundred)
			require.NoError(of, err)
			require.Equal(of, 1, result.Allowed)
		}
	}
	tell(t, "hooks of the Limiter and of the Leases may ask", hundred, time.Minute, func(s *story) {
		of, s.hook = s, asks
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(time.Minute)
		for _, a := range callers {
			require.Equal(s, 1, a.Allowed)
		}
	}, limiter.WithHook(asks), patient)
}

func TestNewPanics(t *testing.T) {
	for _, none := range []lease.Limiter{nil, (*limiter.Limiter)(nil)} {
		require.PanicsWithValue(t, "lease: New needs a Limiter, not nil", func() { lease.New(none, 0) })
	}
}
