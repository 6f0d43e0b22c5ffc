package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// RefusedUnload is the error of MODULE UNLOAD. Servers free the commands of a module
// while clients may still point at them, and crash, so the module refuses.
const RefusedUnload = "ERR Error unloading module: operation not possible."

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

// A build is one way to build the module, done at most once per test binary.
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
	b.once.Do(func() {
		if b.result = os.Getenv(b.variable); b.result == "" {
			b.result, b.err = b.make()
		}
	})
	if b.err != nil {
		t.Fatalf("cannot build %s: %v", b.name, b.err)
	}
	return b.result
}

// make builds into the folder build at the top of this project, as build.sh does. Test binaries of
// several packages may build at once: the last one to end serves all.
func (b *build) make() (path string, err error) {
	// Not the go.mod of the tests, which are a module of their own.
	top, err := exec.Command("go", "list", "-f", "{{.Module.Dir}}", "funnel/cmd/funnel").Output()
	if err != nil {
		return "", err
	}
	const script = `. scripts/common.sh; . scripts/compile.sh; need_compilers; compile "$@"`
	path = filepath.Join(strings.TrimSpace(string(top)), "build", b.name)
	command := exec.Command("bash", "-euc", script, "servertest", path, "-tags", b.tags)
	command.Dir = strings.TrimSpace(string(top))
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, output)
	}
	return path, nil
}
