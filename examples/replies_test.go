package examples_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// Of 20 replies at one instant 15 are allowed, and 5 limited for 2 seconds; also the
// second time.
func TestReplies(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for i := 1; i <= 20; i++ {
		if i <= 15 {
			fmt.Fprintf(&want, "reply %d: allowed, %d more at once, all 15 again in %ds\n", i, 15-i, 2*i)
		} else {
			fmt.Fprintf(&want, "reply %d: limited, try again in 2s\n", i)
		}
	}
	server := startAtOneInstant(t)
	for range 2 {
		output, err := start(t, "replies", server).wait(t)
		require.NoError(t, err)
		require.Equal(t, want.String(), output)
	}
}

func TestRepliesWithoutRedis(t *testing.T) {
	t.Parallel()
	p := start(t, "replies", &servertest.Server{Port: servertest.FreePort(t)})
	_, err := p.wait(t)
	require.Error(t, err)
	require.Contains(t, printed(t, p.stderr), "connection refused")
}
