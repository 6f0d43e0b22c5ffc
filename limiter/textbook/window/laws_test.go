package window_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/limiter/textbook/window"
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
// the one before, less what it has beyond microseconds; the period is rounded up to them.
// The set holds the calls that count, and no others.
func TestModel(t *testing.T) {
	client := connect(t)
	users := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		users++
		user := strconv.Itoa(users)
		little := rapid.SampledFrom([]time.Duration{0, 0, 1, 999, 1000, -1, -1000})
		period := time.Duration(rapid.IntRange(1, 40).Draw(t, "period"))*time.Second + little.Draw(t, "and")
		most := rapid.IntRange(1, 6).Draw(t, "maxCount")
		model := model{(period + 999).Microseconds(), nil}
		var watch watch
		clients := []*window.Windows{window.New(client, watch.now), window.New(client, watch.now)}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			at := time.Duration(rapid.IntRange(0, 120).Draw(t, "at"))*time.Second + little.Draw(t, "and")
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
