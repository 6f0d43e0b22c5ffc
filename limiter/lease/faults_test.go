// Stories of calls that fail, of hooks that ask, and what leases get of what is possible.

package lease_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
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
	for policy, path := range map[limiter.FailurePolicy]limiter.Path{limiter.FailOpen: limiter.PathOpen, limiter.FailLocal: limiter.PathLocal} {
		tell(t, "tokens ahead are used while Redis is down, and limits end: "+policy.String(), hundred, time.Minute, func(s *story) {
			s.network(1)
			for range 20 {
				s.now(1)
			}
			s.meets("", failed)
			for s.now(1).Path != path {
			}
			for range 20 {
				require.Equal(s, path, s.now(1).Path, "what Redis did not grant is not ahead")
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
			require.Equal(s, path, s.now(10).Path, "nobody backs off")
		}, limiter.OnFailure(policy), patient)
	}
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
	var asked atomic.Bool
	ask := func(ctx context.Context, event limiter.Event) {
		if event.Key == "key" && !asked.Swap(true) {
			result, err := of.leases.Allow(ctx, "key", hundred)
			require.NoError(of, err)
			require.Equal(of, 1, result.Allowed)
		}
	}
	for i, option := range []limiter.Option{limiter.WithHook(ask), patient} {
		asked.Store(false)
		tell(t, []string{"hooks of the Limiter may ask", "hooks of the Leases may ask"}[i], hundred, time.Minute, func(s *story) {
			s.network(time.Second)
			if of = s; i == 1 {
				s.hook = ask
			}
			callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
			pass(time.Minute)
			require.True(s, asked.Load())
			require.Equal(s, []time.Duration{4, 2}[i]*time.Second, callers[0].took)
			require.Equal(s, []int{1, 1, 1}, []int{callers[0].Allowed, callers[1].Allowed, callers[2].Allowed})
		}, option)
	}
}

// What processes get of what is possible, and what it costs: demand is how much of the rate they
// ask for.
func TestLeasesGrantWhatIsPossible(t *testing.T) {
	for _, c := range []struct {
		name           string
		demand         float64
		processes      int
		batch          int // of calls at once
		rate, capacity int
		share          float64 // at least
	}{
		{"half", 0.5, 20, 1, 2000, 400, 0.99}, {"nearly all", 0.9, 20, 1, 2000, 400, 0.98}, {"a little more", 1.1, 20, 1, 2000, 400, 0.95},
		{"double", 2, 20, 1, 2000, 400, 0.96}, {"ten times", 10, 20, 1, 2000, 400, 0.98},
		{"batches for a small capacity", 0.9, 5, 5, 1000, 20, 0.82}, // without the tenth 0.80
	} {
		const d = 50 * time.Millisecond
		length := 2 * time.Second * time.Duration((c.batch+1)/2) // batches vary more
		tell(t, c.name, limiter.PerSecond(c.rate).Burst(c.capacity), d, func(s *story) {
			network, m := rand.New(rand.NewPCG(1, 1)), s.server
			m.way = func() time.Duration { return 1 + time.Duration(network.Int64N(int64(time.Millisecond))) }
			var callers sync.WaitGroup
			for i := range c.processes {
				random, p := rand.New(rand.NewPCG(uint64(i), 0)), start(m, 1, d)
				callers.Go(func() {
					for begin := time.Now(); time.Since(begin) < length; {
						time.Sleep(time.Duration(random.ExpFloat64() * 1e9 * float64(c.processes*c.batch) / (c.demand * float64(c.rate))))
						for range c.batch {
							callers.Go(func() { p.allow(ctx, s.limit, 1) })
						}
					}
				})
			}
			callers.Wait()
			possible := min(float64(m.asked), float64(c.rate)*length.Seconds()+float64(c.capacity))
			require.GreaterOrEqual(s, float64(len(m.uses))/possible, c.share)
			if c.batch == 1 {
				require.LessOrEqual(s, float64(len(m.sent))/float64(c.processes)/float64(length/d), 2.5, "calls within d")
			}
			require.LessOrEqual(s, m.excess(s.limit), d.Seconds()*float64(c.rate))
		})
	}
}

// Callers of many tokens get what is possible, too: tokens too few for any of them are not taken.
func TestCallersOfManyTokens(t *testing.T) {
	for name, c := range map[string]struct {
		processes int
		limit     limiter.Limit
		d, gap    time.Duration
		length    time.Duration
		share     float64 // at least
	}{
		"that leak slowly":  {1, limiter.PerMinute(100), time.Second, 100 * time.Millisecond, 5 * time.Minute, 0.95},
		"of many processes": {20, limiter.PerSecond(2000).Burst(400), 50 * time.Millisecond, 10 * time.Millisecond, 2 * time.Second, 0.65},
	} {
		tell(t, name, c.limit, c.d, func(s *story) {
			s.network(time.Millisecond)
			begin, m := time.Now(), s.server
			var callers sync.WaitGroup
			for i := range c.processes {
				random, p := rand.New(rand.NewPCG(uint64(i), 0)), start(m, 1, c.d)
				callers.Go(func() {
					for time.Since(begin) < c.length {
						time.Sleep(time.Duration(random.ExpFloat64() * float64(c.gap)))
						callers.Go(func() { p.allow(ctx, c.limit, 10) })
					}
				})
			}
			callers.Wait()
			possible := float64(c.limit.Capacity) + float64(c.length)/float64(c.limit.Period)*float64(c.limit.Count)
			require.GreaterOrEqual(s, float64(10*len(m.uses))/possible, c.share)
			require.LessOrEqual(s, float64(len(m.sent))/float64(c.processes)/float64(c.length/c.d), 3.0, "calls within d")
		})
	}
}

// A capacity of which no time is left in 63 bits limits nobody.
func TestHugeCapacity(t *testing.T) {
	tell(t, "d of 0", limiter.PerSecond(1_000_000_000).Burst(math.MaxInt), 0, func(s *story) {
		s.network(time.Millisecond)
		for range 3 {
			require.Equal(s, 1, s.now(1).Allowed)
			pass(time.Millisecond)
		}
	})
}

func TestNewPanics(t *testing.T) {
	for _, none := range []lease.Limiter{nil, (*limiter.Limiter)(nil)} {
		require.PanicsWithValue(t, "lease: New needs a Limiter, not nil", func() { lease.New(none, 0) })
	}
}
