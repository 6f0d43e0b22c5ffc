package policy

import (
	"context"
	"errors"
	"net/http"

	"funnel/limiter"
)

// StatusClientClosedRequest is the status that web servers log if the client has gone. Without a
// status, net/http would send 200 to a client that is still there, for instance if a server cancels
// its requests because it shuts down.
const StatusClientClosedRequest = 499

// StatusOf returns the status of HTTP for a request that was not decided. Ctx is the request's own:
// if it was canceled, the client has gone. The status is 500 if the call was wrong, since asking
// again does not help, and otherwise 503.
func StatusOf(ctx context.Context, err error) int {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return StatusClientClosedRequest
	case errors.Is(err, limiter.ErrInvalid):
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}
