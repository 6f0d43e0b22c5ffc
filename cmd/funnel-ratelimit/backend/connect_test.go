package backend

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// Connect fails for a user who cannot log in, or who may not run the commands. It succeeds for a
// user who may only use other keys, and while Redis is down. It ends when its context is done.
func TestConnect(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	for _, user := range []string{
		"app on >secret ~shop:* +cl.peek", "powerless on >secret ~*", "scripts on >secret ~* +evalsha_ro +eval_ro",
	} {
		require.NoError(t, server.Client(t).Do(t.Context(), servertest.Words("acl setuser "+user)...).Err())
	}
	for auth, refusal := range map[string]string{
		"": "", "app:secret": "", "scripts:secret": "",
		"app:wrong": "WRONGPASS", "nobody:secret": "WRONGPASS", "powerless:secret": "NOPERM",
	} {
		err := newTested(t, server.Addr(), "REDIS_AUTH="+auth).Connect(t.Context())
		if refusal == "" {
			require.NoError(t, err, auth)
		} else {
			require.ErrorContains(t, err, "is refused by Redis: ", auth)
			require.ErrorContains(t, err, refusal, auth)
		}
	}
	server.Kill()
	require.NoError(t, newTested(t, server.Addr(), "FUNNEL_DIAL_TIMEOUT=10ms").Connect(t.Context()))
	stopping, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	require.ErrorIs(t, newTested(t, server.Addr(), "FUNNEL_DIAL_TIMEOUT=1h").Connect(stopping), context.DeadlineExceeded)
}
