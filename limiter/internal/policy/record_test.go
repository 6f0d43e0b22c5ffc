package policy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// A fake fails as long as err is set.
type fake struct{ err error }

func (f *fake) AllowN(context.Context, string, limiter.Limit, int) (limiter.Result, error) {
	return limiter.Result{OK: true}, f.err
}

// logged returns what slog.Default gets until the test ends, a line each.
func logged(t *testing.T) func() []string {
	log, previous := new(strings.Builder), slog.Default()
	t.Cleanup(func() { slog.SetDefault(previous) })
	slog.SetDefault(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
	return func() []string {
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		log.Reset()
		return lines
	}
}

// An outage has two lines, however many requests fail, and however many succeed between.
func TestOutagesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines, l := logged(t), &fake{}
		p := New("test", l, "login", limiter.PerSecond(1), callerOf)
		ask := func(after time.Duration, err error) {
			time.Sleep(after)
			l.err = err
			_, got := p.Check(t.Context(), "key")
			require.Equal(t, err, got)
		}
		down := errors.New("down")
		const ends = `level=INFO msg="rate limits are decided again" policy=login `
		const begins, nothing = `level=ERROR msg="rate limits are not decided" policy=login error=down`, ""
		ask(0, nil)
		require.Equal(t, []string{nothing}, lines())
		ask(0, down)
		require.Equal(t, []string{begins}, lines())
		ask(time.Second, down)
		ask(time.Second, nil)
		ask(8*time.Second, down)
		ask(quiet-1, nil)
		require.Equal(t, []string{nothing}, lines())
		ask(1, nil)
		require.Equal(t, []string{ends + "after=10s undecided=3"}, lines())
		ask(time.Hour, nil)
		require.Equal(t, []string{nothing}, lines())
		ask(0, down)
		require.Equal(t, []string{begins}, lines())
		ask(quiet, nil)
		require.Equal(t, []string{ends + "after=0s undecided=1"}, lines())
	})
}

// Requests that are wrong get a line a minute, and end no outage.
func TestWrongRequestsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := logged(t)
		limit := limiter.Limit{}
		p := New("test", limiter.NewLocal(), "login", func(string) limiter.Limit { return limit }, callerOf)
		const msg = `level=ERROR msg="rate limits cannot be decided: the limit, the cost or the key is not valid" ` +
			"policy=login "
		for _, c := range []struct {
			after time.Duration
			count string
		}{{0, " requests=1"}, {0, ""}, {again - 1, ""}, {1, " requests=3"}, {again - 1, ""}, {time.Hour, " requests=2"}} {
			time.Sleep(c.after)
			_, err := p.Check(t.Context(), "key")
			require.ErrorIs(t, err, limiter.ErrInvalid)
			got := lines()
			require.Len(t, got, 1)
			require.Equal(t, c.count != "", strings.HasPrefix(got[0], msg), "%q", got)
			require.True(t, strings.HasSuffix(got[0], c.count), "%q", got)
		}
	})
}

// A caller who leaves is no outage.
func TestCallersWhoLeaveAreNotLogged(t *testing.T) {
	lines := logged(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	p := New("test", limiter.NewLocal(), "login", limiter.PerSecond(1), callerOf)
	_, err := p.Check(ctx, "key")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{""}, lines())
}
