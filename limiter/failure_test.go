// If Redis fails, the policy decides, as its doc comment says, and Redis decides again when it is
// back. A wrong call is no failure of Redis. An outage is logged when it begins and when it ends.
//
// If a server hangs, a few callers wait for their time-out. Then calls fail at once, except for one
// call a second, until an answer comes, even a late one. Callers that give up tell nothing about
// Redis, and do not keep other callers from it. No goroutine is left behind: synctest fails if one
// is.

package limiter_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestPoliciesOfADeadServer(t *testing.T) {
	t.Parallel()
	limit := perDay(3)
	for _, c := range []struct {
		policy             limiter.FailurePolicy
		source             limiter.Source
		allowed, remaining [4]int
	}{
		{limiter.FailOpen, limiter.FromOpen, [4]int{1, 1, 1, 1}, [4]int{2, 2, 2, 2}},
		{limiter.FailClosed, limiter.FromClosed, [4]int{}, [4]int{}},
		{limiter.FailLocal, limiter.FromLocal, [4]int{1, 1, 1, 0}, [4]int{2, 1, 0, 0}},
		{limiter.FailWithError, "", [4]int{}, [4]int{}},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			ctx, server, fails := context.Background(), servertest.StartModule(t), c.policy == limiter.FailWithError
			var log bytes.Buffer
			var recorded recorder
			l, clock := onClock(server.Client(t, withoutRetries), limiter.OnFailure(c.policy),
				limiter.WithTimeout(servertest.Patience),
				limiter.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), limiter.WithHook(recorded.hook))
			require.Equal(t, 2, allow(t, l, "key", limit).Remaining)

			server.Kill()
			ask := func(key string, limit limiter.Limit, quantity int) limiter.Result {
				result, err := l.AllowN(ctx, key, limit, quantity)
				event := recorded.last()
				require.ErrorIs(t, event.Cause, syscall.ECONNREFUSED, "hooks get the reason")
				require.Equal(t, fails, err != nil)
				require.Equal(t, []any{result, err}, []any{event.Result, event.Err})
				require.Equal(t, []any{key, c.source}, []any{result.Key, result.Source})
				return result
			}
			quota := limiter.Daily(3, noon())
			for key, limit := range map[string]limiter.Limit{"key": limit, "quota": quota} {
				for i := range c.allowed {
					result := ask(key, limit, 1)
					require.Equal(t, []int{c.allowed[i], c.remaining[i]}, []int{result.Allowed, result.Remaining}, "%d of %s", i, key)
					if c.policy == limiter.FailClosed {
						resetAfter := 24 * time.Hour
						if key == "quota" {
							resetAfter = 12 * time.Hour
						}
						require.Equal(t, time.Second, result.RetryAfter, key)
						require.InDelta(t, resetAfter, result.ResetAfter, float64(time.Minute), key)
					}
				}
				never := ask(key, limit, 4)
				none := ask(key, limit, 0)
				if !fails {
					require.True(t, never.Limited(), key)
					require.Equal(t, limiter.NoRetry, never.RetryAfter, key)
					require.False(t, none.Limited(), key)
					require.True(t, allow(t, l, "over", limiter.Until(3, time.Now().Add(-time.Hour))).Limited(), "its period is over")
				}
			}
			results, err := l.AllowAll(ctx, limiter.Request{"a", limit, 3}, limiter.Request{"b", limit, 4})
			require.Equal(t, fails, err != nil)
			require.True(t, results.Limited())
			require.Zero(t, results[0].Allowed)
			for key, limit := range map[string]limiter.Limit{"charged": limit, "charged quota": quota} {
				charged, err := l.Charge(ctx, key, limit, 5)
				require.Equal(t, fails, err != nil, key)
				require.Equal(t, c.policy == limiter.FailOpen || c.policy == limiter.FailLocal, charged.Allowed == 5, key)
				if c.policy == limiter.FailClosed {
					most, err := l.AllowAtMost(ctx, key, limit, 5)
					require.NoError(t, err, key)
					require.Equal(t, time.Second, most.RetryAfter, "%s: some of the 5 may fit then", key)
				}
			}

			server.Restart(t) // without its data
			clock.advance(time.Second)
			require.Equal(t, limiter.FromModule, allow(t, l, "key", limit).Source)
			require.NoError(t, recorded.last().Cause)
			line := `level=WARN msg="redis unavailable: rate limits fall back to policy ` + c.policy.String() +
				`" error=.*refused"\n$`
			if fails {
				line = "^$"
			}
			require.Regexp(t, line, log.String())
		})
	}
}

// If one key of many fails again and again, that is one outage, not thousands. A logger may call
// the Limiter, and a logger that blocks delays only its own call.
func TestOutageIsLoggedTwice(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var l *limiter.Limiter
	l, clock := onClock(servertest.StartModule(t).ClientOfUser(t, "+@all ~good:*"), limiter.OnFailure(limiter.FailOpen),
		limiter.WithLogger(slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
			if t.Failed() {
				return log.Write(line) // or each line would wait
			}
			answered := make(chan error, 1)
			go func() { _, err := l.Allow(context.Background(), "good:log", fifteenPerDay); answered <- err }()
			select {
			case err := <-answered:
				require.NoError(t, err)
			case <-time.After(10 * time.Second):
				t.Error("the call within the logger does not return")
			}
			return log.Write(line)
		}), nil))))
	for i := range 100 {
		require.Equal(t, limiter.FromModule, allow(t, l, fmt.Sprint("good:", i), fifteenPerDay).Source)
		require.Equal(t, limiter.FromOpen, allow(t, l, "bad", fifteenPerDay).Source)
		clock.advance(time.Second)
	}
	clock.advance(9*time.Second - 1)
	allow(t, l, "good:0", fifteenPerDay)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "Redis has not decided all for 10 seconds: %s", log.String())
	clock.advance(1)
	local := limiter.Result{Key: "good:0", Limit: fifteenPerDay, Allowed: 1, Receipt: 1, Source: limiter.FromLocal}
	_, err := l.Settle(context.Background(), &local, 0)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "Redis has decided none of these: %s", log.String())
	allow(t, l, "good:0", fifteenPerDay)
	require.Contains(t, log.String(),
		"level=INFO msg=\"redis available: it decides rate limits again\" after=1m39s calls=100\n")
	require.Equal(t, 2, strings.Count(log.String(), "\n"))

	allow(t, l, "bad", fifteenPerDay)
	clock.advance(10 * time.Second)
	allow(t, l, "good:0", fifteenPerDay)
	require.Contains(t, log.String(), "again\" after=0s calls=1\n", "another outage")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }

func TestServerThatHangs(t *testing.T) {
	for _, honors := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled %v", honors), func(t *testing.T) {
			ctx, server := context.Background(), servertest.StartModule(t)
			client := &counting{Client: server.Client(t, withoutRetries, func(options *redis.Options) {
				options.ContextTimeoutEnabled, options.ReadTimeout = honors, servertest.Patience
			})}
			l, clock := onClock(client, limiter.WithTimeout(50*time.Millisecond))
			ask := func() error { _, err := l.Allow(ctx, "key", fifteenPerDay); return err }
			servertest.Eventually(t, "Redis decides in time", func() bool {
				clock.advance(time.Second)
				return ask() == nil
			})
			const timeout = "no answer from Redis within 50ms: context deadline exceeded"
			fiveCallsSend := func(want int64) {
				before := client.trips.Load()
				for range 5 {
					require.ErrorContains(t, ask(), timeout)
				}
				require.Equal(t, want, client.trips.Load()-before)
			}

			require.NoError(t, server.Signal(syscall.SIGSTOP))
			t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
			fiveCallsSend(3)
			fiveCallsSend(0)
			before := client.trips.Load()
			require.EqualError(t, l.Reset(ctx, "key"), `limiter: key "key": `+timeout)
			require.EqualValues(t, 1, client.trips.Load()-before, "Reset asks in any case")
			for _, want := range []int64{0, 1, 0, 1} {
				clock.advance(500 * time.Millisecond)
				fiveCallsSend(want)
			}

			require.NoError(t, server.Signal(syscall.SIGCONT))
			servertest.Eventually(t, "Redis decides again", func() bool {
				if honors { // and no answer comes late
					clock.advance(time.Second)
				}
				return ask() == nil
			})
		})
	}
}

// Callers that give up do not open the breaker. A second after the breaker has opened, one of many
// calls tries, even if calls that were under way end later.
func TestCallsUnderWayWhenTheBreakerOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trips atomic.Int64
		l := limiter.New(clientFunc(func(ctx context.Context, _ redis.Cmder) error {
			trips.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}), limiter.WithTimeout(time.Second))
		askUntil := func(timeout time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, _ = l.Allow(ctx, "key", fifteenPerDay)
		}
		for range 5 {
			askUntil(20 * time.Millisecond)
		}
		require.EqualValues(t, 5, trips.Swap(0), "callers who give up before the time-out do not open the breaker")

		for range 3 {
			go askUntil(time.Hour)
		}
		time.Sleep(500 * time.Millisecond)
		go askUntil(time.Hour)
		time.Sleep(1400 * time.Millisecond) // the last of these ended 400 ms ago
		askUntil(time.Hour)
		require.EqualValues(t, 4, trips.Swap(0), "the breaker is open until a second after the third time-out")
		time.Sleep(100 * time.Millisecond)
		for range 16 {
			go askUntil(time.Hour)
		}
		synctest.Wait()
		require.EqualValues(t, 1, trips.Load(), "the fourth time-out, after 500 ms, does not put off the probe")
		time.Sleep(time.Second)
	})
}

// After an outage, Redis decides the first call whose caller does not give up, whenever earlier
// callers gave up.
func TestCallersWhoGiveUpAfterAnOutage(t *testing.T) {
	for _, honors := range []bool{false, true} {
		for _, when := range []string{"before the call", "before it is sent", "before the answer"} {
			t.Run(fmt.Sprintf("%s, ContextTimeoutEnabled %v", when, honors), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testCallersWhoGiveUp(t, when, honors) })
			})
		}
	}
}

func testCallersWhoGiveUp(t *testing.T, when string, honors bool) {
	isUp, giveUp := false, func() {}
	reach := func(moment string) {
		if moment == when {
			giveUp()
		}
	}
	l := limiter.New(clientFunc(func(ctx context.Context, command redis.Cmder) error { // as go-redis does
		if !isUp {
			return syscall.ECONNREFUSED
		}
		reach("before it is sent")
		if ctx.Err() != nil {
			return ctx.Err()
		}
		reach("before the answer")
		if ctx.Err() != nil && honors {
			return ctx.Err()
		}
		answer(command, allows)
		return nil
	}))
	for range 4 {
		_, err := l.Allow(t.Context(), "key", fifteenPerDay)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	isUp = true
	time.Sleep(time.Second)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		giveUp = cancel
		reach("before the call")
		_, _ = l.Allow(ctx, "key", fifteenPerDay)
		synctest.Wait()
		cancel()
	}
	giveUp = func() {}
	_, err := l.Allow(t.Context(), "key", fifteenPerDay)
	require.NoError(t, err, "the caller after three who gave up %s: none of them keeps the probe", when)
}
