package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFile: every server and C library loads the file that was built, and no part of the Go runtime
// is in it. C compiled in other ways needs FUNNEL_LONG.
func TestFile(t *testing.T) {
	type way struct {
		name, arch  string
		environment []string
	}
	ways := []way{{"amd64", "amd64", nil}, {"arm64", "arm64", nil}}
	if os.Getenv("FUNNEL_LONG") != "" {
		ways = append(ways,
			way{"optimized for size", "amd64", []string{"CGO_CFLAGS=-Os"}},
			way{"optimized when it is linked", "amd64", []string{"CGO_CFLAGS=-O2 -flto"}},
			way{"protected as by Ubuntu", "amd64", []string{
				"CGO_CFLAGS=-O2 -fstack-protector-all -fcf-protection=full -fstack-clash-protection"}},
			way{"linked with careless options", "amd64", []string{"CGO_LDFLAGS=-Wl,-z,undefs -Wl,-z,execstack"}},
			way{"by clang", "amd64", []string{"CC=clang"}},
		)
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("clang"); err != nil && w.name == "by clang" {
				t.Skip("clang is not installed")
			}
			path, printed, err := build(t, w.arch, nil, w.environment...)
			if err != nil {
				t.Fatalf("%v\n%s", err, printed)
			}
			for _, problem := range problemsOf(t, path) {
				t.Error(problem)
			}
		})
	}
}

// problemsOf lists what is wrong with a module.
func problemsOf(t *testing.T, path string) (problems []string) {
	reject := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	info, err := os.Stat(path)
	must(t, err)
	file, err := elf.Open(path)
	must(t, err)
	defer file.Close()
	if info.Mode().Perm()&0o111 != 0o111 {
		reject("its mode is %v: servers load executable files only", info.Mode())
	}
	most := int64(200_000)
	if file.Machine == elf.EM_AARCH64 {
		most += 64 << 10 // the size of a page, to which the second segment is aligned
	}
	if info.Size() > most {
		reject("it has %d bytes, not at most %d: what is in it?", info.Size(), most)
	}
	symbols, err := file.Symbols()
	must(t, err)
	runtime := regexp.MustCompile("(?i)runtime|cgo|pthread")
	for _, symbol := range symbols {
		if runtime.MatchString(symbol.Name) {
			reject("it has the symbol %s of the runtime", symbol.Name)
		}
	}
	var exports []string
	dynamic, err := file.DynamicSymbols()
	must(t, err)
	for _, symbol := range dynamic {
		switch {
		case symbol.Name == "": // of a section
		case symbol.Section != elf.SHN_UNDEF:
			exports = append(exports, symbol.Name)
		case elf.ST_BIND(symbol.Info) == elf.STB_WEAK && symbol.Version == "": // may be missing
		case !slices.Contains(inMusl, symbol.Name):
			reject("it imports %s: if musl has it, add it to inMusl", symbol.Name)
		default:
			var minor int
			_, err := fmt.Sscanf(symbol.Version, "GLIBC_2.%d", &minor)
			if err != nil || minor > 34 {
				reject("it imports %s of version %q, and servers may have glibc 2.34", symbol.Name, symbol.Version)
			}
		}
	}
	if slices.Sort(exports); !slices.Equal(exports, []string{"RedisModule_OnLoad", "RedisModule_OnUnload"}) {
		reject("it exports %q, not what servers look for in a module alone", exports)
	}
	if libraries, err := file.ImportedLibraries(); err != nil || !slices.Equal(libraries, []string{"libc.so.6"}) {
		reject("it needs the libraries %q, not libc alone (%v)", libraries, err)
	}
	for _, segment := range file.Progs {
		switch flags := segment.Flags; {
		case segment.Type == elf.PT_TLS:
			reject("it has thread-local storage, which musl does not load")
		case segment.Type == elf.PT_GNU_STACK && flags&elf.PF_X != 0:
			reject("it asks for an executable stack, which glibc from 2.41 on refuses")
		case segment.Type == elf.PT_LOAD && flags&elf.PF_W != 0 && flags&elf.PF_X != 0:
			reject("the segment at %#x is writable and executable", segment.Vaddr)
		}
	}
	for _, tag := range []elf.DynTag{elf.DT_TEXTREL, elf.DT_FLAGS, elf.DT_FLAGS_1} {
		values, err := file.DynValue(tag)
		must(t, err)
		for _, value := range values {
			isTextrel := tag == elf.DT_TEXTREL || tag == elf.DT_FLAGS && elf.DynFlag(value)&elf.DF_TEXTREL != 0
			if isTextrel || tag == elf.DT_FLAGS_1 && elf.DynFlag1(value)&^elf.DF_1_NOW != 0 {
				reject("it has %v %#x: code that the loader changes, or flags against loading and unloading", tag, value)
			}
		}
	}
	// The C compiler's own start, and its own end, are the only functions that loading calls.
	for _, name := range []string{".init_array", ".fini_array"} {
		if section := file.Section(name); section != nil && section.Size > 8 {
			reject("%s has %d bytes: something of ours runs when the file is loaded", name, section.Size)
		}
	}
	return problems
}

// inMusl are names that musl 1.2.3 defines, as TestMuslHasWhatIsImported checks. musl ignores
// versions, and takes the name of glibc's library for itself.
var inMusl = strings.Fields(`__cxa_finalize __errno_location bcmp clock_gettime memchr memcmp memcpy memmove memset
	strcasecmp strcmp strlen`)

func TestMuslHasWhatIsImported(t *testing.T) {
	loaders, _ := filepath.Glob("/lib/ld-musl-*.so.1")
	if len(loaders) == 0 {
		t.Skip("musl is not installed: apt-get install musl")
	}
	file, err := elf.Open(loaders[0])
	must(t, err)
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	must(t, err)
	for _, name := range inMusl {
		isDefined := func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF }
		if !slices.ContainsFunc(symbols, isDefined) {
			t.Errorf("musl does not define %s", name)
		}
	}
}

// TestFileOfGCC: the checks of TestFile can fail. gcc links the whole runtime.
func TestFileOfGCC(t *testing.T) {
	path := filepath.Join(t.TempDir(), "funnel.so")
	command := exec.Command("go", "build", "-buildmode=c-shared", "-o", path, "./cmd/funnel")
	command.Dir = top(t)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	problems := strings.Join(problemsOf(t, path), "\n")
	for _, expected := range []string{"executable files only", "bytes, not at most", "the symbol runtime.", "it imports ",
		"it exports ", "thread-local storage", "DT_FLAGS_1", ".init_array"} {
		if !strings.Contains(problems, expected) {
			t.Errorf("no problem says %q, in\n%.2000s", expected, problems)
		}
	}
}
