package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestEntry: if the entry into Go is wrong, the module is not built, or a server does not load it.
func TestEntry(t *testing.T) {
	needsLong(t)
	const entry, decide = "module/enter_amd64.S", "enter go_decide,"
	for _, c := range []struct{ file, old, changed, says string }{
		{entry, "    xorps %xmm15, %xmm15\n", "", "mixes up registers"},
		{entry, "    pop %r15\n", "    pop %rax\n", "mixes up registers"},
		{entry, decide, "enter go_other, runtime.GC\n" + decide, "go.o lacks runtime.GC, which C calls"},
		{entry, decide, "enter go_other, main.main\n" + decide, "go.o lacks main.main, which C calls"},
		{"cmd/funnel/main.go", "\tcommand.Decide(nil)\n", "", "go.o lacks funnel/module/command.Decide, which C calls"},
	} {
		path, printed, err := build(t, map[string]string{c.file: strings.Replace(source(t, c.file), c.old, c.changed, 1)})
		if err == nil {
			requireRefused(t, path, c.says)
		} else if !strings.Contains(printed, c.says) {
			t.Errorf("%q instead of %q: nothing says %q in\n%s", c.changed, c.old, c.says, printed)
		}
	}
}

// TestSignatures: C calls Parse and Decide with one pointer. If one of them takes more, the module
// does not compile, even if package main follows. It would build and load, and crash the server at
// the first command.
func TestSignatures(t *testing.T) {
	needsLong(t)
	const commands, program = "module/command/command.go", "cmd/funnel/main.go"
	for _, name := range []string{"Parse", "Decide"} {
		_, printed, err := build(t, map[string]string{
			commands: strings.Replace(source(t, commands), "func "+name+"(c *Call)", "func "+name+"(c *Call, more int)", 1),
			program:  strings.Replace(source(t, program), name+"(nil)", name+"(nil, 0)", 1),
		})
		if err == nil || !strings.Contains(printed, "layout.go:") || !strings.Contains(printed, "command."+name) {
			t.Errorf("%s with a second argument: err is %v, and the build prints\n%s", name, err, printed)
		}
	}
}

// requireRefused requires that a server does not load a file, and says why.
func requireRefused(t *testing.T, path, says string) {
	t.Helper()
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Log(err)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a server that loads the file goes on
	defer cancel()
	arguments := []string{"--port", "0", "--unixsocket", path + "-socket", "--loadmodule", path}
	output, _ := exec.CommandContext(ctx, server, arguments...).CombinedOutput()
	if !strings.Contains(string(output), says) {
		t.Errorf("the server does not say %q, but\n%s", says, output)
	}
}

// TestArguments: funnel-link expects the arguments with which Go's linker links a shared library.
// It passes any others on to the C compiler, or says what is wrong.
func TestArguments(t *testing.T) {
	for _, c := range []struct{ cc, args, says string }{
		{"true", "-Wl,-z,relro /tmp/x/trivial.c", "<nil>"},
		{"true", "--print-prog-name strip", "<nil>"},
		{"sh -c 'exit 3'", "trivial.c", "the C compiler, sh -c 'exit 3', failed: exit status 3"},
		{"true", "-o a.out main.o", `there is no go.o among ["-o" "a.out" "main.o"]`},
		{"true", "-shared go.o", "no object of C calls a function of funnel/"},
	} {
		t.Setenv("CC", c.cc)
		says := "<nil>"
		err := link(strings.Fields(c.args))
		if err != nil {
			says = err.Error()
		}
		if !strings.Contains(says, c.says) {
			t.Errorf("CC=%q, %s: the error is %q, not %q", c.cc, c.args, says, c.says)
		}
	}
}

// TestInstructions: the decoders know instructions that Go's compiler seldom writes.
func TestInstructions(t *testing.T) {
	for code, found := range map[string]instruction{
		"\x90\xe8\x00\xff\xff\xff": {2, "", -250, plt}, // a call
		"\xeb\x7f":                 {1, "", 129, 0},    // a jump of one byte
		"\xff\x15\x00\x00\x00\x00": {0, throughPointer, 0, 0},
		"\x0f\x05":                 {0, entersKernel, 0, 0},
		"\xcd\x80":                 {0, entersKernel, 0, 0},
		"\x90\x06":                 {1, isUnknown, 0, 0},
		"\xff\xff\xff\x97":         {0, "", -4, call}, // BL; instructions of 4 bytes are arm64's
		"\xe0\xff\xff\x54":         {0, "", -4, 0},    // B.EQ
		"\x40\x00\x00\xb5":         {0, "", 8, 0},     // CBNZ
		"\xe0\xff\x07\x36":         {0, "", -4, 0},    // TBZ
		"\x40\x00\x00\x58":         {0, takesAddress, 0, 0},
		"\x01\x00\x00\xd4":         {0, entersKernel, 0, 0}, // SVC
		"\xe2\xff\x1f\xd4":         {0, entersKernel, 0, 0}, // HVC
		"\x03\x00\x00\xd4":         {0, entersKernel, 0, 0}, // SMC
	} {
		decode := amd64
		if len(code) == 4 {
			decode = arm64
		}
		got := decode([]byte(code), func(int, int) bool { return false }, false)
		if len(got) != 1 || got[0] != found {
			t.Errorf("%x: found %+v, not %+v", code, got, found)
		}
	}
}
