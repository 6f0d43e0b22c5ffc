package page

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// Clone copies the repository at top into a folder that is named funnel, and returns that folder.
// The copy is like a new clone, without .git.
func Clone(t testing.TB, top string) string {
	t.Helper()
	entries, err := os.ReadDir(top)
	require.NoError(t, err)
	folder := filepath.Join(t.TempDir(), "funnel")
	require.NoError(t, os.Mkdir(folder, 0o755))
	for _, entry := range entries {
		if !slices.Contains([]string{".git", "build", "dist", "funnel.so"}, entry.Name()) {
			output, err := exec.Command("cp", "-R", filepath.Join(top, entry.Name()), folder).CombinedOutput()
			require.NoError(t, err, "%s", output)
		}
	}
	return folder
}

// Shell runs lines of a page in a folder, and returns what they print. sudo changes nothing, and
// redis-cli asks the server at the port.
func Shell(t testing.TB, folder string, port int, lines string) string {
	t.Helper()
	const functions = "sudo() { \"$@\"; }; redis-cli() { command redis-cli -p %d \"$@\"; }\n%s"
	command := exec.Command("bash", "-ec", fmt.Sprintf(functions, port, lines))
	command.Dir = folder
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", lines, output)
	return string(output)
}

// NeedRedisCLI skips a test whose lines call redis-cli, if that is not installed.
func NeedRedisCLI(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("needs redis-cli: ", err)
	}
}

// WithModule are the options of a server whose configuration has this loadmodule line.
func WithModule(t testing.TB, line string) servertest.Options {
	t.Helper()
	words := strings.Fields(line)
	require.Equal(t, "loadmodule", words[0])
	return servertest.Options{Module: words[1], ModuleArguments: words[2:]}
}
