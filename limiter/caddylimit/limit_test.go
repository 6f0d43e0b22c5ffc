package caddylimit

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestLimits(t *testing.T) {
	minute := caddy.Duration(time.Minute)
	for _, c := range []struct {
		policy Policy
		limit  limiter.Limit
	}{
		{Policy{Rate: &Rate{30, minute}}, limiter.PerMinute(30)},
		{Policy{Rate: &Rate{30, minute}, Capacity: 15}, limiter.PerMinute(30).WithCapacity(15)},
		{Policy{AtMost: &Within{5, minute}}, limiter.AtMost(5, time.Minute, 3)},
		{Policy{AtMost: &Within{1, minute}}, limiter.AtMost(1, time.Minute, 1)},
		{Policy{AtMost: &Within{5, minute}, Capacity: 1}, limiter.AtMost(5, time.Minute, 1)},
		{Policy{Window: &Within{5, minute}}, limiter.Window(5, time.Minute)},
		{Policy{Quota: &Quota{Max: 5, Period: "day"}}, limiter.Daily(5, time.UTC)},
		{Policy{Quota: &Quota{Max: 5, Period: "year"}}, limiter.Yearly(5, time.UTC)},
	} {
		got, err := c.policy.limited()
		require.NoError(t, err)
		require.Equal(t, limited{limit: c.limit}, got, c.limit.String())
	}
	slots, err := (&Policy{Slots: &Slots{Max: 3}}).limited()
	require.NoError(t, err)
	require.Equal(t, limited{slots: limiter.Slots{Max: 3, TTL: 30 * time.Second}}, slots)
}
