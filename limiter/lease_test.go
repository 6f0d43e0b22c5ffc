package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// A caller's result, once it has one.
type answer struct {
	result limiter.Result
	err    error
	took   time.Duration
}

// askBy asks in a goroutine, and returns when all callers wait.
func askBy(l *limiter.Limiter, ctx context.Context, limit limiter.Limit, quantity int) *answer {
	a := &answer{}
	begin := time.Now()
	go func() {
		a.result, a.err = l.AllowN(ctx, "key", limit, quantity)
		a.took = time.Since(begin)
	}()
	synctest.Wait()
	return a
}

// leased starts a Limiter on a model whose commands take a second each way, and has it know
// the server. What it sends from then on is in sent, without key and limit.
func leased(t *testing.T, limit limiter.Limit, span time.Duration, options ...limiter.Option) (l *limiter.Limiter, m *model, sent func() string) {
	m = newModel(1, 0, 0)
	p := start(m, 1, span, append(options, limiter.WithModuleOnly())...)
	_, err := p.limiter.Peek(t.Context(), "other", limit)
	require.NoError(t, err)
	m.set(func() { m.fixed, m.sent = time.Second, nil })
	return p.limiter, m, func() string {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		all := m.sent
		m.sent = nil
		for i, line := range all {
			words := strings.Fields(line)
			all[i] = strings.Join(append(words[:1:1], words[min(5, len(words)):]...), " ")
		}
		return strings.Join(all, ", ")
	}
}

// pass has time pass, and all callers who are due return.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bubble runs a story in a bubble.
func bubble(t *testing.T, name string, story func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, story) })
}

// TestLeases tells stories of callers who share calls, sentence by sentence of the contract.
func TestLeases(t *testing.T) {
	ctx, hundred := context.Background(), limiter.Every(time.Second).Burst(100)
	bubble(t, "callers share calls", func(t *testing.T) {
		l, _, sent := leased(t, hundred, 0)
		first := askBy(l, ctx, hundred, 1)
		others := []*answer{askBy(l, ctx, hundred, 1), askBy(l, ctx, hundred, 1)}
		pass(2500 * time.Millisecond)
		require.Equal(t, 1, first.result.Allowed)
		require.Equal(t, "cl.reserve 1", sent())
		pass(2 * time.Second)
		require.Equal(t, "cl.take 2", sent())
		require.Equal(t, 1, others[0].result.Allowed+others[1].result.Allowed-1)
		for _, direct := range []func() error{
			func() error { _, err := l.AllowN(ctx, "key", hundred, 2); return err }, // d is 0
			func() error { _, err := l.AllowN(ctx, "key", hundred, 0); return err },
			func() error { _, err := l.Reserve(ctx, "key", hundred, 1, 0); return err },
			func() error { return l.Wait(ctx, "key", hundred) },
			func() error { _, err := l.AllowMany(ctx, limiter.Request{"key", hundred, 1}); return err },
			func() error { _, err := l.AllowAtMost(ctx, "key", hundred, 1); return err },
		} {
			under := askBy(l, ctx, hundred, 1)
			go func() { _ = direct() }()
			synctest.Wait()
			pass(1500 * time.Millisecond)
			require.Equal(t, 2, strings.Count(sent(), "cl."), "both have been sent")
			pass(time.Second)
			require.NoError(t, under.err)
		}
	})
	bubble(t, "tokens ahead, receipts, hooks", func(t *testing.T) {
		var told recorder
		l, m, sent := leased(t, hundred, 20*time.Second, limiter.WithHook(told.hook), limiter.WithPrefix("p:"))
		m.set(func() { m.fixed = time.Millisecond })
		paths, results := "", []limiter.Result{}
		for range 9 {
			result, err := l.AllowN(ctx, "key", hundred, 2)
			require.NoError(t, err)
			paths += string(result.Path[0])
			results = append(results, result)
		}
		require.Equal(t, "cl.reserve 2, cl.reserve 2, cl.take 3, cl.take 4, cl.take 6, cl.take 9", sent(), "half of what was asked for")
		require.Equal(t, "mmmmlmllm", paths)
		require.Equal(t, 83+1, results[7].Remaining, "of the reply, and of an older lease")
		oldest, err := l.Allow(ctx, "key", hundred)
		require.NoError(t, err)
		results = append(results, oldest)
		lease, decisions := 0, 0
		for _, event := range told.told {
			if event.Command == "lease" {
				lease++
			} else if event.Command == "reserve" {
				decisions++
			}
		}
		require.Equal(t, [2]int{6, 10}, [2]int{lease, decisions})

		tat, err := strconv.ParseInt(m.values["p:key"].Text, 10, 64)
		require.NoError(t, err)
		for i, left := range map[int]int64{5: 4, 6: 2, 7: 0, 9: 10} {
			_, err := l.Settle(ctx, &results[i], 0)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("cl.refund %d %d", results[i].Allowed, tat-(9+left)*1e9), sent(), "the receipt")
		}
		_, err = l.Settle(ctx, &results[4], 5)
		require.NoError(t, err)
		require.Equal(t, "cl.charge 3", sent(), "more, from the server")
	})
	bubble(t, "who gives up leaves the tokens", func(t *testing.T) {
		for _, c := range []struct {
			span time.Duration
			sent string
			path limiter.Path
		}{{time.Minute, "", limiter.PathLease}, {0, "cl.reserve 1", limiter.PathModule}} {
			l, _, sent := leased(t, hundred, c.span)
			short, cancel := context.WithTimeoutCause(ctx, time.Second/2, errors.New("too long"))
			defer cancel()
			gone := askBy(l, short, hundred, 1)
			pass(1500 * time.Millisecond)
			require.EqualError(t, gone.err, "too long")
			next := askBy(l, ctx, hundred, 1)
			pass(3 * time.Second)
			require.Equal(t, strings.TrimSuffix("cl.reserve 1, "+c.sent, ", "), sent())
			require.Equal(t, 1, next.result.Allowed)
			require.Equal(t, c.path, next.result.Path)
		}
	})
	bubble(t, "the next in line gets the tokens of one who has gone", func(t *testing.T) {
		two := limiter.Every(time.Hour).Burst(2)
		l, _, sent := leased(t, two, 0)
		_ = askBy(l, ctx, two, 1)
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		gone, next := askBy(l, short, two, 1), askBy(l, ctx, two, 1)
		pass(5 * time.Second)
		require.Equal(t, "cl.reserve 1, cl.take 2", sent())
		require.ErrorIs(t, gone.err, context.DeadlineExceeded)
		require.Equal(t, 1, next.result.Allowed)
	})
	bubble(t, "back off", func(t *testing.T) {
		slow := limiter.Every(10 * time.Second).Burst(10)
		for name, c := range map[string]struct {
			during bool // a call for tokens
			end    func(l *limiter.Limiter) error
			asks   bool
		}{
			"no end":       {false, func(*limiter.Limiter) error { return nil }, false},
			"Reset":        {false, func(l *limiter.Limiter) error { return l.Reset(ctx, "key") }, true},
			"Refund":       {false, func(l *limiter.Limiter) error { _, err := l.Refund(ctx, "key", slow, 1); return err }, true},
			"Reset during": {true, func(l *limiter.Limiter) error { return l.Reset(ctx, "key") }, true},
			"other key":    {false, func(l *limiter.Limiter) error { return l.Reset(ctx, "other") }, false},
		} {
			l, m, sent := leased(t, slow, 3*time.Second)
			_, err := l.AllowAtMost(ctx, "key", slow, 9)
			require.NoError(t, err)
			_ = askBy(l, ctx, slow, 1)
			callers := []*answer{askBy(l, ctx, slow, 1), askBy(l, ctx, slow, 1)}
			pass(3*time.Second + time.Millisecond) // the answer of CL.TAKE is on its way
			if c.during {
				m.set(func() { m.fixed = time.Millisecond })
				go func() { require.NoError(t, c.end(l), name) }()
			}
			pass(2 * time.Second)
			require.True(t, callers[0].result.Limited() && callers[1].result.Limited(), name)
			require.Equal(t, limiter.PathModule, callers[0].result.Path)
			m.set(func() { m.fixed = time.Millisecond })
			if !c.during {
				require.NoError(t, c.end(l), name)
			}
			_ = sent()
			result, err := l.Allow(ctx, "key", slow)
			require.NoError(t, err)
			require.Equal(t, c.asks, sent() != "", name)
			if !c.asks {
				require.Equal(t, limiter.PathLease, result.Path)
				require.True(t, result.Limited())
				require.InDelta(t, 5, result.RetryAfter.Seconds(), 4, "until the token fits")
				pass(2 * time.Second) // a second beyond d
				_, _ = l.Allow(ctx, "key", slow)
				require.Equal(t, "cl.reserve 1", sent())
			}
		}
	})
	bubble(t, "a limited CL.RESERVE has nobody back off", func(t *testing.T) {
		one := limiter.Every(time.Hour).Burst(1)
		l, _, sent := leased(t, one, time.Minute)
		for range 3 {
			_, err := l.Allow(ctx, "key", one)
			require.NoError(t, err)
		}
		require.Equal(t, "cl.reserve 1, cl.reserve 1, cl.reserve 1", sent())
	})
	bubble(t, "a failure is that of each caller, and one for the breaker", func(t *testing.T) {
		var told atomic.Int32 // calls for tokens that were sent
		l, m, _ := leased(t, hundred, time.Second, limiter.OnFailure(limiter.FailOpen), limiter.WithTimeout(5*time.Second), limiter.WithHook(func(_ context.Context, event limiter.Event) {
			if event.Command == "lease" {
				told.Add(1)
			}
		}))
		m.set(func() { m.faults, m.lose = 1, true })
		callers := []*answer{}
		for range 8 { // one, and then seven
			callers = append(callers, askBy(l, ctx, hundred, 1))
		}
		pass(4500 * time.Millisecond)
		for _, c := range callers {
			require.Equal(t, limiter.PathOpen, c.result.Path)
		}
		m.set(func() { m.faults = 0 })
		last := askBy(l, ctx, hundred, 1)
		pass(5 * time.Second)
		require.Equal(t, limiter.PathModule, last.result.Path, "two failures open no breaker")
		m.set(func() { m.fixed = time.Minute }) // each waits from its own start
		early := askBy(l, ctx, hundred, 1)
		pass(3 * time.Second)
		late := askBy(l, ctx, hundred, 1)
		pass(time.Hour)
		for _, c := range []*answer{early, late} {
			require.Equal(t, limiter.PathOpen, c.result.Path)
			require.Equal(t, 5*time.Second, c.took)
		}
		for range 3 {
			askBy(l, ctx, hundred, 1)
			askBy(l, ctx, hundred, 1)
			pass(5001 * time.Millisecond)
		}
		before := told.Load()
		require.Positive(t, before)
		for range 3 {
			refused := askBy(l, ctx, hundred, 1)
			require.Equal(t, limiter.PathOpen, refused.result.Path)
		}
		require.Equal(t, before, told.Load(), "the breaker refuses, and nothing is sent")
		pass(time.Hour)
	})
	bubble(t, "who asks alone, because CL.TAKE is denied, waits from its own start", func(t *testing.T) {
		l, m, _ := leased(t, hundred, time.Second, limiter.WithTimeout(5*time.Second), limiter.WithLogger(slog.New(slog.DiscardHandler)))
		m.set(func() { m.denied = "cl.take" })
		_ = askBy(l, ctx, hundred, 1)
		pass(time.Second / 2)
		callers := []*answer{askBy(l, ctx, hundred, 1), askBy(l, ctx, hundred, 1)}
		pass(time.Hour)
		require.Equal(t, []time.Duration{5 * time.Second, 5 * time.Second}, []time.Duration{callers[0].took, callers[1].took})
	})
	bubble(t, "memory", func(t *testing.T) {
		l, m, _ := leased(t, hundred, time.Second)
		m.set(func() { m.fixed = 0 })
		for i := range 3000 {
			_, _ = l.Allow(ctx, fmt.Sprint(i), hundred)
		}
		for i := range 100 {
			pass(50 * time.Millisecond)
			_, _ = l.Allow(ctx, fmt.Sprint("other ", i), hundred)
		}
		leases, keys := limiter.Leases(l)
		require.LessOrEqual(t, max(leases, keys), 42, "those of two seconds")
	})
	bubble(t, "a lease allocates nothing", func(t *testing.T) {
		many := limiter.Every(time.Microsecond).Burst(1_000_000)
		l, m, _ := leased(t, many, time.Hour)
		m.set(func() { m.fixed = 0 })
		for range 10 {
			_, _ = l.AllowN(ctx, "key", many, 10_000)
		}
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = l.Allow(ctx, "key", many) }))
		result, err := l.Allow(ctx, "key", many)
		require.NoError(t, err)
		require.Equal(t, limiter.PathLease, result.Path)
		canceled, cancel := context.WithCancelCause(ctx)
		cancel(errors.New("over"))
		_, err = l.Allow(canceled, "key", many)
		require.EqualError(t, err, "over")
	})
	bubble(t, "without Redis", func(t *testing.T) {
		l := limiter.NewLocal(limiter.WithLease(time.Second))
		require.Equal(t, limiter.PathLocal, allow(t, l, "key", hundred).Path)
	})
}

// What 20 processes get of what is possible, and what it costs: demand is how much of the rate
// they ask for.
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
				random, p := rand.New(rand.NewPCG(uint64(i), 0)), start(m, 1, span, limiter.WithModuleOnly())
				callers.Go(func() {
					for begin := time.Now(); time.Since(begin) < length; {
						time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Second) * float64(c.processes*c.batch) / (c.demand * float64(c.rate))))
						for range c.batch {
							callers.Go(func() { p.allow(t.Context(), limit, 1) })
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
