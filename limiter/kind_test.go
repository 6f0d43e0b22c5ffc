package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestKindAndWithin(t *testing.T) {
	for _, c := range []struct {
		limit  limiter.Limit
		kind   string
		within time.Duration
	}{
		{limit: limiter.Limit{}, kind: "rate"},
		{limit: limiter.PerMinute(30), kind: "rate"},
		{limit: limiter.AtMost(5, 15*time.Minute, 3), kind: "rate", within: 15 * time.Minute},
		{limit: limiter.Daily(5, time.UTC), kind: "quota"},
		{limit: limiter.Monthly(5, time.UTC).From(31), kind: "quota"},
		{limit: limiter.Until(5, time.Unix(1, 0)), kind: "quota"},
		{limit: limiter.Window(5, time.Hour), kind: "window", within: time.Hour},
	} {
		require.Equal(t, c.kind, c.limit.Kind(), "%v", c.limit)
		require.Equal(t, c.within, c.limit.Within(), "%v", c.limit)
	}
}
