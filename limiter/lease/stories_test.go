// Stories of callers who share calls and tokens, sentence by sentence of the contract, and of those who are
// limited without Redis.

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/lease"
)

// A story is told in a bubble, about Leases on a model whose commands take a second each way.
type story struct {
	*testing.T
	*process
	limit limiter.Limit
	told  []limiter.Event // by the hook of the Leases
}

var (
	ctx     = context.Background()
	hundred = limiter.Every(time.Second).WithCapacity(100)
)

// tell tells a story of Leases with that d.
func tell(t *testing.T, name string, limit limiter.Limit, d time.Duration, of func(s *story), options ...limiter.Option) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &story{t, start(newModel(0), 1, d, options...), limit, nil}
			s.hook = func(_ context.Context, event limiter.Event) {
				s.server.set(func() { s.told = append(s.told, event) })
			}
			s.network(time.Second)
			defer pass(time.Hour)
			of(s)
		})
	})
}

// network sets how long each way takes, and forgets what was sent.
func (s *story) network(way time.Duration) {
	s.server.set(func() { s.server.way, s.server.sent = func() time.Duration { return way }, nil })
}

// meets has commands whose names begin so meet a fate.
func (s *story) meets(name string, f fate) {
	s.server.set(func() {
		s.server.fate = func(command string) fate {
			if strings.HasPrefix(command, name) {
				return f
			}
			return fate{}
		}
	})
}

// sent returns the commands that were sent since it was called last, without key and limit.
func (s *story) sent() string {
	var all []string
	s.server.set(func() { all, s.server.sent = s.server.sent, nil })
	for i, line := range all {
		words := strings.Fields(line)
		all[i] = strings.Join(append(words[:1:1], words[min(5, len(words)):]...), " ")
	}
	return strings.Join(all, ", ")
}

// An answer is what a caller gets, and after how long.
type answer struct {
	limiter.Result
	err  error
	took time.Duration
}

// ask asks in a goroutine, and returns when all callers wait or have their answers.
func (s *story) ask(ctx context.Context, quantity int) *answer {
	a, begin := &answer{}, time.Now()
	go func() {
		a.Result, a.err = s.leases.AllowN(ctx, "key", s.limit, quantity)
		a.took = time.Since(begin)
	}()
	synctest.Wait()
	return a
}

// now asks, and returns the answer, which must not be an error.
func (s *story) now(quantity int) limiter.Result {
	result, err := s.leases.AllowN(ctx, "key", s.limit, quantity)
	require.NoError(s, err)
	return result
}

// pass has time pass, and all callers who are due return.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestStories(t *testing.T) {
	tell(t, "callers share calls, and the next in line gets the tokens of one who has gone", limiter.Every(10*time.Second).WithCapacity(3), 0, func(s *story) {
		first := s.ask(ctx, 1)
		during, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		before, cancelBefore := context.WithTimeoutCause(ctx, time.Second, errors.New("too long"))
		defer cancelBefore()
		gone, others, never := s.ask(during, 1), []*answer{s.ask(ctx, 1), s.ask(ctx, 1)}, s.ask(before, 1)
		pass(2500 * time.Millisecond)
		require.Equal(s, "cl.reserve 1", s.sent())
		require.Equal(s, limiter.FromModule, first.Source)
		pass(2 * time.Second)
		require.Equal(s, "cl.take 3", s.sent(), "not for one who had gone")
		require.ErrorIs(s, gone.err, context.DeadlineExceeded)
		require.EqualError(s, never.err, "too long")
		require.Equal(s, time.Second, never.took)
		for i, a := range others {
			require.Equal(s, limiter.Result{Key: "key", Limit: s.limit, Quantity: 1, Allowed: 1, Remaining: 1 - i, OK: true,
				ResetAfter: 28 * time.Second, Receipt: others[0].Receipt + int64(i)*1e10, Source: limiter.FromModule}, a.Result)
		}
		require.Len(s, s.told, 2, "the first was told to the Limiter's hooks")
		require.Equal(s, 4*time.Second, s.told[0].Duration)
	})
	tell(t, "calls that are wrong", hundred, time.Minute, func(s *story) {
		require.ErrorContains(s, s.ask(ctx, -1).err, "quantity")
		_, err := s.leases.Allow(ctx, "key", limiter.Limit{})
		require.ErrorContains(s, err, "count")
	})
	tell(t, "a key that one caller asks about less than once in d", hundred, time.Second, func(s *story) {
		for _, quantity := range []int{1, 10, 1, 2, 0, 11, 10, 3, 80} {
			s.now(quantity)
			require.Equal(s, fmt.Sprint("cl.reserve ", quantity), s.sent(), "as without leases")
			pass(time.Second)
		}
	})
	tell(t, "tokens ahead, and receipts", hundred, 20*time.Second, func(s *story) {
		s.network(time.Millisecond)
		paths, results := "", []limiter.Result{}
		for _, quantity := range []int{2, 2, 2, 2, 2, 2, 2, 2, 2, 1} {
			results = append(results, s.now(quantity))
			paths += string(results[len(results)-1].Source[0])
		}
		require.Equal(s, "cl.reserve 2, cl.reserve 2, cl.take 3, cl.take 4, cl.take 6, cl.take 9", s.sent(), "half of what was asked for")
		require.Equal(s, "mmmmlmllml", paths)
		require.Equal(s, 83+1, results[7].Remaining, "of the reply, and of an older grant")
		require.Equal(s, []int{2, 8}, []int{len(results) - len(s.told), len(s.told)})
		stored := func() (tat int64) {
			s.server.set(func() { tat, _ = strconv.ParseInt(s.server.values["key"].Text, 10, 64) })
			return tat
		}
		for i, left := range map[int]int64{5: 9 + 4, 6: 9 + 2, 7: 9, 8: 7, 9: 9 + 6 + 4} { // and what was taken later
			require.Equal(s, stored()-left*1e9, results[i].Receipt, i)
		}
	})
	tell(t, "no more remain than the capacity", hundred, 20*time.Second, func(s *story) {
		s.network(0)
		for _, quantity := range []int{2, 2, 2, 4, 8} {
			s.now(quantity)
		}
		require.Equal(s, "cl.reserve 2, cl.reserve 2, cl.take 3, cl.take 5, cl.take 9", s.sent(), "three tokens are ahead")
		s.server.set(func() { clear(s.server.values) }) // others empty the funnel
		require.Equal(s, 100, s.now(2).Remaining, "of 91, and of 10 ahead")
	})
	for _, c := range []struct {
		name           string
		capacity, most int
		d              time.Duration
		sent           string
	}{
		{"no more ahead than leaks in d", 100, 5, 5 * time.Second, "cl.take 6, cl.take 6"},
		{"no more ahead than a tenth", 30, 3, 20 * time.Second, "cl.take 4, cl.take 4"},
	} {
		tell(t, c.name, hundred.WithCapacity(c.capacity), c.d, func(s *story) {
			for range 20 {
				s.ask(ctx, 1)
			}
			pass(4 * time.Second)
			require.Equal(s, "cl.reserve 1, cl.take 19", s.sent())
			for _, quantity := range []int{1, c.most - 1, 2} {
				s.ask(ctx, quantity)
				pass(2 * time.Second)
			}
			require.Equal(s, c.sent, s.sent(), "what is ahead counts")
		})
	}
	tell(t, "one who has gone leaves the tokens, which last for d from when they were asked for", hundred, 10*time.Second, func(s *story) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		gone := s.ask(short, 10)
		pass(2 * time.Second)
		require.ErrorIs(s, gone.err, context.DeadlineExceeded)
		require.ErrorIs(s, s.ask(short, 1).err, context.DeadlineExceeded)
		require.Equal(s, limiter.FromLease, s.now(8).Source)
		require.Equal(s, limiter.FromModule, s.now(5).Source)
		require.Equal(s, "cl.reserve 10, cl.take 11", s.sent())
		pass(6 * time.Second)
		require.Equal(s, limiter.FromLease, s.now(1).Source)
		pass(1)
		require.Equal(s, limiter.FromLease, s.now(6).Source, "of the later call")
		require.Equal(s, limiter.FromModule, s.now(1).Source)
	})
	tell(t, "no token is used at an instant before it was taken", hundred, time.Minute, func(s *story) {
		var meanwhile func() // after the clock was read
		lease.SetNow(s.leases, func() time.Time {
			now := time.Now()
			if pause := meanwhile; pause != nil {
				meanwhile = nil
				pause()
			}
			return now
		})
		s.now(10)
		pass(time.Second)
		meanwhile = func() { pass(time.Second); s.ask(ctx, 1); pass(2 * time.Second) } // which takes 5
		require.Equal(s, 9*time.Second, s.now(1).ResetAfter, "11 seconds when they were asked for, 2 before")
	})
	for capacity, sent := range map[int]string{10_000: "cl.take 40", 600: "cl.take 31"} {
		tell(t, "callers of a hot key do not wait", limiter.Every(time.Millisecond).WithCapacity(capacity), 8*time.Second, func(s *story) {
			for i := range 400 {
				a := s.ask(ctx, 1)
				if i >= 160 {
					require.Equal(s, limiter.FromLease, a.Source, "call %d", i)
				}
				pass(100 * time.Millisecond)
			}
			all := strings.Split(s.sent(), ", ")
			require.Equal(s, sent, all[len(all)-1], "half of the demand, or what may be ahead beside what is")
			require.LessOrEqual(s, len(all), 22, "in 5 d, the first included")
			pass(4 * time.Second)
			require.Empty(s, s.sent(), "nobody asks")
			require.Equal(s, limiter.FromLease, s.now(1).Source)
			pass(2 * time.Second)
			require.Contains(s, s.sent(), "cl.take", "before the tokens lapse")
		})
	}
}

func TestBackOff(t *testing.T) {
	tell(t, "while the tokens cannot fit", hundred, time.Nanosecond, func(s *story) {
		s.network(time.Millisecond)
		require.Equal(s, 91, s.now(91).Allowed)
		limited := s.now(10)
		require.Equal(s, limiter.FromModule, limited.Source)
		require.Equal(s, 1, s.now(1).Allowed, "9 are left")
		require.Equal(s, "cl.reserve 91, cl.reserve 10, cl.reserve 1", s.sent())
		limited = s.now(10)
		require.Equal(s, "cl.reserve 10", s.sent())
		pass(time.Second)
		again := s.now(10)
		require.Equal(s, limiter.Result{Key: "key", Limit: hundred, Quantity: 10, Remaining: 8, RetryAfter: limited.RetryAfter - time.Second - 2*time.Millisecond,
			ResetAfter: limited.ResetAfter - time.Second - 2*time.Millisecond, Source: limiter.FromLease}, again)
		require.Equal(s, []limiter.Event{{Command: "reserve", Key: "key", Result: again}}, s.told)
		pass(again.RetryAfter - 1)
		require.Equal(s, time.Duration(1), s.now(10).RetryAfter)
		pass(1)
		require.Empty(s, s.sent())
		require.Equal(s, 10, s.now(10).Allowed)
	})
	tell(t, "a capacity of which no time is left in 63 bits limits nobody", limiter.PerSecond(1_000_000_000).WithCapacity(math.MaxInt), 0, func(s *story) {
		for range 3 {
			require.Equal(s, 1, s.now(1).Allowed)
		}
	})
	tell(t, "no longer than 5 seconds, also when the key is deleted", hundred.WithCapacity(1), time.Minute, func(s *story) {
		s.limit = limiter.Every(time.Hour).WithCapacity(1)
		s.network(0)
		require.Equal(s, 1, s.now(1).Allowed)
		require.True(s, s.now(1).Limited(), "a reply that allowed limits nobody")
		require.Equal(s, "cl.reserve 1, cl.reserve 1", s.sent())
		s.server.set(func() { delete(s.server.values, "key") })
		pass(5*time.Second - 1)
		require.Equal(s, time.Hour-5*time.Second, s.now(1).RetryAfter.Round(time.Millisecond))
		pass(1)
		require.Equal(s, 1, s.now(1).Allowed)
	})
	for _, c := range []struct {
		capacity int
		d, until time.Duration
	}{{100, 3 * time.Second, 3 * time.Second}, {10, time.Minute, time.Second / 2}, {1000, time.Minute, 5 * time.Second}} {
		tell(t, "after a call that got less", limiter.Every(100*time.Millisecond).WithCapacity(c.capacity), c.d, func(s *story) {
			s.network(0)
			require.Equal(s, 1, s.now(1).Allowed)
			require.Equal(s, c.capacity-3, s.now(c.capacity-3).Allowed)
			s.network(time.Millisecond)
			callers := []*answer{s.ask(ctx, 1), s.ask(ctx, 1), s.ask(ctx, 1)}
			pass(4 * time.Millisecond)
			require.Equal(s, "cl.reserve 1, cl.take 2", s.sent())
			sent := time.Now().Add(-2 * time.Millisecond)
			require.Equal(s, 1, callers[1].Allowed)
			require.Equal(s, c.until, callers[2].RetryAfter, "it counts from when the call was sent")
			pass(time.Until(sent.Add(c.until - 1)))
			require.Equal(s, time.Duration(1), s.now(1).RetryAfter, "though some fit")
			require.Empty(s, s.sent())
			pass(1)
			require.Equal(s, 1, s.now(1).Allowed)
		})
	}
}

// Idle keys are removed when others come, while those that are limited here stay.
func TestMemory(t *testing.T) {
	for _, d := range []time.Duration{0, time.Second} {
		tell(t, "with d of "+d.String(), hundred.WithCapacity(1), d, func(s *story) {
			s.network(0)
			ask := func(key string, limit limiter.Limit) {
				_, err := s.leases.Allow(ctx, key, limit)
				require.NoError(s, err)
			}
			for i := range 6000 {
				ask(strconv.Itoa(i), s.limit)
			}
			require.Greater(s, lease.Count(s.leases), 5900)
			pass(2100 * time.Millisecond)
			for i := range 6000 {
				time.Sleep(100 * time.Microsecond)
				ask("limited:"+strconv.Itoa(i%20), limiter.Every(time.Hour).WithCapacity(1))
				ask(strconv.Itoa(6000+i), s.limit)
			}
			require.Less(s, lease.Count(s.leases), 7000)
			s.server.set(func() { require.Len(s, s.server.sent, 12_000+20+map[time.Duration]int{0: 0, time.Second: 20}[d]) })
		})
	}
}
