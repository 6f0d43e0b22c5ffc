// A call for tokens that fails or hangs harms only those who wait for it, and hooks may ask the Leases.

package lease_test

import (
	"context"
	"errors"
	"sync/atomic"
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
	tell(t, "those who share a call that fails ask alone", hundred, time.Minute, func(s *story) {
		s.network(time.Second)
		s.meets("cl.take", failed) // as where it is denied
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(3 * time.Second)
		callers = append(callers, s.ask(ctx, 1))
		pass(10 * time.Second)
		for i, took := range []time.Duration{2, 6, 6, 3} {
			require.Equal(s, limiter.PathModule, callers[i].Path)
			require.Equal(s, took*time.Second, callers[i].took, i)
		}
		require.Equal(s, "cl.reserve 1, cl.take 2, cl.reserve 1, cl.reserve 1, cl.reserve 1", s.sent())
		require.Empty(s, s.told)
		pass(time.Hour)
		s.network(time.Millisecond)
		for range 3 {
			s.ask(ctx, 1)
		}
		pass(time.Second + 3*time.Millisecond) // a second after the call for the last two
		s.sent()
		s.network(time.Second)
		for range 2 {
			s.ask(ctx, 1)
		}
		pass(time.Second)
		require.Equal(s, "cl.reserve 1, cl.reserve 1", s.sent(), "for a second callers ask alone")
		pass(time.Minute)
		for range 2 {
			s.ask(ctx, 1)
		}
		pass(time.Second)
		require.Equal(s, "cl.reserve 1", s.sent(), "they share calls again")
	}, patient)
	tell(t, "nobody waits for more than three calls", hundred, time.Minute, func(s *story) {
		s.network(time.Minute)
		callers := []*answer{s.ask(ctx, 1)}
		pass(time.Millisecond)
		for range 8 {
			callers = append(callers, s.ask(ctx, 1))
		}
		pass(time.Hour)
		for _, a := range callers {
			require.Equal(s, limiter.PathOpen, a.Path)
		}
		require.Equal(s, 5*time.Second, callers[0].took)
		require.Equal(s, 10*time.Second-time.Millisecond, callers[8].took, "the first call failed, so all others ask alone")
	}, limiter.OnFailure(limiter.FailOpen), patient)
	tell(t, "tokens ahead are used while Redis is down, and limits end", hundred, time.Minute, func(s *story) {
		s.network(1)
		for range 20 {
			s.now(1)
		}
		s.meets("", failed)
		for s.now(1).Path != limiter.PathLocal {
		}
		for range 20 {
			require.Equal(s, limiter.PathLocal, s.now(1).Path, "what Redis did not grant is not ahead")
			pass(time.Second)
		}
		s.meets("none", failed)
		require.Equal(s, limiter.PathModule, s.now(1).Path)
		pass(time.Hour)
		s.now(91)
		require.True(s, s.now(10).Limited())
		require.Equal(s, limiter.PathLease, s.now(10).Path)
		s.meets("", failed)
		s.now(1)
		require.Equal(s, limiter.PathLocal, s.now(10).Path, "nobody backs off")
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
		require.Equal(s, limiter.PathLease, result.Path)
	})
	tell(t, "a server that lies", hundred, 0, func(s *story) {
		s.meets("cl.take", fate{reply: []any{int64(1), "0", []any{[]any{int64(1), int64(100), int64(100), "0", "0", "0"}}, int64(0)}})
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(time.Minute)
		require.Equal(s, "cl.reserve 1, cl.take 2", s.sent(), "a reply decides all who waited for it")
		for _, a := range callers[1:] {
			require.NoError(s, a.err)
			require.Equal(s, []any{0, limiter.PathModule, time.Duration(1)}, []any{a.Allowed, a.Path, a.RetryAfter})
		}
	})
	var of *story
	var asked atomic.Int64
	asks := func() limiter.Hook {
		var begun atomic.Bool
		return func(ctx context.Context, _ limiter.Event) {
			if !begun.Swap(true) {
				result, err := of.leases.Allow(ctx, "key", hundred)
				require.NoError(of, err)
				asked.Add(int64(result.Allowed))
			}
		}
	}
	tell(t, "hooks of the Limiter and of the Leases may ask", hundred, time.Minute, func(s *story) {
		of, s.hook = s, asks()
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(time.Minute)
		require.EqualValues(s, 2, asked.Load())
		require.Equal(s, []int{1, 1, 1}, []int{callers[0].Allowed, callers[1].Allowed, callers[2].Allowed})
	}, limiter.WithHook(asks()), patient)
}

func TestNewPanics(t *testing.T) {
	for _, none := range []lease.Limiter{nil, (*limiter.Limiter)(nil)} {
		require.PanicsWithValue(t, "lease: New needs a Limiter, not nil", func() { lease.New(none, 0) })
	}
}
