package local_test

import (
	"flag"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/gcra/local"
)

// More than rapid's 100 checks by default; -rapid.checks on the command line
// overrides it.
func init() {
	if err := flag.Set("rapid.checks", "1500"); err != nil {
		panic(err)
	}
}

// Numbers small enough that funnels often fill, drain and meet at one instant, and
// errors.
var (
	rates = rapid.Custom(func(t *rapid.T) gcra.Rate {
		// An error leaves the zero Rate, for which every call is an error.
		rate, _ := gcra.NewRate(
			rapid.Int64Range(0, 5).Draw(t, "capacity"),
			rapid.Int64Range(1, 3).Draw(t, "count"),
			rapid.OneOf(rapid.Int64Range(3, 10), rapid.Int64Range(1e9, 10e9)).Draw(t, "period"))
		return rate
	})
	quantities = rapid.OneOf(rapid.Just[int64](1), rapid.Int64Range(-1, 6), rapid.Just[int64](1<<62))
	keys       = rapid.SampledFrom([]string{"", "a", "b", "c", ":", "a:", "a:b", "b:a"})

	waits = rapid.OneOf(
		rapid.Just(time.Duration(0)),
		rapid.Map(rapid.Int64Range(0, 10), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, 30), func(n int64) time.Duration { return time.Duration(n) * time.Second }),
	)
	steps = rapid.Map(waits, func(wait time.Duration) time.Duration { return -wait })
)

// A model is the TATs of the funnels that had not drained at any call.
type model map[string]int64

// forget returns how many are left.
func (m model) forget(now int64) int {
	maps.DeleteFunc(m, func(_ string, tat int64) bool { return tat <= now })
	return len(m)
}

func (m model) take(key string, rate gcra.Rate, now, quantity int64) (gcra.Decision, error) {
	decision, err := rate.Decide(m[key], now, quantity)
	if err == nil && !decision.Limited && quantity > 0 {
		m[key] = decision.TAT
	}
	return decision, err
}

// A set that removes drained funnels decides like gcra.Decide on a plain map, whatever
// the rates and the methods, and keeps no more than the funnels that are not empty; on
// a clock that steps back, too. Funnels that were emptied may be kept until they would
// have drained.
func TestFunnelsAreDecideOnAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var clock fakeClock
		funnels, model, emptied := local.New(clock.now), model{}, false
		requireSame := func(want gcra.Decision, wantErr error, got gcra.Decision, err error) {
			if emptied && got.TAT <= clock.nanoseconds() {
				got.TAT = want.TAT // of a drained funnel, any means the same
			}
			require.Equal(t, wantErr, err)
			require.Equal(t, want, got)
		}
		advance, methods := waits, 4
		if rapid.Bool().Draw(t, "the clock may step back") {
			advance, methods = rapid.OneOf(waits, waits, steps), 3 // without Empty
		}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			clock.advance(advance.Draw(t, "advance"))
			now, key := clock.nanoseconds(), keys.Draw(t, "key")
			method := rapid.IntRange(0, methods).Draw(t, "method")
			if method < 4 { // Empty removes nothing
				model.forget(now)
			}
			switch method {
			case 0:
				rate, quantity := rates.Draw(t, "rate"), quantities.Draw(t, "quantity")
				want, wantErr := model.take(key, rate, now, quantity)
				got, err := funnels.Take(key, rate, quantity)
				requireSame(want, wantErr, got, err)
			case 1:
				rate, quantity := rates.Draw(t, "rate"), quantities.Draw(t, "quantity")
				want, wantErr := rate.Decide(model[key], now, quantity)
				got, err := local.SetOf(funnels).Peek(key, rate, quantity)
				requireSame(want, wantErr, got, err)
			case 2:
				level := rapid.OneOf(waits, steps).Draw(t, "level")
				if level > 0 {
					model[key] = max(model[key], now+int64(level))
				}
				local.SetOf(funnels).Raise(key, clock.now().Add(level))
			case 3:
				capacity := rapid.Int64Range(1, 3).Draw(t, "capacity")
				leakingRate := rapid.SampledFrom([]float64{0.2, 0.5, 1}).Draw(t, "leaking rate")
				rate, err := local.NewRate(capacity, leakingRate)
				require.NoError(t, err)
				want, err := model.take(local.Key(key, "b"), rate, now, 1)
				require.NoError(t, err)
				allowed, err := funnels.IsActionAllowed(key, "b", capacity, leakingRate)
				require.NoError(t, err)
				require.Equal(t, !want.Limited, allowed)
			case 4:
				local.SetOf(funnels).Empty(key)
				emptied = emptied || model[key] != gcra.Empty
				delete(model, key)
			}
			require.GreaterOrEqual(t, funnels.Len(), len(model))
			if !emptied {
				require.Equal(t, len(model), funnels.Len())
			}
		}
		clock.advance(time.Hour)
		_, _ = local.SetOf(funnels).Peek("", gcra.Rate{}, 0)
		require.Zero(t, funnels.Len(), "what was emptied is removed when it would have drained")
	})
}

// No two pairs of user and action share a key.
func TestKeysAreDistinct(t *testing.T) {
	// Few letters, and those that are escaped: pairs resemble each other.
	text := rapid.StringOfN(rapid.SampledFrom([]rune(":%25A3a")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		user, action := text.Draw(t, "user"), text.Draw(t, "action")
		key := local.Key(user, action)
		others := [][2]string{{text.Draw(t, "other user"), text.Draw(t, "other action")}}
		// Every other way to split the same letters, and the key.
		for _, letters := range []string{user + ":" + action, key} {
			for i := range letters {
				others = append(others, [2]string{letters[:i], letters[i:]}, [2]string{letters[:i], letters[i+1:]})
			}
		}
		for _, other := range others {
			same := other == [2]string{user, action}
			require.Equal(t, same, local.Key(other[0], other[1]) == key, "%q and %q", other, key)
		}
	})
}
