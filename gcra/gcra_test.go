package gcra_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"funnel/gcra"
)

const (
	second = int64(1e9)

	// today is an instant in 2026, far from 0 and far from the year 2262.
	today = 1_800_000_000 * second
)

// mustRate is for cases whose rate is not what is being tested.
func mustRate(t testing.TB, capacity, count, period int64) gcra.Rate {
	t.Helper()
	rate, err := gcra.NewRate(capacity, count, period)
	if err != nil {
		t.Fatalf("NewRate(%d, %d, %d): %v", capacity, count, period, err)
	}
	return rate
}

func TestNewRate(t *testing.T) {
	tests := []struct {
		name                    string
		capacity, count, period int64
		emissionInterval        int64
		tolerance               int64
		err                     error
	}{
		{"the transcript", 15, 30, 60 * second, 2 * second, 30 * second, nil},
		{"one of everything", 1, 1, 1, 1, 1, nil},
		{"half a second", 4, 1, second / 2, second / 2, 2 * second, nil},
		{"100 per 7 seconds", 100, 100, 7 * second, 70_000_000, 7 * second, nil},
		{"3 per 10 seconds rounds down", 10, 3, 10 * second, 3_333_333_333, 33_333_333_330, nil},
		{"7 per minute rounds down", 7, 7, 60 * second, 8_571_428_571, 59_999_999_997, nil},
		{"11 ns for 6 tokens rounds down", 1, 6, 11, 1, 1, nil},
		{"the fastest leak", 1, math.MaxInt64, math.MaxInt64, 1, 1, nil},
		{"the slowest leak", 1, 1, math.MaxInt64, math.MaxInt64, math.MaxInt64, nil},
		{"the largest capacity", math.MaxInt64, 1, 1, 1, math.MaxInt64, nil},
		{"the largest tolerance of two factors", 1 << 31, 1, 1<<32 - 1, 1<<32 - 1, 1<<63 - 1<<31, nil},

		{"no capacity", 0, 30, 60 * second, 0, 0, gcra.ErrCapacity},
		{"negative capacity", -1, 30, 60 * second, 0, 0, gcra.ErrCapacity},
		{"least capacity", math.MinInt64, 30, 60 * second, 0, 0, gcra.ErrCapacity},
		{"no count", 15, 0, 60 * second, 0, 0, gcra.ErrCount},
		{"negative count", 15, -30, 60 * second, 0, 0, gcra.ErrCount},
		{"least count", 15, math.MinInt64, 60 * second, 0, 0, gcra.ErrCount},
		{"no period", 15, 30, 0, 0, 0, gcra.ErrPeriod},
		{"negative period", 15, 30, -60 * second, 0, 0, gcra.ErrPeriod},
		{"least period", 15, 30, math.MinInt64, 0, 0, gcra.ErrPeriod},
		{"the first error is named", 0, 0, 0, 0, 0, gcra.ErrCapacity},
		{"the second error is named", 1, 0, 0, 0, 0, gcra.ErrCount},

		{"a token in less than a nanosecond", 1, 2, 1, 0, 0, gcra.ErrEmissionInterval},
		{"one token more than nanoseconds", 1, second + 1, second, 0, 0, gcra.ErrEmissionInterval},
		{"tolerance of exactly 2^63", 1 << 31, 1, 1 << 32, 0, 0, gcra.ErrTolerance},
		{"tolerance beyond 2^64", 1 << 40, 1, 1 << 40, 0, 0, gcra.ErrTolerance},
		{"tolerance that wraps to a small number", 1 << 32, 1, 1<<32 + 1, 0, 0, gcra.ErrTolerance},
		{"the largest tolerance", math.MaxInt64, 1, math.MaxInt64, 0, 0, gcra.ErrTolerance},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rate, err := gcra.NewRate(test.capacity, test.count, test.period)
			if err != test.err {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if err != nil {
				if rate != (gcra.Rate{}) {
					t.Errorf("rate %+v beside an error, want the zero Rate", rate)
				}
				return
			}
			if got := rate.Capacity(); got != test.capacity {
				t.Errorf("capacity %d, want %d", got, test.capacity)
			}
			if got := rate.EmissionInterval(); got != test.emissionInterval {
				t.Errorf("emission interval %d, want %d", got, test.emissionInterval)
			}
			if got := rate.Tolerance(); got != test.tolerance {
				t.Errorf("tolerance %d, want %d", got, test.tolerance)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	type (
		shape    struct{ capacity, count, period int64 }
		decision = gcra.Decision
	)
	const (
		never  = gcra.NoRetry
		latest = math.MaxInt64
	)
	var (
		transcript = shape{15, 30, 60 * second}
		thirds     = shape{10, 3, 10 * second} // 3,333,333,333 ns per token
		nanosecond = shape{10, 1, 1}           // 1 ns per token
		endless    = shape{1, 1, math.MaxInt64}
	)
	tests := []struct {
		name     string
		shape    shape
		tat      int64
		now      int64
		quantity int64
		want     decision
		err      error
	}{
		{"new key", transcript, gcra.Empty, today, 1,
			decision{false, 15, 14, never, 2 * second, today + 2*second}, nil},
		{"new key, quantity 0", transcript, gcra.Empty, today, 0,
			decision{false, 15, 15, never, 0, gcra.Empty}, nil},
		{"new key, two tokens", transcript, gcra.Empty, today, 2,
			decision{false, 15, 13, never, 4 * second, today + 4*second}, nil},
		{"new key, the whole capacity", transcript, gcra.Empty, today, 15,
			decision{false, 15, 0, never, 30 * second, today + 30*second}, nil},
		{"new key, more than the capacity", transcript, gcra.Empty, today, 16,
			decision{true, 15, 15, never, 0, gcra.Empty}, nil},

		{"drained just now", transcript, today, today, 1,
			decision{false, 15, 14, never, 2 * second, today + 2*second}, nil},
		{"drained long ago", transcript, today - 3600*second, today, 1,
			decision{false, 15, 14, never, 2 * second, today + 2*second}, nil},
		{"drained long ago, quantity 0", transcript, today - 3600*second, today, 0,
			decision{false, 15, 15, never, 0, today - 3600*second}, nil},
		{"a level of one nanosecond", transcript, today + 1, today, 0,
			decision{false, 15, 14, never, 1, today + 1}, nil},

		{"last token", transcript, today + 28*second, today, 1,
			decision{false, 15, 0, never, 30 * second, today + 30*second}, nil},
		{"last token a nanosecond early", transcript, today + 28*second + 1, today, 1,
			decision{true, 15, 0, 1, 28*second + 1, today + 28*second + 1}, nil},
		{"full", transcript, today + 30*second, today, 1,
			decision{true, 15, 0, 2 * second, 30 * second, today + 30*second}, nil},
		{"full a nanosecond ago", transcript, today + 30*second, today + 1, 1,
			decision{true, 15, 0, 2*second - 1, 30*second - 1, today + 30*second}, nil},
		{"full, quantity 0", transcript, today + 30*second, today, 0,
			decision{false, 15, 0, never, 30 * second, today + 30*second}, nil},
		{"full, the whole capacity", transcript, today + 30*second, today, 15,
			decision{true, 15, 0, 30 * second, 30 * second, today + 30*second}, nil},
		{"half full, too many by one", transcript, today + 14*second, today, 9,
			decision{true, 15, 8, 2 * second, 14 * second, today + 14*second}, nil},
		{"half full, more than the capacity", transcript, today + 14*second, today, 16,
			decision{true, 15, 8, never, 14 * second, today + 14*second}, nil},

		{"overfull after a change of rate", transcript, today + 100*second, today, 1,
			decision{true, 15, 0, 72 * second, 100 * second, today + 100*second}, nil},
		{"overfull, quantity 0", transcript, today + 100*second, today, 0,
			decision{true, 15, 0, 70 * second, 100 * second, today + 100*second}, nil},
		{"overfull by a nanosecond, quantity 0", transcript, today + 30*second + 1, today, 0,
			decision{true, 15, 0, 1, 30*second + 1, today + 30*second + 1}, nil},
		{"overfull, more than the capacity", transcript, today + 100*second, today, 16,
			decision{true, 15, 0, never, 100 * second, today + 100*second}, nil},
		{"a clock that stepped back an hour", transcript, today + 30*second, today - 3600*second, 1,
			decision{true, 15, 0, 3602 * second, 3630 * second, today + 30*second}, nil},
		{"as overfull as possible", transcript, latest, 0, 15,
			decision{true, 15, 0, latest, latest, latest}, nil},

		{"rounded emission interval", thirds, gcra.Empty, today, 1,
			decision{false, 10, 9, never, 3_333_333_333, today + 3_333_333_333}, nil},
		{"rounded emission interval, whole capacity", thirds, gcra.Empty, today, 10,
			decision{false, 10, 0, never, 33_333_333_330, today + 33_333_333_330}, nil},
		{"rounded emission interval, full", thirds, today + 33_333_333_330, today, 1,
			decision{true, 10, 0, 3_333_333_333, 33_333_333_330, today + 33_333_333_330}, nil},

		{"the last instant", nanosecond, gcra.Empty, latest - 1, 1,
			decision{false, 10, 9, never, 1, latest}, nil},
		{"the last instant, quantity 0", nanosecond, latest, latest, 0,
			decision{false, 10, 10, never, 0, latest}, nil},
		{"beyond the last instant", nanosecond, gcra.Empty, latest, 1,
			decision{}, gcra.ErrTAT},
		{"beyond the last instant by the stored TAT", nanosecond, latest, latest - 5, 1,
			decision{}, gcra.ErrTAT},
		{"limited at the last instant", nanosecond, latest, latest - 10, 1,
			decision{true, 10, 0, 1, 10, latest}, nil},
		{"more than the capacity at the last instant", nanosecond, gcra.Empty, latest, 11,
			decision{true, 10, 10, never, 0, gcra.Empty}, nil},
		{"both sums fill 64 bits", endless, latest, latest, 1,
			decision{}, gcra.ErrTAT},
		{"both sums fill 64 bits, limited", endless, latest, latest - 1, 1,
			decision{true, 1, 0, 1, 1, latest}, nil},
		{"292 years per token", endless, gcra.Empty, 0, 1,
			decision{false, 1, 0, never, latest, latest}, nil},

		{"the epoch", nanosecond, gcra.Empty, 0, 3,
			decision{false, 10, 7, never, 3, 3}, nil},
		{"before the epoch counts as the epoch", nanosecond, gcra.Empty, -5, 3,
			decision{false, 10, 7, never, 3, 3}, nil},
		{"TAT before the epoch counts as the epoch", nanosecond, -5, 0, 3,
			decision{false, 10, 7, never, 3, 3}, nil},
		{"TAT before the epoch, quantity 0", nanosecond, -5, 0, 0,
			decision{false, 10, 10, never, 0, gcra.Empty}, nil},
		{"both far before the epoch", nanosecond, math.MinInt64, math.MinInt64, 3,
			decision{false, 10, 7, never, 3, 3}, nil},

		{"negative quantity", transcript, gcra.Empty, today, -1, decision{}, gcra.ErrQuantity},
		{"least quantity", transcript, gcra.Empty, today, math.MinInt64, decision{}, gcra.ErrQuantity},
		{"largest increment", shape{1, 1, 1 << 32}, gcra.Empty, today, 1<<31 - 1,
			decision{true, 1, 1, never, 0, gcra.Empty}, nil},
		{"increment of exactly 2^63", shape{1, 1, 1 << 32}, gcra.Empty, today, 1 << 31,
			decision{}, gcra.ErrIncrement},
		{"increment that wraps to a small number", shape{1, 1, 1<<32 + 1}, gcra.Empty, today, 1 << 32,
			decision{}, gcra.ErrIncrement},
		{"largest quantity", transcript, gcra.Empty, today, math.MaxInt64,
			decision{}, gcra.ErrIncrement},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rate := mustRate(t, test.shape.capacity, test.shape.count, test.shape.period)
			got, err := rate.Decide(test.tat, test.now, test.quantity)
			if got != test.want || err != test.err {
				t.Errorf("got  %+v, %v\nwant %+v, %v", got, err, test.want, test.err)
			}
		})
	}
}

func TestIncrement(t *testing.T) {
	rate := mustRate(t, 15, 30, 60*second)
	for _, c := range []struct {
		quantity, want int64
		err            error
	}{
		{0, 0, nil},
		{1, 2 * second, nil},
		{math.MaxInt64 / (2 * second), math.MaxInt64 / (2 * second) * 2 * second, nil},
		{math.MaxInt64/(2*second) + 1, 0, gcra.ErrIncrement},
		{math.MaxInt64, 0, gcra.ErrIncrement},
		{-1, 0, gcra.ErrQuantity},
	} {
		if got, err := rate.Increment(c.quantity); got != c.want || err != c.err {
			t.Errorf("Increment(%d) = %d, %v, want %d, %v", c.quantity, got, err, c.want, c.err)
		}
	}
}

func TestExactlyCapacityCallsAtOneInstant(t *testing.T) {
	for _, capacity := range []int64{1, 2, 15, 1000} {
		rate := mustRate(t, capacity, 30, 60*second)
		tat := gcra.Empty
		for call := int64(1); call <= capacity; call++ {
			got, err := rate.Decide(tat, today, 1)
			if err != nil || got.Limited || got.Remaining != capacity-call {
				t.Fatalf("capacity %d, call %d: %+v, %v; want allowed with %d remaining",
					capacity, call, got, err, capacity-call)
			}
			tat = got.TAT
		}
		got, err := rate.Decide(tat, today, 1)
		want := gcra.Decision{
			Limited: true, Limit: capacity, Remaining: 0,
			RetryAfter: 2 * second, ResetAfter: capacity * 2 * second, TAT: tat,
		}
		if got != want || err != nil {
			t.Errorf("capacity %d, one call too many:\ngot  %+v, %v\nwant %+v", capacity, got, err, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	tests := []struct{ nanoseconds, want int64 }{
		{gcra.NoRetry, -1},
		{-2 * second, -1},
		{math.MinInt64, -1},
		{0, 0},
		{1, 1},
		{second - 1, 1},
		{second, 1},
		{second + 1, 2},
		{2 * second, 2},
		{30*second - 1, 30},
		{9_223_372_036 * second, 9_223_372_036},
		{math.MaxInt64, 9_223_372_037},
	}
	for _, test := range tests {
		if got := gcra.Seconds(test.nanoseconds); got != test.want {
			t.Errorf("Seconds(%d) = %d, want %d", test.nanoseconds, got, test.want)
		}
	}
}

func TestMilliseconds(t *testing.T) {
	tests := []struct{ nanoseconds, want int64 }{
		{0, 0},
		{1, 1},
		{1e6 - 1, 1},
		{1e6, 1},
		{1e6 + 1, 2},
		{second, 1000},
		{today, 1_800_000_000_000},
		{today + 1, 1_800_000_000_001},
		{math.MaxInt64, 9_223_372_036_855},
	}
	for _, test := range tests {
		if got := gcra.Milliseconds(test.nanoseconds); got != test.want {
			t.Errorf("Milliseconds(%d) = %d, want %d", test.nanoseconds, got, test.want)
		}
	}
}

// CL.THROTTLE replies these texts behind "ERR ", so they must name arguments as the
// command does.
func TestErrorsNameTheArguments(t *testing.T) {
	tests := []struct {
		err   gcra.Error
		first string
		also  []string
	}{
		{gcra.ErrCapacity, "capacity", nil},
		{gcra.ErrCount, "count", nil},
		{gcra.ErrPeriod, "period", nil},
		{gcra.ErrQuantity, "quantity", nil},
		{gcra.ErrEmissionInterval, "count", []string{"period"}},
		{gcra.ErrTolerance, "capacity", []string{"period", "count"}},
		{gcra.ErrIncrement, "quantity", []string{"period", "count"}},
		{gcra.ErrTAT, "quantity", []string{"period", "count"}},
	}
	seen := map[string]bool{}
	for _, test := range tests {
		words := test.err.Error()
		if !strings.HasPrefix(words, test.first+" ") {
			t.Errorf("%q does not begin with %s", words, test.first)
		}
		for _, name := range test.also {
			if !strings.Contains(words, name) {
				t.Errorf("%q does not name %s", words, name)
			}
		}
		if seen[words] {
			t.Errorf("%q stands for two errors", words)
		}
		seen[words] = true
	}
}

func TestErrorsMatch(t *testing.T) {
	_, err := gcra.NewRate(0, 1, 1)
	if !errors.Is(err, gcra.ErrCapacity) || errors.Is(err, gcra.ErrCount) {
		t.Errorf("errors.Is does not tell %q from others", err)
	}
	var reason gcra.Error
	if !errors.As(err, &reason) || reason != gcra.ErrCapacity {
		t.Errorf("errors.As finds %q in %q", reason, err)
	}
}

// TestTheZeroRateDecidesNothing: a forgotten NewRate is an error, not a panic.
func TestTheZeroRateDecidesNothing(t *testing.T) {
	for _, quantity := range []int64{0, 1} {
		decision, err := gcra.Rate{}.Decide(gcra.Empty, today, quantity)
		if err != gcra.ErrCapacity || decision != (gcra.Decision{}) {
			t.Errorf("quantity %d: %+v, %v; want nothing and %v", quantity, decision, err, gcra.ErrCapacity)
		}
	}
}
