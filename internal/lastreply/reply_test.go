// A reply limits calls for as long as Redis certainly would, and no longer than 5 seconds.

package lastreply_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/lastreply"
	"funnel/limiter"
)

func TestReply(t *testing.T) {
	const sent, ms = time.Second, time.Millisecond
	limit, hourly := limiter.Every(100*ms).Burst(10), limiter.Every(time.Hour).Burst(10)
	less := limiter.Result{Quantity: 2, Allowed: 1, ResetAfter: 950 * ms} // 50 ms more until a token fits
	all := limiter.Result{Quantity: 1, Allowed: 1, ResetAfter: 950 * ms}
	for i, c := range []struct {
		result   limiter.Result
		limit    limiter.Limit
		d        time.Duration
		shared   bool
		after    time.Duration
		quantity int
		limited  time.Duration
	}{
		{less, limit, time.Hour, false, 0, 1, 50 * ms},
		{less, limit, time.Hour, false, 0, 10, 950 * ms},
		{less, limit, time.Hour, false, 40 * ms, 1, 10 * ms},
		{less, limit, time.Hour, true, 40 * ms, 1, 460 * ms}, // half of the capacity leaks in 500 ms
		{less, limit, 200 * ms, true, 40 * ms, 1, 160 * ms},
		{less, limit, 200 * ms, true, 40 * ms, 10, 910 * ms},
		{less, hourly, time.Hour, true, 0, 1, 5 * time.Second},
		{less, limit, time.Hour, true, 500 * ms, 1, 0},
		{all, limit, time.Hour, true, 0, 10, 0},
		{all, limit, 0, false, 0, 10, 950 * ms},
	} {
		reply := lastreply.New(c.result, c.limit, c.limit.Period, sent)
		require.LessOrEqual(t, reply.LimitedFor(sent, 10), time.Duration(0))
		reply.LimitOthers(c.d, c.shared)
		require.Equal(t, c.limited, max(0, reply.LimitedFor(sent+c.after, c.quantity)), i)
		require.Equal(t, 950*ms-c.after, reply.ResetAfterAt(sent+c.after))
		reply.LimitNone()
		require.LessOrEqual(t, reply.LimitedFor(sent, 10), time.Duration(0))
		require.Zero(t, reply.ResetAfterAt(sent+time.Hour))
	}
}
