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

// A model is the calls that count, by their time, which is never earlier than that of
// the one before.
type model struct {
	period  int64
	counted []int64
}

func (m *model) isAllowed(now int64, maxCount int) bool {
	for len(m.counted) > 0 && now-m.counted[0] >= m.period {
		m.counted = m.counted[1:]
	}
	if len(m.counted) >= maxCount {
		return false
	}
	if len(m.counted) > 0 {
		now = max(now, m.counted[len(m.counted)-1])
	}
	m.counted = append(m.counted, now)
	return true
}

// Clients with any clocks and any counts: each call has any time, earlier or later than
// the one before. The set holds the calls that count, and no others.
func TestModel(t *testing.T) {
	client := connect(t)
	users := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		users++
		user := strconv.Itoa(users)
		period := time.Duration(rapid.IntRange(1, 40).Draw(t, "period")) * time.Second
		most := rapid.IntRange(1, 6).Draw(t, "maxCount")
		model := model{period.Microseconds(), nil}
		var watch watch
		clients := []*window.Windows{window.New(client, watch.now), window.New(client, watch.now)}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			at := time.Duration(rapid.IntRange(0, 120).Draw(t, "at")) * time.Second
			at += time.Duration(rapid.SampledFrom([]int{0, 0, 1, -1}).Draw(t, "microseconds")) * time.Microsecond
			watch.Time = start.Add(at)
			maxCount := rapid.OneOf(rapid.Just(most), rapid.IntRange(1, 6)).Draw(t, "maxCount of the call")
			want := model.isAllowed(watch.UnixMicro(), maxCount)
			got, err := clients[rapid.IntRange(0, 1).Draw(t, "client")].IsActionAllowed(ctx, user, "reply", period, maxCount)
			require.NoError(t, err)
			require.Equal(t, want, got, "at %v", at)
			members, err := client.ZRangeWithScores(ctx, window.Key(user, "reply"), 0, -1).Result()
			require.NoError(t, err)
			require.Len(t, members, len(model.counted))
			for i, counted := range model.counted {
				require.Equal(t, float64(counted), members[i].Score)
			}
		}
	})
}

// An attempt is a call that was allowed, and the clock before and after it.
type attempt struct{ before, after int64 }

// callConcurrently has eight clients call as often as they can, while their common
// clock advances by a second with each call. Calls overtake each other between the
// clock and the server. No window holds more attempts than maxCount: those that began
// after one had begun and ended within the period.
func callConcurrently(t *testing.T, rdb redis.UniversalClient, period int64, maxCount, calls int) {
	var clock atomic.Int64
	var mutex sync.Mutex
	var workers sync.WaitGroup
	var allowed []attempt
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
	for _, first := range allowed {
		inside := 0
		for _, other := range allowed {
			if other.before >= first.before && other.after < first.before+period {
				inside++
			}
		}
		require.LessOrEqual(t, inside, maxCount, "in the period that begins at %d", first.before)
	}
	require.Greater(t, len(allowed), calls/int(period)*maxCount/2, "the limit is used")
}

func TestNeverMoreInAnyPeriod(t *testing.T) {
	for _, test := range []struct {
		period   int64 // seconds, which are calls
		maxCount int
	}{{40, 3}, {200, 20}} {
		callConcurrently(t, connect(t), test.period, test.maxCount, 4000)
	}
	callConcurrently(t, servertest.StartCluster(t, 2, 15*time.Second, servertest.Options{}).Client(t), 100, 10, 800)
}
