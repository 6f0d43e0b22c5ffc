package servertest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Epoch is an instant to set the clock to. It is ahead of the real clock, by which the server
// expires keys: funnels do not expire during a test.
var Epoch = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// StartWithClock starts a server whose module takes its time from the test. The clock stands at
// [Epoch].
func StartWithClock(t testing.TB) (*redis.Client, Clock) {
	t.Helper()
	server := Start(t, Options{Module: DebugModule(t)})
	client := server.Client(t)
	clock := ClockOf(client)
	clock.Set(t, Epoch)
	return client, clock
}

// ClockOf is the clock of a server that runs a debug module.
func ClockOf(client *redis.Client) Clock { return Clock{client} }

// A Clock sets the time that the commands see.
type Clock struct{ client *redis.Client }

// Set sets the clock, which then stands still.
func (c Clock) Set(t testing.TB, now time.Time) {
	t.Helper()
	got, err := c.client.Do(context.Background(), "funnel.debug", "clock", now.UnixNano()).Int64()
	require.NoError(t, err)
	require.Equal(t, now.UnixNano(), got)
}
