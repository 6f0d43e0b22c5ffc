package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"funnel/internal/finish"
)

// Module returns the path of funnel.so.
func Module(t testing.TB) string {
	t.Helper()
	return release.path(t)
}

// DebugModule returns the path of funnel.so with FUNNEL.DEBUG.
func DebugModule(t testing.TB) string {
	t.Helper()
	return debug.path(t)
}

var (
	release = build{variable: "FUNNEL_MODULE", name: "funnel.so"}
	debug   = build{variable: "FUNNEL_DEBUG_MODULE", name: "funnel-debug.so", tags: "funneldebug"}
)

// A build is one way to build the module, done once per test binary at the most.
type build struct {
	variable string // names a ready-made module
	name     string
	tags     string

	once   sync.Once
	result string
	err    error
}

func (b *build) path(t testing.TB) string {
	t.Helper()
	b.once.Do(b.make)
	if b.err != nil {
		t.Fatalf("cannot build %s: %v\n%s", b.name, b.err, b.result)
	}
	return b.result
}

func (b *build) make() {
	if b.result = os.Getenv(b.variable); b.result != "" {
		return
	}
	folder, err := buildFolder()
	if err != nil {
		b.err = err
		return
	}
	// Test binaries of several packages may build at once: each builds under a
	// name of its own, and the last one to be finished serves all.
	path := filepath.Join(folder, b.name)
	draft := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(draft)
	command := exec.Command("go", "build", "-buildmode=c-shared", "-tags", b.tags, "-o", draft, "funnel/cmd/funnel")
	if output, err := command.CombinedOutput(); err != nil {
		b.result, b.err = string(output), err
		return
	}
	b.result, b.err = path, finish.File(draft, path, finish.Options{})
}

// buildFolder is the folder build at the top of this project.
func buildFolder() (string, error) {
	// Not the go.mod of the tests, which are a module of their own.
	top, err := exec.Command("go", "list", "-f", "{{.Module.Dir}}", "funnel/cmd/funnel").Output()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(strings.TrimSpace(string(top)), "build")
	return folder, os.MkdirAll(folder, 0o755)
}
