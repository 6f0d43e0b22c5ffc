// A file that is not as the changes, loaders or servers need it is refused, and the error says why.

package finish

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A damage changes bytes of a file that is fine, and names the problem that this is.
type damage struct {
	change  func(t *testing.T, l *library)
	problem string
}

func TestDamagedFiles(t *testing.T) {
	linked := link(t, recipe{})
	for name, d := range damagesOfLinked {
		t.Run(name, func(t *testing.T) {
			_, err := finish(t, damaged(t, linked, d))
			require.ErrorContains(t, err, d.problem)
		})
	}
	finished, err := finish(t, linked)
	require.NoError(t, err)
	for name, d := range damagesOfFinished {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, Check(damaged(t, finished, d), Options{}), d.problem)
		})
	}
	permitted := damaged(t, finished, damagesOfFinished["a name that musl lacks"])
	require.NoError(t, Check(permitted, Options{Imports: []string{"strerr"}}))
}

var (
	// What the Go linker wrote is not as the changes expect it.
	damagesOfLinked = map[string]damage{
		"another machine":        {func(_ *testing.T, l *library) { l.content[18] = byte(elf.EM_RISCV) }, "amd64 and arm64"},
		"a program":              {func(_ *testing.T, l *library) { l.content[16] = byte(elf.ET_EXEC) }, "no shared library"},
		"an end that is missing": {sectionHeader(".text", 32+3, 0x7f), "reaches beyond the end of the file"},
		"packed relocations":     {sectionHeader(".rela.dyn", 4, byte(shtRelr)), "packed relocations"},
		"another name for the start": {exchange("\x00_rt0_", "\x00_RT0_"),
			"there are 0 symbols for the start of the Go runtime"},
		"another name for a variable": {exchange("\x00go_parse\x00", "\x00go_prase\x00"),
			"symbols for the C variable go_parse, not one: a compiler that optimizes"},
		"a variable that is set otherwise": {func(t *testing.T, l *library) {
			l.setWord(pointerOf(t, l, "go_parse").at+16, l.goFrom)
		}, "the variable go_parse does not point to not_finished"},
		"a thread-local variable of C": {exchange("\x00runtime.tls", "\x00runtame.tls"), "is not the Go runtime's"},
		"more thread-local storage":    {programHeader(elf.PT_TLS, 40, 64), "the rest would be lost"},
	}

	// The finished file is not as loaders, servers and the Go code need it.
	damagesOfFinished = map[string]damage{
		"a function of Go that starts": {func(t *testing.T, l *library) {
			dynamic(elf.DT_INIT, l.goFrom)(t, l)
		}, "DT_INIT calls"},
		"a variable that points elsewhere": {func(t *testing.T, l *library) {
			r := pointerOf(t, l, "go_decide")
			l.setWord(r.at+16, r.addend+1)
		}, "the variable go_decide points to go_decide+0x1"},
		"another name for the entry of servers": {exchange("\x00RedisModule_OnLoad\x00", "\x00RedisModule_OnLaod\x00"),
			"it does not export RedisModule_OnLoad"},
		"an unknown relocation": {func(_ *testing.T, l *library) {
			l.setWord(l.relocations[len(l.relocations)-1].at+8, 37)
		}, "is of type 37, which is not known to be safe"},
		"code that the loader changes": {dynamic(elf.DT_FLAGS, uint64(elf.DF_TEXTREL)), "code would be changed"},
		"thread-local storage": {programHeader(elf.PT_NULL, 0, byte(elf.PT_TLS)),
			"there is thread-local storage"},
		"static thread-local storage": {dynamic(elf.DT_FLAGS, uint64(elf.DF_STATIC_TLS)), "there is thread-local storage"},
		"the flag NOOPEN":             {dynamic(elf.DT_FLAGS_1, uint64(elf.DF_1_NOOPEN)), "the flags DF_1_NOOPEN are set"},
		"a segment that is writable and executable": {
			programHeader(elf.PT_LOAD, 4, byte(elf.PF_R|elf.PF_W|elf.PF_X)), "is writable and executable"},
		"small pages":         {programHeader(elf.PT_LOAD, 48+1, 1), "is aligned to 256 bytes"},
		"an executable stack": {programHeader(elf.PT_GNU_STACK, 4, 7), "it asks for an executable stack"},

		"another library": {exchange("\x00libc.so.6\x00", "\x00libm.so.6\x00"), "it needs the libraries [libm.so.6]"},
		"a newer glibc": {exchange("GLIBC_2.34\x00", "GLIBC_2.39\x00"),
			`of version "GLIBC_2.39", and servers may have glibc 2.34`},
		"a name that musl lacks": {exchange("\x00strerror\x00", "\x00strerrer\x00"), "it imports strerrer, which"},

		"a newer processor": {func(t *testing.T, l *library) {
			exchange("\t"+l.level+"="+l.lowest, "\t"+l.level+"="+strings.Repeat("v", len(l.lowest)))(t, l)
		}, "nobody checks the processor"},
		"flags of the compiler": {exchange("build\t-buildmode=c-shared\n", "build\t-gcflags=\"-l -wb=0\"\n"),
			"it was built with -gcflags=-l -wb=0"},
		"flags of the assembler": {exchange("build\t-buildmode=c-shared\n", "build\t-asmflags=-D=ABCDEF\n"),
			"it was built with -asmflags=-D=ABCD"},
		"no debugging information": {exchange(".debug_", ".dabug_"), "build without -ldflags=-w"},
	}
)

func damaged(t *testing.T, path string, d damage) string {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	l, err := parse(content)
	require.NoError(t, err)
	d.change(t, l)
	return write(t, "damaged.so", string(l.content))
}

func exchange(old, new string) func(t *testing.T, l *library) {
	return func(t *testing.T, l *library) {
		require.Len(t, new, len(old))
		require.True(t, bytes.Contains(l.content, []byte(old)), "%q", old)
		copy(l.content, bytes.ReplaceAll(l.content, []byte(old), []byte(new)))
	}
}

// dynamic sets the entry with a tag in the dynamic section.
func dynamic(tag elf.DynTag, value uint64) func(t *testing.T, l *library) {
	return func(t *testing.T, l *library) {
		at, found := l.dynamic(tag)
		require.True(t, found)
		l.setWord(at, value)
	}
}

// sectionHeader sets one byte in the header of a section.
func sectionHeader(name string, offset uint64, value byte) func(t *testing.T, l *library) {
	return func(t *testing.T, l *library) {
		n := slices.IndexFunc(l.Sections, func(s *elf.Section) bool { return s.Name == name })
		require.Positive(t, n)
		l.content[l.word(40)+uint64(n)*64+offset] = value
	}
}

// programHeader sets one byte in the header of the first segment of a type.
func programHeader(kind elf.ProgType, offset uint64, value byte) func(t *testing.T, l *library) {
	return func(t *testing.T, l *library) {
		n := slices.IndexFunc(l.Progs, func(p *elf.Prog) bool { return p.Type == kind })
		require.GreaterOrEqual(t, n, 0)
		l.content[l.word(programHeaders)+uint64(n)*programHeaderSize+offset] = value
	}
}

// pointerOf finds what sets a variable of C.
func pointerOf(t *testing.T, l *library, name string) relocation {
	variable, err := l.variable(name)
	require.NoError(t, err)
	r, err := l.pointer(variable.Value)
	require.NoError(t, err)
	return r
}

func TestMuslHasWhatIsImported(t *testing.T) {
	loaders, _ := filepath.Glob("/lib/ld-musl-*.so.1")
	if len(loaders) == 0 {
		t.Skip("musl is not installed: apt-get install musl")
	}
	file, err := elf.Open(loaders[0])
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	require.NoError(t, err)
	defined := map[string]bool{}
	for _, symbol := range symbols {
		defined[symbol.Name] = symbol.Section != elf.SHN_UNDEF
	}
	for _, name := range inMusl {
		require.True(t, defined[name], "musl does not define %s", name)
	}
}
