package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestFile: every server and C library loads the file that was built, and no part of the Go runtime
// is in it. Without FUNNEL_LONG it is built once, for this machine.
func TestFile(t *testing.T) {
	ways := map[string][]string{
		"amd64":                        nil,
		"arm64":                        arm64Build,
		"optimized for size":           {"CGO_CFLAGS=-Os"},
		"optimized when it is linked":  {"CGO_CFLAGS=-O2 -flto"},
		"protected as by Ubuntu":       {"CGO_CFLAGS=-O2 -fstack-protector-all -fcf-protection=full -fstack-clash-protection"},
		"linked with careless options": {"CGO_LDFLAGS=-Wl,-z,undefs -Wl,-z,execstack"},
		"by clang":                     {"CC=clang"},
	}
	for name, environment := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != runtime.GOARCH {
				needsLong(t)
			}
			path, printed, err := build(t, nil, environment...)
			if err != nil {
				t.Fatalf("%v\n%s", err, printed)
			}
			problems := problemsOf(t, path)
			if problems != "" {
				t.Error(problems)
			}
		})
	}
}

// TestFileOfGCC: the checks of TestFile can fail, for a file that gcc has linked. It has the whole
// runtime, and no way from C into Go, so it does not load.
func TestFileOfGCC(t *testing.T) {
	path := filepath.Join(t.TempDir(), "funnel.so")
	command := exec.Command("go", "-C", "../..", "build", "-trimpath", "-buildmode=c-shared", "-o", path, "./cmd/funnel")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	problems := problemsOf(t, path)
	for _, expected := range []string{"executable", "bytes", "the symbol runtime.", "it imports ", "it exports",
		"PT_TLS", "DT_FLAGS_1", ".init_array", " of Go is in .noptrbss, which is writable"} {
		if !strings.Contains(problems, expected) {
			t.Errorf("no problem says %q, in\n%.2000s", expected, problems)
		}
	}
	must(t, os.Chmod(path, 0o755))
	requireRefused(t, path, "<funnel> funnel is not loaded: this file was not linked by funnel-link: build funnel.so with")
}

// inMusl are the functions of glibc that the file may import, because musl also has them. musl
// ignores versions, and answers to the name of glibc's library. The matrix has a server with musl.
var inMusl = strings.Fields(`__cxa_finalize __errno_location bcmp clock_gettime memchr memcmp memcpy memmove memset
	strcasecmp strcmp strlen`)

// problemsOf lists what is wrong with a module, a line for each problem.
func problemsOf(t *testing.T, path string) (problems string) {
	reject := func(is bool, format string, args ...any) {
		if is {
			problems += fmt.Sprintf(format+"\n", args...)
		}
	}
	info, err := os.Stat(path)
	must(t, err)
	file, err := elf.Open(path)
	must(t, err)
	defer file.Close()
	most := int64(200_000)
	if file.Machine == elf.EM_AARCH64 { // the second segment is aligned to a page of 64 kB
		most += 64 << 10
	}
	reject(info.Size() > most, "it has %d bytes, not at most %d: what is in it?", info.Size(), most)
	reject(info.Mode().Perm()&0o111 != 0o111, "its mode is %v: servers load executable files only", info.Mode())
	symbols, err := file.Symbols()
	must(t, err)
	foreign := regexp.MustCompile("(?i)runtime|cgo|pthread")
	for _, symbol := range symbols {
		reject(foreign.MatchString(symbol.Name), "it has the symbol %s", symbol.Name)
		if int(symbol.Section) >= len(file.Sections) || !strings.ContainsAny(symbol.Name, "/:") {
			continue // a symbol of C, or a number
		}
		section := file.Sections[symbol.Section] // the loader writes .data.rel.ro, and then protects it
		isWritable := section.Flags&elf.SHF_WRITE != 0 && section.Name != ".data.rel.ro"
		reject(isWritable, "%s of Go is in %s, which is writable", symbol.Name, section.Name)
	}
	protected := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_RELRO })
	reject(!protected, "it has no PT_GNU_RELRO: .data.rel.ro stays writable")
	dynamic, err := file.DynamicSymbols()
	must(t, err)
	exports := ""
	for _, symbol := range dynamic {
		if symbol.Section != elf.SHN_UNDEF {
			exports += " " + symbol.Name // sections have no name
		} else if elf.ST_BIND(symbol.Info) != elf.STB_WEAK || symbol.Version != "" {
			reject(!slices.Contains(inMusl, symbol.Name), "it imports %s: does musl have it?", symbol.Name)
			var minor int
			_, err := fmt.Sscanf(symbol.Version, "GLIBC_2.%d", &minor)
			reject(err != nil || minor > 34, "it imports %s of %q, newer than glibc 2.34", symbol.Name, symbol.Version)
		}
	}
	entries := []string{"RedisModule_OnLoad", "RedisModule_OnUnload"}
	reject(!slices.Equal(strings.Fields(exports), entries), "it exports%s", exports)
	libraries, err := file.ImportedLibraries()
	isLibcAlone := err == nil && slices.Equal(libraries, []string{"libc.so.6"})
	reject(!isLibcAlone, "it needs the libraries %q, not libc alone", libraries)
	for _, segment := range file.Progs {
		reject(segment.Type == elf.PT_TLS, "it has PT_TLS, which musl does not load")
		reject(segment.Type == elf.PT_GNU_STACK && segment.Flags&elf.PF_X != 0, "it asks for an executable stack")
		isWritableCode := segment.Type == elf.PT_LOAD && segment.Flags == elf.PF_R|elf.PF_W|elf.PF_X
		reject(isWritableCode, "%#x is writable code", segment.Vaddr)
	}
	for _, tag := range []elf.DynTag{elf.DT_TEXTREL, elf.DT_FLAGS_1} {
		values, err := file.DynValue(tag)
		must(t, err)
		isWrong := len(values) > 0 && (tag == elf.DT_TEXTREL || values[0] != uint64(elf.DF_1_NOW))
		reject(isWrong, "it has %v %#x: code that is changed, or flags against loading", tag, values)
	}
	for _, name := range []string{".init_array", ".fini_array"} { // the C compiler has one function in each
		section := file.Section(name)
		reject(section != nil && section.Size > 8, "%s has %d bytes: who runs when the file is loaded?", name, section.Size)
	}
	return problems
}
