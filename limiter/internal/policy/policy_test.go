package policy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

func TestKeys(t *testing.T) {
	require.Equal(t, `a\:b\{c:192.0.2.1`, Key("a:b{c", "192.0.2.1"))
	funnel, slots := SlotsKeys("login", "192.0.2.1")
	require.Equal(t, []string{"{login:192.0.2.1}", "{login:192.0.2.1}:slots"}, []string{funnel, slots})
}

// A slot goes back in the background. If Redis does not decide, it is asked again each tenth of the TTL, until the TTL
// is over.
func TestReleaseGoesOnUntilItIsDecided(t *testing.T) {
	const ttl = 10 * time.Second
	for name, c := range map[string]struct {
		failures int // of the calls that give the slot back
		failure  error
		asked    int
		took     time.Duration
	}{
		"answered at once":       {0, nil, 1, 0},
		"answered after a stall": {3, errors.New("no answer"), 4, 3 * time.Second},
		"never answered":         {1000, errors.New("no answer"), 11, ttl},
		"a server that loads":    {3, servertest.ErrorReply("LOADING"), 4, 3 * time.Second},
		"a key of another type":  {1000, servertest.ErrorReply("WRONGTYPE"), 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked, last := 0, time.Time{}
			l := limiter.New(client(func(command *redis.Cmd) error {
				held := "0"
				if command.Name() == "cl.refund" {
					asked, last, held = asked+1, time.Now(), "5"
					if asked <= c.failures {
						return c.failure
					}
				}
				rows := []any{
					[]any{int64(0), int64(1), int64(0), "0", "5", held},
					[]any{int64(0), int64(1), int64(0), "0", "5", "41"},
				}
				command.SetVal([]any{int64(0), "0", rows[:len(command.Args())/5]})
				return nil
			}))
			p := New("test", "name", l, limiter.PerSecond(1), &limiter.Slots{Max: 1, TTL: ttl}, nil)
			d, err := p.Check(t.Context(), "key", limiter.Limit{}, 1, nil)
			require.NoError(t, err, name)
			_, _, limited := d.Limiting()
			require.False(t, limited, name)
			ctx, end := d.Begin(t.Context())
			require.NoError(t, ctx.Err(), name)
			began := time.Now()
			end()
			require.Equal(t, began, time.Now(), "%s: the answer waits", name)
			time.Sleep(2 * ttl)
			synctest.Wait()
			require.Equal(t, c.asked, asked, name)
			require.Equal(t, c.took, last.Sub(began), name)
		})
	}
}

// A client answers commands by a function.
type client func(command *redis.Cmd) error

func (f client) Process(_ context.Context, command redis.Cmder) error { return f(command.(*redis.Cmd)) }
