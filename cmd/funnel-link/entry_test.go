package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEntry: a module whose entry into Go is wrong is not built, or its server does not start.
func TestEntry(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(top(t), "module/enter_amd64.S"))
	must(t, err)
	for _, c := range []struct{ name, old, changed, says string }{
		{"register that is not 0", "    xorps %xmm15, %xmm15\n", "", "mixes up registers"},
		{"register rbx", "    pop %rbx\n", "    pop %rax\n", "mixes up registers"},
		{"register r14", "    pop %r14\n", "    pop %rax\n", "mixes up registers"},
		{"register r15", "    pop %r15\n", "    pop %rax\n", "mixes up registers"},
		{"function of the runtime", "enter go_decide,", "enter go_other, runtime.GC\nenter go_decide,", "go.o lacks runtime.GC"},
		{"function of main", "enter go_decide,", "enter go_other, main.main\nenter go_decide,", "go.o lacks main.main"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(string(source), c.old, c.changed, 1)
			if changed == string(source) {
				t.Fatalf("module/enter_amd64.S lacks %q", c.old)
			}
			path, printed, err := build(t, "amd64", map[string]string{"module/enter_amd64.S": changed})
			if err == nil {
				server, err := exec.LookPath("redis-server")
				if err != nil {
					t.Skip("redis-server is not installed")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a server that starts goes on
				defer cancel()
				output, _ := exec.CommandContext(ctx, server, "--port", "0", "--unixsocket", "socket", "--save", "",
					"--dir", t.TempDir(), "--loadmodule", path).CombinedOutput()
				printed = string(output)
			}
			if !strings.Contains(printed, c.says) {
				t.Fatalf("nothing says %q in\n%s", c.says, printed)
			}
		})
	}
}
