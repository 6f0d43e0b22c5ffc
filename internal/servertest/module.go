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

// Module returns the path of funnel.so.
func Module(t testing.TB) string {
	t.Helper()
	return pathOf(t, release)
}

// DebugModule returns the path of funnel.so with FUNNEL.DEBUG.
func DebugModule(t testing.TB) string {
	t.Helper()
	return pathOf(t, debug)
}

// Each of these builds the module at most once per test binary, unless the variable names a module.
var (
	release = sync.OnceValues(func() (string, error) { return build("FUNNEL_MODULE", "funnel.so") })
	debug   = sync.OnceValues(func() (string, error) {
		return build("FUNNEL_DEBUG_MODULE", "funnel-debug.so", "-tags", "funneldebug")
	})
)

// CompileModule compiles another module, from one file of C, and returns its path.
func CompileModule(t testing.TB, source string, flags ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "compiled.so")
	compiler, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	line := append(strings.Fields(string(compiler)), "-shared", "-fPIC", "-o", path, source)
	output, err := exec.Command(line[0], append(line[1:], flags...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return path
}

func pathOf(t testing.TB, module func() (path string, err error)) string {
	t.Helper()
	path, err := module()
	if err != nil {
		t.Fatalf("cannot build the module: %v", err)
	}
	return path
}

// build builds into the folder build at the top of this project, as build.sh does. Test binaries of
// several packages may build at once: the last build to end serves all of them.
func build(variable, name string, flags ...string) (path string, err error) {
	path = os.Getenv(variable)
	if path != "" {
		return path, nil
	}
	// Not the go.mod of the tests, which are a module of their own.
	top, err := exec.Command("go", "list", "-f", "{{.Module.Dir}}", "funnel/cmd/funnel").Output()
	if err != nil {
		return "", err
	}
	const script = `. scripts/common.sh; . scripts/compile.sh; need_compilers; compile "$@"`
	path = filepath.Join(strings.TrimSpace(string(top)), "build", name)
	command := exec.Command("bash", append([]string{"-euc", script, "servertest", path}, flags...)...)
	command.Dir = strings.TrimSpace(string(top))
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, output)
	}
	return path, nil
}
