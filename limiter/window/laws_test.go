package window_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/internal/servertest"
	"funnel/limiter/window"
)

// A model is the definition: the time is the latest that was sent, and a call is
// allowed when fewer than maxCount calls were in the period that ends with it.
type model struct {
	latest  time.Time
	allowed []time.Time
}

func (m *model) isAllowed(now time.Time, period time.Duration, maxCount int) bool {
	if now.After(m.latest) {
		m.latest = now
	}
	counted := 0
	for _, at := range m.allowed {
		if m.latest.Sub(at) < period {
			counted++
		}
	}
	if counted >= maxCount {
		return false
	}
	m.allowed = append(m.allowed, m.latest)
	return true
}

// Clients with any clocks: each call has any time, earlier or later than the one
// before.
func TestModel(t *testing.T) {
	client := connect(t)
	users := 0
	rapid.Check(t, func(t *rapid.T) {
		users++
		user := strconv.Itoa(users)
		period := time.Duration(rapid.IntRange(1, 40).Draw(t, "period")) * time.Second
		maxCount := rapid.IntRange(1, 6).Draw(t, "maxCount")
		var model model
		var watch watch
		clients := []*window.Windows{window.New(client, watch.now), window.New(client, watch.now)}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			watch.Time = start.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "at")) * time.Second)
			want := model.isAllowed(watch.Time, period, maxCount)
			got, err := clients[rapid.IntRange(0, 1).Draw(t, "client")].IsActionAllowed(context.Background(), user, "reply", period, maxCount)
			require.NoError(t, err)
			require.Equal(t, want, got, "at %v", watch.Time.Sub(start))
		}
	})
}

// An attempt is a call that was allowed, and the clock before and after it.
type attempt struct{ before, after int64 }

// requireNoFullerWindow requires that no window holds more attempts than maxCount:
// those that began after one had begun and ended within the period.
func requireNoFullerWindow(t *testing.T, allowed []attempt, period int64, maxCount int) {
	t.Helper()
	for _, first := range allowed {
		inside := 0
		for _, other := range allowed {
			if other.before >= first.before && other.after < first.before+period {
				inside++
			}
		}
		require.LessOrEqual(t, inside, maxCount, "in the period that begins at %d", first.before)
	}
}

// callConcurrently has eight clients call as often as they can, while their common
// clock advances by a second with each call. Calls overtake each other between the
// clock and the server.
func callConcurrently(t *testing.T, rdb redis.UniversalClient, period int64, maxCount, calls int) (allowed []attempt) {
	var clock atomic.Int64
	var mutex sync.Mutex
	var workers sync.WaitGroup
	for range 8 {
		windows := window.New(rdb, func() time.Time {
			now := start.Add(time.Duration(clock.Add(1)) * time.Second)
			if rand.IntN(4) == 0 { // be overtaken
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			}
			return now
		})
		workers.Go(func() {
			for range calls / 8 {
				before := clock.Load()
				ok, err := windows.IsActionAllowed(context.Background(), "laoqian", "reply", time.Duration(period)*time.Second, maxCount)
				after := clock.Load()
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					mutex.Lock()
					allowed = append(allowed, attempt{before, after})
					mutex.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return allowed
}

func TestNeverMoreInAnyPeriod(t *testing.T) {
	for _, test := range []struct {
		period   int64 // seconds, which are calls
		maxCount int
	}{{40, 3}, {200, 20}, {1000, 30}} {
		allowed := callConcurrently(t, connect(t), test.period, test.maxCount, 4000)
		requireNoFullerWindow(t, allowed, test.period, test.maxCount)
		require.Greater(t, len(allowed), 4000/int(test.period)*test.maxCount/2, "the limit is used")
	}
}

func TestExactlyMaxCountAtOneInstant(t *testing.T) {
	const maxCount = 15
	client := connect(t)
	var allowed atomic.Int64
	var workers sync.WaitGroup
	for range 10 {
		windows := window.New(client, func() time.Time { return start })
		for range 5 {
			workers.Go(func() {
				for range 10 {
					ok, err := windows.IsActionAllowed(context.Background(), "laoqian", "reply", time.Minute, maxCount)
					if err != nil {
						t.Error(err)
					}
					if ok {
						allowed.Add(1)
					}
				}
			})
		}
	}
	workers.Wait()
	require.EqualValues(t, maxCount, allowed.Load())
	require.Len(t, members(t, client), maxCount)
}

func TestCluster(t *testing.T) {
	cluster := servertest.StartCluster(t, 2, 15*time.Second, servertest.Options{})
	client := cluster.Client(t)
	allowed := callConcurrently(t, client, 100, 10, 800)
	requireNoFullerWindow(t, allowed, 100, 10)
	require.Greater(t, len(allowed), 40, "the limit is used")

	// Users all over the slots.
	windows := window.New(client, nil)
	for i := range 20 {
		for _, want := range []bool{true, true, false} {
			got, err := windows.IsActionAllowed(context.Background(), strconv.Itoa(i), "reply", time.Hour, 2)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}
