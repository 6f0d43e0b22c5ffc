// A reply rejects calls for as long as Redis certainly would, and no longer than 5 seconds.

package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestReplyRejects(t *testing.T) {
	const sent, ms = time.Second, time.Millisecond
	perTenth := limiter.Every(100 * ms).WithCapacity(10)
	hourly := limiter.Every(time.Hour).WithCapacity(10)
	// The funnel drains in 950 ms: 50 ms from now it holds 9 tokens, and one more fits.
	gotLess := limiter.Result{Quantity: 2, Allowed: 1, ResetAfter: 950 * ms}
	full := limiter.Result{Quantity: 2, ResetAfter: 10 * time.Hour}
	gotAll := limiter.Result{Quantity: 1, Allowed: 1, ResetAfter: 950 * ms}
	for _, c := range []struct {
		name     string
		reply    limiter.Result
		limit    limiter.Limit
		d        time.Duration
		shared   bool
		after    time.Duration // when a call comes, from when the replied call was sent
		quantity int
		want     time.Duration
	}{
		{"one token does not fit yet", gotLess, perTenth, time.Hour, false, 0, 1, 50 * ms},
		{"it fits earlier by the time that has passed", gotLess, perTenth, time.Hour, false, 40 * ms, 1, 10 * ms},
		{"ten tokens need an empty funnel", gotLess, perTenth, time.Hour, false, 0, 10, 950 * ms},
		{"no longer than 5 s", full, hourly, time.Hour, false, 5 * time.Second, 10, 0},
		{"shared: until half of the capacity has leaked", gotLess, perTenth, time.Hour, true, 40 * ms, 1, 460 * ms},
		{"shared: until d is over", gotLess, perTenth, 200 * ms, true, 40 * ms, 1, 160 * ms},
		{"shared: until the tokens fit, if that is later", gotLess, perTenth, 200 * ms, true, 40 * ms, 10, 910 * ms},
		{"shared: no longer than 5 s", gotLess, hourly, time.Hour, true, 0, 1, 5 * time.Second},
		{"shared: it is over", gotLess, perTenth, time.Hour, true, 500 * ms, 1, 0},
		{"a call that got all rejects nothing", gotAll, perTenth, time.Hour, true, 0, 10, 0},
		{"but with d of 0, what cannot fit", gotAll, perTenth, 0, false, 0, 10, 950 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply := newLastReply(c.reply, c.limit, c.limit.Period, sent)
			require.LessOrEqual(t, reply.rejectedFor(sent, 10), time.Duration(0), "not before rejectOthers")
			reply.rejectOthers(c.d, c.shared)
			require.Equal(t, c.want, max(0, reply.rejectedFor(sent+c.after, c.quantity)))
			reply.rejectNone()
			require.LessOrEqual(t, reply.rejectedFor(sent, 10), time.Duration(0), "not after rejectNone")
		})
	}
}
