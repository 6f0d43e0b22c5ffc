package lease_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/lease"
)

// Stories of calls that fail.
func TestFaults(t *testing.T) {
	open := []limiter.Option{limiter.OnFailure(limiter.FailOpen), limiter.WithTimeout(5 * time.Second)}
	tell(t, "those who share a call that fails ask alone", hundred, time.Minute, func(s *story) {
		s.server.set(func() { s.server.fails = "cl.take" })
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(3 * time.Second)
		callers = append(callers, s.ask(ctx, 1))
		pass(10 * time.Second)
		for i, took := range []time.Duration{2, 6, 6, 3} {
			require.Equal(s, limiter.PathModule, callers[i].Path)
			require.Equal(s, took*time.Second, callers[i].took.Round(time.Second), i)
		}
		require.Equal(s, "cl.reserve 1, cl.take 2, cl.reserve 1, cl.reserve 1, cl.reserve 1", s.sent())
		require.Empty(s, s.told)
		pass(time.Hour)
		s.network(time.Millisecond)
		for range 3 {
			s.ask(ctx, 1)
		}
		pass(time.Second - time.Millisecond) // after the call for the last two
		s.network(time.Second)
		s.ask(ctx, 1)
		s.ask(ctx, 1)
		pass(1001 * time.Millisecond)
		require.Equal(s, "cl.reserve 1, cl.reserve 1", s.sent(), "for a second callers ask alone")
		pass(time.Minute)
		s.ask(ctx, 1)
		s.ask(ctx, 1)
		pass(1001 * time.Millisecond)
		require.Equal(s, "cl.reserve 1", s.sent(), "they share calls again")
	})
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
	}, open...)
	tell(t, "tokens ahead are used while Redis is down, and limits end", hundred, time.Minute, func(s *story) {
		s.network(0)
		for range 20 {
			s.now(1)
		}
		s.server.set(func() { s.server.faults, s.server.lose = 1, true })
		for s.now(1).Path != limiter.PathOpen {
		}
		require.Equal(s, limiter.PathOpen, s.now(1).Path)
		s.server.set(func() { s.server.faults = 0 })
		pass(2 * time.Second)
		require.Equal(s, limiter.PathModule, s.now(1).Path)
		pass(time.Hour)
		s.now(91)
		require.True(s, s.now(10).Limited())
		require.Equal(s, limiter.PathLease, s.now(10).Path)
		s.server.set(func() { s.server.faults = 1 })
		s.now(1)
		require.Equal(s, limiter.PathOpen, s.now(10).Path, "nobody backs off")
	}, open...)
	tell(t, "errors of a call reach the callers", hundred, time.Minute, func(s *story) {
		s.server.set(func() { s.server.values["key"] = contract.Value{Type: "string", Text: "no funnel"} })
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(time.Minute)
		for _, a := range callers {
			require.ErrorContains(s, a.err, "does not hold a funnel")
		}
	})
	tell(t, "hooks may ask", hundred, 0, func(s *story) {
		var asked atomic.Bool
		var inner limiter.Result
		s.hook = func(context.Context, limiter.Event) {
			if !asked.Swap(true) {
				inner, _ = s.leases.Allow(ctx, "key", hundred)
			}
		}
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(time.Minute)
		require.Equal(s, []int{1, 1, 1, 1}, []int{callers[0].Allowed, callers[1].Allowed, callers[2].Allowed, inner.Allowed})
	})
	tell(t, "a server that lies", hundred, 0, func(s *story) {
		s.leases = lease.New(liar{s.limiter}, 0)
		callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
		pass(time.Minute)
		require.Equal(s, "cl.reserve 1, cl.take 2", s.sent(), "a reply decides all who waited for it")
		for _, a := range callers {
			require.NoError(s, a.err)
			require.Equal(s, limiter.PathModule, a.Path)
			require.Zero(s, a.Allowed)
		}
		require.Equal(s, time.Duration(1), callers[2].RetryAfter)
	})
	var leases *lease.Leases
	var asked atomic.Bool
	tell(t, "hooks of the Limiter may ask", hundred, time.Minute, func(s *story) {
		leases = s.leases
		first := s.ask(ctx, 1)
		pass(time.Minute)
		require.Equal(s, 1, first.Allowed)
		require.Equal(s, 4*time.Second+4, first.took)
	}, limiter.WithHook(func(ctx context.Context, event limiter.Event) {
		if event.Key == "key" && !asked.Swap(true) {
			_, _ = leases.Allow(ctx, "key", hundred)
		}
	}))
}

// A liar limits all calls, and says that the funnel is empty.
type liar struct{ lease.Limiter }

func (l liar) AllowN(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error) {
	result, err := l.Limiter.AllowN(ctx, key, limit, quantity)
	result.Allowed, result.ResetAfter = 0, 0
	return result, err
}

func (l liar) AllowAtMost(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error) {
	result, err := l.Limiter.AllowAtMost(ctx, key, limit, quantity)
	result.Allowed, result.ResetAfter = 0, 0
	return result, err
}

// A Limiter without Redis decides all calls.
func TestLocal(t *testing.T) {
	leases := lease.New(limiter.NewLocal(), time.Minute)
	for i := range 110 {
		result, err := leases.Allow(ctx, "key", hundred)
		require.NoError(t, err)
		require.Equal(t, limiter.PathLocal, result.Path)
		require.Equal(t, i >= 100, result.Limited())
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

// Keys that nobody asks about are removed when others come.
func TestMemory(t *testing.T) {
	for _, d := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			p := start(newModel(1, 0, 0), 1, d)
			fill := func(name string) {
				for i := range 3000 {
					_, err := p.leases.Allow(ctx, fmt.Sprint(name, i), hundred.Burst(1))
					require.NoError(t, err)
				}
			}
			fill("backing off")
			if d > 0 {
				fill("backing off")
			}
			fill("others")
			require.Greater(t, lease.Count(p.leases), 5900)
			pass(3 * time.Second)
			fill("more")
			require.Less(t, lease.Count(p.leases), 4500)
		})
	}
}

// A wall clock that steps is not noticed: neither do tokens ahead last, nor do callers back off
// for longer or shorter.
func TestWallClock(t *testing.T) {
	begin, hours, later := time.Now(), atomic.Int64{}, atomic.Int64{}
	now := func() time.Time {
		now := begin.Add(time.Duration(later.Load()))
		*(*uint64)(unsafe.Pointer(&now)) -= uint64(hours.Load()) * 3600 << 30 // of the wall clock alone
		return now
	}
	hours.Store(1)
	require.Zero(t, now().Sub(begin))
	require.Equal(t, time.Hour, begin.Round(0).Sub(now().Round(0)))
	hours.Store(0)
	leases := lease.New(limiter.New(servertest.StartClient(t)), 10*time.Second)
	lease.SetNow(leases, now)
	ask := func() limiter.Path {
		result, err := leases.Allow(ctx, "key", limiter.PerSecond(100).Burst(1000))
		require.NoError(t, err)
		return result.Path
	}
	for range 30 {
		ask()
	}
	hours.Store(1)
	for ask() != limiter.PathLease { // tokens are ahead
	}
	hours.Store(0)
	require.Equal(t, limiter.PathLease, ask())
	hours.Store(2)
	later.Store(int64(10*time.Second + 1))
	require.Equal(t, limiter.PathModule, ask(), "they have lapsed")
}

// Callers of many tokens get what is possible, too, where their tokens take longer to leak than
// calls back off, and where several processes ask: tokens too few for any of them are not taken.
func TestCallersOfManyTokens(t *testing.T) {
	for _, c := range []struct {
		processes, quantity int
		limit               limiter.Limit
		d, gap, length      time.Duration
		share               float64 // at least
	}{
		{1, 10, limiter.PerMinute(100), time.Second, 100 * time.Millisecond, 5 * time.Minute, 0.95},
		{20, 10, limiter.PerSecond(2000).Burst(400), 50 * time.Millisecond, 10 * time.Millisecond, 2 * time.Second, 0.65},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, begin := newModel(1, 0, time.Millisecond), time.Now()
			var callers sync.WaitGroup
			for i := range c.processes {
				random, p := rand.New(rand.NewPCG(uint64(i), 0)), start(m, 1, c.d)
				callers.Go(func() {
					for time.Since(begin) < c.length {
						time.Sleep(time.Duration(random.ExpFloat64() * float64(c.gap)))
						callers.Go(func() { p.allow(ctx, c.limit, c.quantity) })
					}
				})
			}
			callers.Wait()
			possible := float64(c.limit.Capacity) + float64(c.length)/float64(c.limit.Period)*float64(c.limit.Count)
			calls := float64(m.calls.Load()) / float64(c.processes) / float64(c.length/c.d)
			t.Logf("%.3f of what is possible, %.2f calls within d", float64(m.granted)/possible, calls)
			require.GreaterOrEqual(t, float64(m.granted)/possible, c.share)
			require.LessOrEqual(t, calls, 3.0)
		})
	}
}

// What processes get of what is possible, and what it costs: demand is how much of the rate they
// ask for.
func TestLeasesGrantWhatIsPossible(t *testing.T) {
	for _, c := range []struct {
		demand         float64
		processes      int
		batch          int // of calls at once
		rate, capacity int
		share          float64 // at least
	}{
		{0.5, 20, 1, 2000, 400, 0.99}, {0.9, 20, 1, 2000, 400, 0.98}, {1.1, 20, 1, 2000, 400, 0.95}, {2, 20, 1, 2000, 400, 0.96}, {10, 20, 1, 2000, 400, 0.98},
		{0.9, 5, 5, 1000, 20, 0.82}, // without the tenth 0.80
	} {
		synctest.Test(t, func(t *testing.T) {
			const span = 50 * time.Millisecond
			length := 2 * time.Second * time.Duration((c.batch+1)/2) // batches vary more
			limit := limiter.PerSecond(c.rate).Burst(c.capacity)
			m := newModel(1, 0, time.Millisecond)
			var callers sync.WaitGroup
			for i := range c.processes {
				random, p := rand.New(rand.NewPCG(uint64(i), 0)), start(m, 1, span)
				callers.Go(func() {
					for begin := time.Now(); time.Since(begin) < length; {
						time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Second) * float64(c.processes*c.batch) / (c.demand * float64(c.rate))))
						for range c.batch {
							callers.Go(func() { p.allow(ctx, limit, 1) })
						}
					}
				})
			}
			callers.Wait()
			synctest.Wait()
			possible := min(float64(m.asked.Load()), float64(c.rate)*length.Seconds()+float64(c.capacity))
			share, calls := float64(m.granted)/possible, float64(m.calls.Load())/float64(c.processes)/float64(length/span)
			t.Logf("%v times the rate, %d processes, %d at once, capacity %d: %.3f of what is possible, %.2f calls within d", c.demand, c.processes, c.batch, c.capacity, share, calls)
			require.GreaterOrEqual(t, share, c.share)
			if c.batch == 1 {
				require.LessOrEqual(t, calls, 2.5)
			}
			require.LessOrEqual(t, m.excess(limit), float64(span)/1e9*float64(c.rate))
		})
	}
}
