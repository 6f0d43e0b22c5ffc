package servertest

import (
	"fmt"
	"path/filepath"
	"testing"
)

// StartSentinel starts a Sentinel that watches a primary by a name. It does not wait until the
// Sentinel has found the replicas.
func StartSentinel(t testing.TB, primary *Server, name string) *Server {
	t.Helper()
	// A Sentinel reads what it watches from its file alone, and writes to that file.
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	script := fmt.Sprintf(`echo sentinel monitor %s 127.0.0.1 %d 1 >%[3]s; exec "$0" %[3]s "$@"`,
		name, primary.Port, config)
	return Start(t, Options{Wrapper: []string{"sh", "-c", script}, Config: []string{"--sentinel"}})
}
