package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// New says what is wrong, in which option, with which value, and what is accepted.
func TestNewPanics(t *testing.T) {
	l := limiter.NewLocal()
	shadow := limiter.Shadow(l, nil)
	slotsAs := func(most int, ttl time.Duration) Option[string] {
		return WithSlots[string](limiter.Slots{Max: most, TTL: ttl})
	}
	make := func(l limiter.Allower, name string, limit limiter.Limit, options ...Option[string]) func() {
		return func() { New("test", l, name, limit, callerOf, options...) }
	}
	const noName = ` needs a name for the policy, such as "login", not "": it is part of the keys in Redis, ` +
		"so that no two policies share a limit by accident, and of what clients are told"
	const ascii = " needs a name of printable ASCII characters, as headers have, not "
	const wrongSlots = "WithSlots needs a Max of at least 1 and a TTL of at least 1ms, not "
	for _, c := range []struct {
		want string
		make func()
	}{
		{want: "New needs a Limiter, not nil", make: make(nil, "own", slow(1))},
		{want: "New needs a Limiter, not nil", make: make((*limiter.Limiter)(nil), "own", slow(1), slotsAs(0, 0))},
		{want: "New" + noName, make: make(l, "", slow(1))},
		{want: "WithAlso" + noName, make: make(l, "own", slow(1), WithAlso("", slow(1), callerOf))},
		{want: "New" + ascii + `"\x1f"`, make: make(l, "\x1f", slow(1))},
		{want: "New" + ascii + `"\x7f"`, make: make(l, "\x7f", slow(1))},
		{want: "New" + ascii + `"ü"`, make: make(l, "ü", slow(1))},
		{
			want: `New needs a valid limit for "own", not 0 per second, capacity 0: ` + limiter.PerSecond(0).Validate().Error(),
			make: make(l, "own", limiter.PerSecond(0)),
		},
		{
			want: `WithAlso needs a valid limit for "all", not 0 per 0s, capacity 0: ` + limiter.Limit{}.Validate().Error(),
			make: make(l, "own", slow(1), WithAlso("all", limiter.Limit{}, callerOf)),
		},
		{
			want: `WithAlso needs another name than "own", which is taken`,
			make: make(l, "own", slow(1), WithAlso("own", slow(1), callerOf)),
		},
		{
			want: `WithAlso needs a function for the key of "all", not nil`,
			make: make(l, "own", slow(1), WithAlso[string]("all", slow(1), nil)),
		},
		{
			want: `New needs a limit for "own", or a function that returns it, not nil`,
			make: func() { New("test", l, "own", (func(string) limiter.Limit)(nil), callerOf) },
		},
		{want: "WithKey needs a function, not nil", make: make(l, "own", slow(1), WithKey[string](nil))},
		{want: "WithCost needs a function, not nil", make: make(l, "own", slow(1), WithCost[string](nil))},
		{want: "WithSkip needs a function, not nil", make: make(l, "own", slow(1), WithSkip[string](nil))},
		{want: wrongSlots + "{Max:0 TTL:1s}", make: make(l, "own", slow(1), slotsAs(0, time.Second))},
		{want: wrongSlots + "{Max:1 TTL:999.999µs}", make: make(l, "own", slow(1), slotsAs(1, time.Millisecond-1))},
		{want: "WithSlots needs a Limiter with TryAcquire", make: make(shadow, "own", slow(1), slotsAs(1, time.Second))},
		{
			want: "WithAlso needs a Limiter with AllowAll and PeekAll",
			make: make(shadow, "own", slow(1), WithAlso("all", slow(1), callerOf)),
		},
	} {
		require.PanicsWithValue(t, "test: "+c.want, c.make)
	}
	require.NotPanics(t, make(l, " ~", slow(1), slotsAs(1, time.Millisecond)))
	require.NotPanics(t, make(shadow, "own", slow(1)))
}
