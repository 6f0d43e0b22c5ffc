package window_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter/textbook/window"
)

// TestBytesPerAction measures what the package comment says about memory.
func TestBytesPerAction(t *testing.T) {
	ctx := context.Background()
	client, watch := connect(t), &watch{start}
	windows := window.New(client, watch.now)
	for _, test := range []struct{ count, least, most int }{{100, 20, 35}, {10_000, 90, 140}} {
		user := strconv.Itoa(test.count)
		for range test.count {
			watch.Time = watch.Add(time.Millisecond)
			allowed, err := windows.IsActionAllowed(ctx, user, "reply", time.Hour, test.count)
			require.NoError(t, err)
			require.True(t, allowed)
		}
		bytes, err := client.MemoryUsage(ctx, window.Key(user, "reply"), 0).Result()
		require.NoError(t, err)
		perAction := int(bytes) / test.count
		t.Logf("%d actions: %d bytes each", test.count, perAction)
		require.True(t, perAction >= test.least && perAction <= test.most)
	}
}
