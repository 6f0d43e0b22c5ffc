package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program, built as docs/caddy.md says, knows the handler, the app and the directive, beside
// Caddy's own modules.
func TestProgram(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "caddy")
	output, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", output)
	output, err = exec.Command(program, "list-modules").CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, module := range []string{"funnel", "http.handlers.funnel", "http.handlers.reverse_proxy"} {
		require.Contains(t, strings.Fields(string(output)), module)
	}

	file := filepath.Join(folder, "Caddyfile")
	const site = "{\n\tfunnel {\n\t\tredis localhost:1\n\t}\n}\n\n" +
		":80 {\n\tfunnel {\n\t\tpolicy api {\n\t\t\trate 100 1m\n\t\t}\n\t}\n\trespond ok\n}\n"
	require.NoError(t, os.WriteFile(file, []byte(site), 0o600))
	output, err = exec.Command(program, "validate", "--config", file).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "Valid configuration")
}
