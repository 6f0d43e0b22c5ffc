package caddylimit

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs that import package limiter inherit nothing of Caddy: its module does not require it.
func TestImportersOfLimiterInheritNoCaddy(t *testing.T) {
	output, err := exec.Command("go", "-C", "../..", "list", "-m", "all").Output()
	require.NoError(t, err)
	require.Contains(t, string(output), "github.com/redis/go-redis/v9 ")
	for _, module := range []string{"caddyserver", "prometheus", "zap"} {
		require.NotContains(t, string(output), module)
	}
	output, err = exec.Command("go", "list", "-m", "-f", "{{.Path}}", "all").Output()
	require.NoError(t, err)
	require.Contains(t, strings.Fields(string(output)), "github.com/caddyserver/caddy/v2", "the module of this package does")
}
