package hashfunnel_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra/local"
	"funnel/internal/funnels"
	"funnel/limiter/textbook/hashfunnel"
)

// The rates of the model: all but the third divide by whole nanoseconds.
var rates = []float64{0.1, 0.5, 1.0 / 3, 1, 8, 1000, 12_500}

// Each answer is that of package gcra/local, but for calls that come within two
// microseconds, or the leak of a millionth of a token, of the instant at which the answer
// changes. Those are moved to the end of that time, or its beginning.
func TestLocalIsTheModel(t *testing.T) {
	client := connect(t)
	users := 0
	rapid.Check(t, func(rt *rapid.T) {
		users++
		user := strconv.Itoa(users)
		capacity := rapid.IntRange(1, 20).Draw(rt, "capacity")
		rate := rapid.SampledFrom(rates).Draw(rt, "rate")
		token := time.Duration(1e9 / rate)
		margin := token/1e6 + 2*time.Microsecond
		watch := &watch{start}
		hashes, model := hashfunnel.New(client, watch.now), funnels.New(watch.now)
		modelRate, err := local.NewRate(int64(capacity), rate)
		require.NoError(rt, err)

		for range rapid.IntRange(1, 80).Draw(rt, "calls") {
			share := rapid.SampledFrom([]time.Duration{0, 0, 0, 1, 33, 100, 100, 250, 1000}).Draw(rt, "hundredths of a token")
			watch.Time = watch.Add((token * share / 100).Truncate(time.Microsecond))
			peek, err := model.Peek(local.Key(user, "reply"), modelRate, 1)
			require.NoError(rt, err)
			early := time.Duration(peek.RetryAfter())
			if !peek.Limited { // it would have fitted earlier
				early = time.Duration(peek.ResetAfter - modelRate.Tolerance())
			}
			switch {
			case early > margin && rapid.Bool().Draw(rt, "just too early"):
				watch.Time = watch.Add(early - margin).Truncate(time.Microsecond)
			case early > -margin && (early < margin || rapid.Bool().Draw(rt, "in time")):
				watch.Time = watch.Add(early + margin)
			}
			want, err := model.Take(local.Key(user, "reply"), modelRate, 1)
			require.NoError(rt, err)
			require.Equal(rt, !want.Limited, ask(t, hashes, user, capacity, rate), "%v after the beginning", watch.Sub(start))
		}
	})
}
