// Each way keeps what it promises, against a real server. No test waits for time to pass: it makes
// whatever a way has stored older instead.

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/internal/servertest"
)

// fivePerFiveMinutes leaks a token a minute: whole minutes are far more than a test takes.
var fivePerFiveMinutes = limit{count: 5, period: 5 * time.Minute}

// A subject is a way under test, and how to look at what it stores.
type subject struct {
	name string
	way
	rdb   *redis.Client // nil for a way without a server
	model func(l limit) model

	// older makes what is stored under a key older, as if that time had passed.
	older func(t require.TestingT, key string, by time.Duration)
}

// subjects returns all ways, with one limit.
func subjects(t *testing.T, l limit) []subject {
	rdb := servertest.StartClient(t)
	inProcess := newProcess(l)
	ctx := context.Background()
	return []subject{
		{
			name: "window", way: &window{rdb, l}, rdb: rdb, model: newWindowModel,
			older: func(t require.TestingT, key string, by time.Duration) {
				members, err := rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
				require.NoError(t, err)
				for _, member := range members {
					require.NoError(t, rdb.ZIncrBy(ctx, key, -float64(by.Microseconds()), member.Member.(string)).Err())
				}
			},
		}, {
			name: "process", way: inProcess, model: newFunnelModel,
			older: func(_ require.TestingT, key string, by time.Duration) {
				f, has := inProcess.funnels[key]
				if has {
					f.at = f.at.Add(-by)
					inProcess.funnels[key] = f
				}
			},
		}, {
			name: "hash", way: &hash{rdb, l}, rdb: rdb, model: newFunnelModel,
			older: func(t require.TestingT, key string, by time.Duration) {
				if rdb.Exists(ctx, key).Val() == 1 {
					require.NoError(t, rdb.HIncrBy(ctx, key, "at", -by.Microseconds()).Err())
				}
			},
		}, {
			name: "CL.THROTTLE", way: &module{rdb, l}, rdb: rdb, model: newFunnelModel,
			older: func(t require.TestingT, key string, by time.Duration) {
				tat, err := rdb.Get(ctx, key).Int64()
				if err == redis.Nil {
					return
				}
				require.NoError(t, err)
				require.NoError(t, rdb.Set(ctx, key, tat-by.Nanoseconds(), redis.KeepTTL).Err())
			},
		},
	}
}

// A model says which calls go through. Its clock is moved by the test.
type model interface {
	allow() bool
	older(by time.Duration)
}

// A windowModel has the age of each call that went through.
type windowModel struct {
	limit
	ages []time.Duration
}

func newWindowModel(l limit) model { return &windowModel{limit: l} }

func (m *windowModel) older(by time.Duration) {
	for i := range m.ages {
		m.ages[i] += by
	}
}

func (m *windowModel) allow() bool {
	within := 0
	for _, age := range m.ages {
		if age < m.period {
			within++
		}
	}
	if within < m.count {
		m.ages = append(m.ages, 0)
	}
	return within < m.count
}

// A funnelModel has the number of tokens in the funnel.
type funnelModel struct {
	limit
	level float64
}

func newFunnelModel(l limit) model { return &funnelModel{limit: l} }

func (m *funnelModel) older(by time.Duration) {
	m.level = max(0, m.level-by.Minutes()/m.interval().Minutes())
}

func (m *funnelModel) allow() bool {
	fits := m.level+1 <= float64(m.count)
	if fits {
		m.level++
	}
	return fits
}

// A window lets through count calls in any period, and a funnel what fits into it: for any series
// of calls.
func TestEachWayLetsThroughWhatItPromises(t *testing.T) {
	t.Parallel()
	l := fivePerFiveMinutes
	for _, s := range subjects(t, l) {
		t.Run(s.name, func(t *testing.T) {
			series := 0
			rapid.Check(t, func(t *rapid.T) {
				series++
				key := fmt.Sprint(s.name, series)
				m := s.model(l)
				for range rapid.IntRange(1, 12).Draw(t, "bursts") {
					later := time.Duration(rapid.IntRange(0, 7).Draw(t, "minutes later")) * time.Minute
					s.older(t, key, later)
					m.older(later)
					for call := range rapid.IntRange(1, 7).Draw(t, "calls") {
						allowed, err := s.allow(context.Background(), key)
						require.NoError(t, err)
						require.Equal(t, m.allow(), allowed, "call %d of the burst", call+1)
					}
				}
			})
		})
	}
}

// Many callers together get exactly what one caller would get.
func TestEachWayIsAtomic(t *testing.T) {
	t.Parallel()
	const count = 10_000
	for _, s := range subjects(t, limit{count: count, period: count * time.Minute}) {
		t.Run(s.name, func(t *testing.T) {
			var through atomic.Int64
			var callers sync.WaitGroup
			begin := make(chan struct{})
			for range 20 {
				callers.Go(func() {
					<-begin
					for {
						allowed, err := s.allow(context.Background(), s.name)
						if err != nil {
							t.Error(err)
						}
						if !allowed {
							return
						}
						through.Add(1)
					}
				})
			}
			close(begin)
			callers.Wait()
			require.EqualValues(t, count, through.Load())
		})
	}
}

// Users do not affect each other.
func TestEachKeyHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, fivePerFiveMinutes) {
		for _, key := range []string{"a", "b"} {
			through, err := send(t.Context(), s, s.name+key, 7)
			require.NoError(t, err)
			require.Equal(t, 5, through, "%s: %s", s.name, key)
		}
	}
}

// A call that does not go through changes nothing: a caller that keeps calling waits no longer than
// a caller that sleeps.
func TestLimitedCallsStoreNothing(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, fivePerFiveMinutes) {
		t.Run(s.name, func(t *testing.T) {
			_, err := send(t.Context(), s, s.name, 5)
			require.NoError(t, err)
			before := stored(t, s)
			through, err := send(t.Context(), s, s.name, 100)
			require.NoError(t, err)
			require.Zero(t, through)
			require.Equal(t, before, stored(t, s))
		})
	}
}

// If a server's clock is set back, no further call goes through. For CL.THROTTLE, which stores
// nothing but an instant, the funnel then is fuller by that time. The clock that the process uses
// cannot be set.
func TestClocksThatAreSetBack(t *testing.T) {
	t.Parallel()
	fit := map[string]int{"window": 4, "hash": 4, "CL.THROTTLE": 1}
	for _, s := range subjects(t, fivePerFiveMinutes) {
		if s.rdb == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			_, err := send(t.Context(), s, s.name, 1)
			require.NoError(t, err)
			s.older(t, s.name, -3*time.Minute)
			through, err := send(t.Context(), s, s.name, 7)
			require.NoError(t, err)
			require.Equal(t, fit[s.name], through, "the clock was set back by 3 minutes")
			s.older(t, s.name, 8*time.Minute)
			through, err = send(t.Context(), s, s.name, 7)
			require.NoError(t, err)
			require.Equal(t, 5, through, "the limit's period has passed since the clock is what it was")
		})
	}
}

// Calls of one transaction are made at one instant, by servers whose time stands still meanwhile.
func TestCallsAtOneInstant(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, fivePerFiveMinutes) {
		if s.rdb == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			l := fivePerFiveMinutes
			replies, err := s.rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				for range 7 {
					switch s.name {
					case "window":
						windowScript.Eval(t.Context(), p, []string{s.name}, l.count, l.period.Microseconds())
					case "hash":
						hashScript.Eval(t.Context(), p, []string{s.name}, l.count, l.interval().Microseconds())
					default:
						p.Do(t.Context(), "CL.THROTTLE", s.name, l.count, l.count, l.period.Seconds())
					}
				}
				return nil
			})
			require.NoError(t, err)
			var got []any
			for _, reply := range replies {
				value, err := reply.(*redis.Cmd).Result()
				require.NoError(t, err)
				five, isThrottle := value.([]any)
				if isThrottle {
					value = 1 - five[0].(int64)
				}
				got = append(got, value)
			}
			yes, no := any(int64(1)), any(int64(0))
			require.Equal(t, []any{yes, yes, yes, yes, yes, no, no}, got)
		})
	}
}

// stored returns whatever a way holds under a key, with its expiry.
func stored(t *testing.T, s subject) string {
	p, ok := s.way.(*process)
	if ok {
		return fmt.Sprint(p.funnels)
	}
	dump, err := s.rdb.Dump(t.Context(), s.name).Result()
	require.NoError(t, err)
	return fmt.Sprintf("%q until %d", dump, servertest.ExpiryOf(t, s.rdb, s.name))
}

// What is stored goes when it says nothing any more: when the last call has left the window, and
// when the funnel has drained. No user leaves anything behind.
func TestWhatIsStoredGoes(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, fivePerFiveMinutes) {
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			through, err := send(t.Context(), s, s.name, 2)
			require.NoError(t, err)
			require.Equal(t, 2, through)
			p, ok := s.way.(*process)
			if ok {
				requireSwept(t, p)
				return
			}
			lives := 2 * time.Minute // a funnel with two tokens
			if s.name == "window" {
				lives = 5 * time.Minute
			}
			expiry := time.UnixMilli(servertest.ExpiryOf(t, s.rdb, s.name))
			require.WithinRange(t, expiry, began.Add(lives-time.Millisecond), time.Now().Add(lives+time.Millisecond))
		})
	}
}

// requireSwept requires that funnels that have drained go while others come.
func requireSwept(t *testing.T, p *process) {
	for user := range 10_000 {
		key := strconv.Itoa(user)
		_, err := p.allow(t.Context(), key)
		require.NoError(t, err)
		f := p.funnels[key]
		f.at = f.at.Add(-time.Minute)
		p.funnels[key] = f
	}
	require.Less(t, len(p.funnels), 300)
	require.Contains(t, p.funnels, "process", "its funnel has not drained")
}

// Only the server's clock counts: what is stored lies between two instants of it.
func TestTheServersClock(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, fivePerFiveMinutes) {
		if s.rdb == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			before, err := s.rdb.Time(t.Context()).Result()
			require.NoError(t, err)
			_, err = send(t.Context(), s, s.name, 1)
			require.NoError(t, err)
			after, err := s.rdb.Time(t.Context()).Result()
			require.NoError(t, err)
			var at time.Time
			switch s.name {
			case "window":
				at = time.UnixMicro(int64(s.rdb.ZRangeWithScores(t.Context(), s.name, 0, 0).Val()[0].Score))
			case "hash":
				micros, err := s.rdb.HGet(t.Context(), s.name, "at").Int64()
				require.NoError(t, err)
				at = time.UnixMicro(micros)
			default:
				tat, err := s.rdb.Get(t.Context(), s.name).Int64()
				require.NoError(t, err)
				at = time.Unix(0, tat).Add(-time.Minute)
			}
			require.WithinRange(t, at, before, after.Add(time.Microsecond))
		})
	}
}

// The program prints what examples/README.md shows.
func TestProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, shown, _ := strings.Cut(string(readme), "```\n")
	shown, _, _ = strings.Cut(shown, "```")

	rdb := servertest.StartClient(t)
	for _, key := range []string{keyOf("window"), keyOf("hash"), keyOf("CL.THROTTLE")} {
		require.NoError(t, rdb.Set(t.Context(), key, "an earlier run", 0).Err())
	}
	var out strings.Builder
	require.NoError(t, show(t.Context(), &out, rdb, limit{count: 5, period: 4 * time.Second}))
	require.Equal(t, shown, out.String())
}

// A funnel takes as much memory for 1,000 calls as for 5, and a window takes memory for each call.
// With -v the test prints the numbers of examples/README.md.
func TestCosts(t *testing.T) {
	t.Parallel()
	bytes := map[string][]int64{}
	for _, calls := range []int{5, 100, 1000} {
		for _, s := range subjects(t, limit{count: calls, period: time.Duration(calls) * time.Hour}) {
			if s.rdb == nil {
				continue
			}
			require.NoError(t, s.rdb.FlushAll(t.Context()).Err())
			require.NoError(t, s.rdb.ConfigResetStat(t.Context()).Err())
			through, err := send(t.Context(), s, "user:42", calls)
			require.NoError(t, err)
			require.Equal(t, calls, through)
			used, err := s.rdb.MemoryUsage(t.Context(), "user:42").Result()
			require.NoError(t, err)
			bytes[s.name] = append(bytes[s.name], used)
			if calls == 1000 {
				stats := s.rdb.Info(t.Context(), "commandstats").Val()
				pattern := regexp.MustCompile(`cmdstat_(evalsha|cl\.throttle):.*usec_per_call=([0-9.]+)`)
				t.Logf("%s: %s µs of the server's time per call", s.name, pattern.FindStringSubmatch(stats)[2])
			}
		}
	}
	t.Logf("bytes of a user who has made 5, 100 and 1,000 calls: %v", bytes)
	t.Logf("and in the process, after any number: %d", inProcess(t))
	require.Greater(t, bytes["window"][2], int64(1000*16))
	for _, name := range []string{"hash", "CL.THROTTLE"} {
		require.Equal(t, bytes[name][0], bytes[name][2], name)
	}
}

// inProcess returns how many bytes of this process the funnel of a user takes.
func inProcess(t *testing.T) uint64 {
	const users = 100_000
	keys := make([]string, users)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	p := newProcess(fivePerFiveMinutes)
	before := allocated()
	for _, key := range keys {
		_, err := p.allow(t.Context(), key)
		require.NoError(t, err)
	}
	after := allocated()
	runtime.KeepAlive(p)
	return (after - before) / users
}

func allocated() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
