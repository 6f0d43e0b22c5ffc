package local

import (
	"slices"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/quota"
)

// ahead is by how much the wall clock is ahead of the rows' instants, in whole milliseconds, as keys expire. It changes
// if the wall clock is set, or if the machine has slept. Without a quota in the call nobody asks for it.
func (r *Rows) ahead(c *backend.Call, now int64) time.Duration {
	if !slices.ContainsFunc(c.Rows, func(row backend.Row) bool { return row.Kind == call.Quota }) {
		return 0
	}
	return time.Duration(r.wall().UnixNano() - now).Truncate(time.Millisecond)
}

// later returns the state of a quota by a clock that is ahead.
func later(state quota.State, ahead time.Duration) quota.State {
	if state.Expiry > 0 {
		state.Expiry += ahead.Milliseconds()
	}
	return state
}
