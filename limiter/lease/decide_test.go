// Callers are decided together, by tokens ahead, or by the last reply. Each test is for a sentence
// of the package comment.

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/lease"
)

func TestCallersShareCalls(t *testing.T) {
	test(t, "callers who come during a call share the next one", perSecond100, time.Minute, func(f *fixture) {
		callers := f.startThree()
		f.pass(2 * time.Second)
		require.Equal(f, limiter.FromModule, callers[0].Source)
		require.True(f, callers[1].waits(), "the second call is under way")
		f.pass(2 * time.Second)
		f.requireCommands("cl.reserve 1", "cl.take 2")
		for i, c := range callers[1:] {
			require.NoError(f, c.err)
			require.Equal(f, limiter.Result{
				Key: "key", Limit: perSecond100, Quantity: 1, Allowed: 1,
				Remaining:  98 + 1 - i, // the second caller leaves the third one's token ahead
				OK:         true,
				ResetAfter: 2 * time.Second, // of two tokens: the first has leaked
				Receipt:    callers[1].Receipt + int64(i)*int64(time.Second),
				Source:     limiter.FromModule,
			}, c.Result, i)
		}
		require.Len(f, f.events, 2, "the Limiter's own hooks have seen the first")
		require.Equal(f, 4*time.Second, f.events[0].Duration)
	})
	test(t, "nobody asks for a caller who gave up before", perSecond100, time.Minute, func(f *fixture) {
		impatient, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("too long"))
		defer cancel()
		f.start(ctx, 1)
		c := f.start(impatient, 1)
		f.start(ctx, 1)
		f.pass(10 * time.Second)
		f.requireCommands("cl.reserve 1", "cl.reserve 1")
		require.EqualError(f, c.err, "too long")
		require.Equal(f, time.Second, c.took)
	})
	hourly := limiter.Every(time.Hour).WithCapacity(3)
	test(t, "the token of a caller who gives up goes to the next", hourly, 0, func(f *fixture) {
		impatient, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		f.start(ctx, 1)
		first := f.start(impatient, 1)
		second, third := f.start(ctx, 1), f.start(ctx, 1)
		f.pass(10 * time.Second)
		f.requireCommands("cl.reserve 1", "cl.take 3") // at 2 s: nobody has given up yet
		require.ErrorIs(f, first.err, context.DeadlineExceeded)
		require.Equal(f, []int{1, 1}, []int{second.Allowed, third.Allowed}, "Redis granted 2")
	})
	test(t, "a reply decides all who waited for it", perSecond100.WithCapacity(2), time.Minute, func(f *fixture) {
		f.startThree()
		f.pass(3 * time.Second)
		late := f.start(ctx, 1) // after cl.take 2: it takes the last token, and a token that has leaked
		f.pass(time.Second)
		f.requireCommands("cl.reserve 1", "cl.take 2")
		require.True(f, late.waits(), "for the next reply")
		f.pass(2 * time.Second)
		f.requireCommands("cl.reserve 1")
	})
}

func TestTokensAhead(t *testing.T) {
	test(t, "one caller in d asks as without leases", perSecond100, time.Second, func(f *fixture) {
		for _, quantity := range []int{1, 10, 1, 2, 0, 11, 10, 3, 80} {
			f.allow(quantity)
			f.requireCommands(fmt.Sprint("cl.reserve ", quantity))
			f.pass(time.Second)
		}
	})
	test(t, "tokens ahead are handed out without Redis", perSecond100, 20*time.Second, func(f *fixture) {
		f.latency(0)
		var last limiter.Result
		for range 4 { // the third call takes one token ahead, and the fourth takes two
			last = f.allow(2)
			require.Equal(f, limiter.FromModule, last.Source)
		}
		f.requireCommands("cl.reserve 2", "cl.reserve 2", "cl.take 3", "cl.take 4")
		require.Equal(f, 89+3, last.Remaining, "11 tokens are taken, and 3 of them are ahead")
		f.events = nil

		ahead := f.allow(2)
		f.requireCommands()
		require.Equal(f, limiter.Result{Key: "key", Limit: perSecond100, Quantity: 2, Allowed: 2, Remaining: 89 + 1,
			OK: true, ResetAfter: 11 * time.Second, Source: limiter.FromLease,
			Receipt: time.Now().Add(11 * time.Second).UnixNano()}, ahead)
		require.Equal(f, []limiter.Event{{Command: "reserve", Key: "key", Result: ahead}}, f.events)
		require.Equal(f, time.Now().Add(7*time.Second).UnixNano(), f.allow(1).Receipt, "the receipt of cl.take 3")
	})
	test(t, "the capacity bounds what remains", perSecond100, 20*time.Second, func(f *fixture) {
		f.latency(0)
		for _, quantity := range []int{2, 2, 2, 4, 8} { // three tokens are ahead then
			f.allow(quantity)
		}
		f.redis.locked(func() { clear(f.redis.values) }) // others empty the funnel
		require.Equal(f, 100, f.allow(2).Remaining, "the reply has 91 left, and 10 tokens are ahead")
	})
	test(t, "no token is used at an instant before it was taken", perSecond100, time.Minute, func(f *fixture) {
		// A caller reads the clock. Before it goes on, a call for tokens is answered.
		var afterReading func()
		lease.SetClock(f.leases, func() time.Duration {
			now := time.Since(f.began)
			do := afterReading
			if do != nil {
				afterReading = nil
				do()
			}
			return now
		})
		f.allow(10)
		f.pass(time.Second)
		afterReading = func() {
			f.pass(time.Second)
			f.start(ctx, 1)
			f.pass(2 * time.Second)
			require.Contains(f, f.newCommands(), "cl.take 5", "four tokens are ahead")
		}
		early := f.allow(1)
		require.NotEqual(f, limiter.FromModule, early.Source)
		require.Equal(f, 9*time.Second, early.ResetAfter, "by the state that it had read")
	})
}

func TestRejections(t *testing.T) {
	test(t, "while the tokens cannot fit", perSecond100, time.Nanosecond, func(f *fixture) {
		f.latency(time.Millisecond)
		require.Equal(f, 91, f.allow(91).Allowed)
		limited := f.allow(10)
		require.Equal(f, limiter.FromModule, limited.Source)
		require.Equal(f, 1, f.allow(1).Allowed, "9 are left")
		f.requireCommands("cl.reserve 91", "cl.reserve 10", "cl.reserve 1")
		limited = f.allow(10)
		f.requireCommands("cl.reserve 10")

		f.pass(time.Second)
		const passed = time.Second + 2*time.Millisecond // since the call was sent
		again := f.allow(10)
		require.Equal(f, limiter.Result{Key: "key", Limit: perSecond100, Quantity: 10, Remaining: 8,
			RetryAfter: limited.RetryAfter - passed, ResetAfter: limited.ResetAfter - passed, Source: limiter.FromLease}, again)
		require.Equal(f, []limiter.Event{{Command: "reserve", Key: "key", Result: again, Limited: true}}, f.events)
		f.pass(again.RetryAfter - 1)
		require.EqualValues(f, 1, f.allow(10).RetryAfter)
		f.requireCommands()
		f.pass(1)
		require.Equal(f, 10, f.allow(10).Allowed)
	})
}
