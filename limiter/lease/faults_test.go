// If a call for tokens fails or hangs, the callers of its key ask alone. No other key is concerned.

package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/limiter"
)

// patient lets calls wait for the fixture's Redis, which takes two seconds.
var patient = limiter.WithTimeout(5 * time.Second)

func TestAfterAFailureCallersAskAlone(t *testing.T) {
	test(t, "for a second", perSecond100, time.Minute, func(f *fixture) {
		f.disturb("cl.take", disturbance{err: errConnection}) // CL.TAKE is denied, perhaps
		callers := f.startThree()
		f.pass(4 * time.Second) // CL.RESERVE is answered at 2 s, CL.TAKE at 4 s
		f.pass(time.Second - 1)
		callers = append(callers, f.start(ctx, 1), f.start(ctx, 1))
		f.pass(10 * time.Second)
		f.requireCommands("cl.reserve 1", "cl.take 2",
			"cl.reserve 1", "cl.reserve 1", // of the two callers who shared the call
			"cl.reserve 1", "cl.reserve 1") // of the two callers who came within the second
		for i, took := range []time.Duration{2, 6, 6, 2, 2} {
			require.NoError(f, callers[i].err, "caller %d", i)
			require.Equal(f, took*time.Second, callers[i].took, "caller %d", i)
		}
		f.recover()
		f.start(ctx, 1)
		f.start(ctx, 1)
		f.pass(10 * time.Second)
		commands := f.newCommands()
		require.Contains(f, commands[len(commands)-1], "cl.take", "callers share calls again")
	}, patient)
}

func TestWhileRedisIsDown(t *testing.T) {
	test(t, "tokens ahead are used", perSecond100, time.Minute, func(f *fixture) {
		f.latency(1)
		for range 20 {
			f.allow(1)
		}
		f.disturb("", disturbance{err: errConnection})
		leased := 0
		for f.allow(1).Source == limiter.FromLease {
			leased++
		}
		require.Positive(f, leased)
		for range 20 {
			require.Equal(f, limiter.FromLocal, f.allow(1).Source, "what Redis did not grant is not kept ahead")
			f.pass(time.Second)
		}
		f.recover()
		require.Equal(f, limiter.FromModule, f.allow(1).Source)
	}, limiter.OnFailure(limiter.FailLocal), patient)
	test(t, "nobody is rejected by an old reply", perSecond100, time.Minute, func(f *fixture) {
		f.latency(1)
		f.allow(95)
		require.True(f, f.allow(10).Limited())
		require.Equal(f, limiter.FromLease, f.allow(10).Source, "by the reply")
		f.disturb("", disturbance{err: errConnection})
		f.allow(1)
		f.pass(time.Second)
		require.Equal(f, limiter.FromLocal, f.allow(10).Source)
	}, limiter.OnFailure(limiter.FailLocal), patient)
}

func TestErrorsReachTheCallersOfTheKey(t *testing.T) {
	test(t, "a key without a funnel", perSecond100, time.Minute, func(f *fixture) {
		f.redis.values["key"] = contract.Value{Type: "string", Text: "no funnel"}
		callers := f.startThree()
		f.pass(time.Minute)
		for _, c := range callers {
			require.ErrorContains(f, c.err, "does not hold a funnel")
		}
		f.requireCommands("cl.reserve 1", "cl.reserve 1", "cl.reserve 1")
		var other limiter.Result
		for range 10 {
			other, _ = f.leases.Allow(ctx, "other", perSecond100)
		}
		require.Equal(f, limiter.FromLease, other.Source)
	})
}

func TestAServerThatLies(t *testing.T) {
	test(t, "a limited reply that says when tokens fit: now", perSecond100, 0, func(f *fixture) {
		row := []any{int64(1), int64(100), int64(100), "0", "0", "0"}
		f.disturb("cl.take", disturbance{reply: []any{int64(1), "0", []any{row}, int64(0)}})
		callers := f.startThree()
		f.pass(time.Minute)
		f.requireCommands("cl.reserve 1", "cl.take 2")
		for _, c := range callers[1:] {
			require.NoError(f, c.err)
			require.Equal(f, limiter.FromModule, c.Source)
			require.True(f, c.Limited())
			require.EqualValues(f, 1, c.RetryAfter, "nobody spins without a pause")
		}
	})
}

func TestWithDOf0CallersOfSeveralTokensAskAlone(t *testing.T) {
	test(t, "each", perSecond100, 0, func(f *fixture) {
		f.start(ctx, 2)
		f.start(ctx, 2)
		f.pass(time.Second)
		f.requireCommands("cl.reserve 2", "cl.reserve 2")
	})
}
