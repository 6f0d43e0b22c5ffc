package policy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

func TestStatusOf(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancelLate()
	wrong := fmt.Errorf("key %q: %w", "api", limiter.ErrInvalid)
	for name, c := range map[string]struct {
		ctx    context.Context
		err    error
		status int
	}{
		"Redis does not decide":          {t.Context(), limiter.ErrUnavailable, 503},
		"the deadline has passed":        {late, context.DeadlineExceeded, 503},
		"the call is wrong":              {t.Context(), wrong, 500},
		"the client has gone":            {canceled, context.Canceled, 499},
		"it has gone, for its own cause": {canceled, errors.New("the server shuts down"), 499},
		"it has gone, and was wrong":     {canceled, wrong, 499},
	} {
		require.Equal(t, c.status, StatusOf(c.ctx, c.err), name)
	}
}
