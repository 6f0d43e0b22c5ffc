package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArguments: what is no call of Go's linker for a shared library is passed on, or an error
// that says why.
func TestArguments(t *testing.T) {
	folder := t.TempDir()
	goObject := filepath.Join(folder, "go.o")
	must(t, os.WriteFile(goObject, []byte("no object"), 0o644))
	response := filepath.Join(folder, "response")
	must(t, os.WriteFile(response, []byte("\"-shared\"\n\"with a space\"\n"), 0o644))
	broken := filepath.Join(folder, "broken")
	must(t, os.WriteFile(broken, []byte("-shared\n"), 0o644))
	for _, c := range []struct {
		name, cc string
		args     []string
		says     string // empty: no error
	}{
		{"a trial of an option", "true", []string{"-Wl,-z,relro", "/tmp/x/trivial.c"}, ""},
		{"a question for the version", "true", []string{"-Wl,--version"}, ""},
		{"a question for a program", "true", []string{"--print-prog-name", "strip"}, ""},
		{"a trial that fails", "false", []string{"trivial.c"}, "the C compiler, false, failed: exit status 1"},
		{"options in CC", "sh -c 'exit 3'", []string{"trivial.c"}, "the C compiler, sh -c 'exit 3', failed: exit status 3"},
		{"a program", "true", []string{"-o", "a.out", "main.o"}, `there is no go.o among ["-o" "a.out" "main.o"]`},
		{"arguments in a file", "true", []string{"@" + response}, `there is no go.o among ["-shared" "with a space"]`},
		{"a file without quotes", "true", []string{"@" + broken}, "invalid syntax"},
		{"a file that is missing", "true", []string{"@" + broken + "x"}, "no such file"},
		{"no object that calls Go", "true", []string{"-shared", goObject}, "no object of C calls a function of funnel/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("CC", c.cc)
			err := link(c.args)
			switch {
			case err == nil && c.says != "":
				t.Fatalf("no error, which should say %q", c.says)
			case err != nil && (c.says == "" || !strings.Contains(err.Error(), c.says)):
				t.Fatalf("the error %q does not say %q", err, c.says)
			}
		})
	}
}

// TestGoLacksWhatCCalls: a function that C calls and main does not name is an error.
func TestGoLacksWhatCCalls(t *testing.T) {
	main, err := os.ReadFile("../funnel/main.go")
	must(t, err)
	_, printed, err := build(t, "amd64", map[string]string{
		"cmd/funnel/main.go": strings.Replace(string(main), "\tcommand.Decide(nil)\n", "", 1)})
	if err == nil || !strings.Contains(printed, "go.o lacks funnel/module/command.Decide, which C calls: main must name it") {
		t.Fatalf("%v\n%s", err, printed)
	}
}

// TestInstructions: what matters of code that the compiler seldom writes.
func TestInstructions(t *testing.T) {
	for _, c := range []struct {
		name     string
		decode   func([]byte, func(from, to int) bool, bool) []instruction
		code     string
		hasTable bool
		found    []instruction
	}{
		{"amd64 nothing", amd64, "\x90\xc3", false, nil},
		{"amd64 call back", amd64, "\x90\xe8\x00\xff\xff\xff", false, []instruction{{2, "", -250, plt}}},
		{"amd64 jump, 4 bytes", amd64, "\xe9\x00\x01\x00\x00", false, []instruction{{1, "", 261, plt}}},
		{"amd64 jump, 1 byte", amd64, "\xeb\x7f", false, []instruction{{1, "", 129, 0}}},
		{"amd64 conditional jump", amd64, "\x0f\x84\x00\x01\x00\x00", false, []instruction{{2, "", 262, plt}}},
		{"amd64 call of a register", amd64, "\x90\xff\xd0", false, []instruction{{1, throughPointer, 0, 0}}},
		{"amd64 call of a variable", amd64, "\xff\x15\x00\x00\x00\x00", false, []instruction{{0, throughPointer, 0, 0}}},
		{"amd64 jump to a register", amd64, "\xff\xe0", false, []instruction{{0, throughPointer, 0, 0}}},
		{"amd64 jump by a table", amd64, "\xff\xe0", true, nil},
		{"amd64 address", amd64, "\x48\x8d\x05\x10\x00\x00\x00", false, []instruction{{0, takesAddress, 0, 0}}},
		{"amd64 system call", amd64, "\x0f\x05", false, []instruction{{0, entersKernel, 0, 0}}},
		{"amd64 interrupt", amd64, "\xcd\x80", false, []instruction{{0, entersKernel, 0, 0}}},
		{"amd64 breakpoint", amd64, "\xcc", false, nil},
		{"amd64 unknown", amd64, "\x90\x06", false, []instruction{{1, isUnknown, 0, 0}}},
		{"arm64 nothing", arm64, "\x1f\x20\x03\xd5\xc0\x03\x5f\xd6", false, nil},
		{"arm64 BL back", arm64, "\xff\xff\xff\x97", false, []instruction{{0, "", -4, call}}},
		{"arm64 B", arm64, "\x02\x00\x00\x14", false, []instruction{{0, "", 8, jump}}},
		{"arm64 B.EQ back", arm64, "\xe0\xff\xff\x54", false, []instruction{{0, "", -4, 0}}},
		{"arm64 CBNZ", arm64, "\x40\x00\x00\xb5", false, []instruction{{0, "", 8, 0}}},
		{"arm64 TBZ back", arm64, "\xe0\xff\x07\x36", false, []instruction{{0, "", -4, 0}}},
		{"arm64 ADRP", arm64, "\x00\x00\x00\x90", false, []instruction{{0, takesAddress, 0, 0}}},
		{"arm64 LDR of a constant", arm64, "\x40\x00\x00\x58", false, []instruction{{0, takesAddress, 0, 0}}},
		{"arm64 BLR", arm64, "\x00\x00\x3f\xd6", false, []instruction{{0, throughPointer, 0, 0}}},
		{"arm64 BR", arm64, "\x00\x00\x1f\xd6", false, []instruction{{0, throughPointer, 0, 0}}},
		{"arm64 BR by a table", arm64, "\x00\x00\x1f\xd6", true, nil},
		{"arm64 SVC", arm64, "\x01\x00\x00\xd4", false, []instruction{{0, entersKernel, 0, 0}}},
		{"arm64 BRK", arm64, "\x00\x00\x20\xd4", false, nil},
	} {
		found := c.decode([]byte(c.code), func(int, int) bool { return false }, c.hasTable)
		if !slices.Equal(found, c.found) {
			t.Errorf("%s: found %+v, not %+v", c.name, found, c.found)
		}
		if relocated := c.decode([]byte(c.code), func(int, int) bool { return true }, c.hasTable); c.found != nil &&
			c.found[0].wrong != isUnknown && c.found[0].wrong != throughPointer && c.found[0].wrong != entersKernel && relocated != nil {
			t.Errorf("%s, with a relocation: found %+v", c.name, relocated)
		}
	}
}
