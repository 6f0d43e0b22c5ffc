package local

import (
	"slices"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/quota"
)

// ahead returns the time by which the wall clock is ahead of now, in whole milliseconds, because
// keys expire in milliseconds. It changes if the wall clock is set, or if the machine has slept.
// Calls without a quota do not need it, and get 0.
func (r *Rows) ahead(c *backend.Call, now int64) time.Duration {
	if !slices.ContainsFunc(c.Rows, func(row backend.AskedRow) bool { return row.Kind == call.Quota }) {
		return 0
	}
	return time.Duration(r.wall().UnixNano() - now).Truncate(time.Millisecond)
}

// later returns the state of a quota with the expiry by a clock that is ahead.
func later(state quota.State, ahead time.Duration) quota.State {
	if state.Expiry > 0 {
		state.Expiry += ahead.Milliseconds()
	}
	return state
}
