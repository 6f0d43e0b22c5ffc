package examples_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// Of 20 replies at one instant 15 are allowed, and 5 limited for 2 seconds; also the
// second time.
func TestReplies(t *testing.T) {
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

// Without the module the clock cannot be stopped: at least 15 are allowed, and a limited
// one need not wait longer than one token takes to leak.
func TestRepliesThroughTheScript(t *testing.T) {
	output, err := start(t, "replies", servertest.Start(t, servertest.Options{})).wait(t)
	require.NoError(t, err)
	limited := regexp.MustCompile(`limited, try again in (.+)`).FindAllStringSubmatch(output, -1)
	require.GreaterOrEqual(t, strings.Count(output, ": allowed"), 15)
	require.Equal(t, 20, strings.Count(output, ": allowed")+len(limited))
	for _, match := range limited {
		wait, err := time.ParseDuration(match[1])
		require.NoError(t, err)
		require.Positive(t, wait)
		require.LessOrEqual(t, wait, 2*time.Second)
	}
}

func TestRepliesWithoutRedis(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	server.Kill()
	p := start(t, "replies", server)
	_, err := p.wait(t)
	require.Error(t, err)
	require.Contains(t, printed(t, p.stderr), "connection refused")
}
