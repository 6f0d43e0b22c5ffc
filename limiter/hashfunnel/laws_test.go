package hashfunnel_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra/local"
	"funnel/limiter/hashfunnel"
)

// The rates of the model: all but the third divide by whole nanoseconds.
var rates = []float64{0.1, 0.5, 1.0 / 3, 1, 8, 1000, 12_500}

// TestLocalIsTheModel compares each answer with that of package gcra/local, but for
// those that come within two microseconds, or the leak of a millionth of a token, of
// the instant at which the answer changes.
func TestLocalIsTheModel(t *testing.T) {
	client := connect(t)
	users, compared, close := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		users++
		user := strconv.Itoa(users)
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		rate := rapid.SampledFrom(rates).Draw(t, "rate")
		token := time.Duration(1e9 / rate)
		watch := &watch{start}
		funnels, model := hashfunnel.New(client, watch.now), local.New(watch.now)
		modelRate, err := local.NewRate(int64(capacity), rate)
		require.NoError(t, err)

		for range rapid.IntRange(1, 80).Draw(t, "calls") {
			share := rapid.SampledFrom([]time.Duration{0, 0, 0, 1, 33, 100, 100, 250, 1000}).Draw(t, "hundredths of a token")
			watch.Time = watch.Add((token * share / 100).Truncate(time.Microsecond))

			margin := token/1e6 + 2*time.Microsecond
			peek, err := model.Look(local.Key(user, "reply"), modelRate, 1)
			require.NoError(t, err)
			if !peek.Limited {
				// How much later than the instant at which it would just fit.
				if time.Duration(modelRate.Tolerance()-peek.ResetAfter) < margin {
					close++
					watch.Time = watch.Add(margin)
				}
			} else if time.Duration(peek.RetryAfter()) < margin {
				close++
				watch.Time = watch.Add(time.Duration(peek.RetryAfter()) + margin)
			}

			want, err := model.IsActionAllowed(user, "reply", int64(capacity), rate)
			require.NoError(t, err)
			got, err := funnels.IsActionAllowed(context.Background(), user, "reply", capacity, rate)
			require.NoError(t, err)
			require.Equal(t, want, got, "%v after the beginning", watch.Sub(start))
			compared++
		}
	})
	t.Logf("%d answers compared, %d of them moved away from the instant at which they change", compared, close)
}

// infoField reads a field from the text of INFO.
func infoField(t testing.TB, info, field string) string {
	t.Helper()
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), field+":"); found {
			return value
		}
	}
	t.Fatalf("INFO has no field %s:\n%s", field, info)
	return ""
}
