package finish

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDamagedFiles changes bytes of a file that is fine: each change is found.
func TestDamagedFiles(t *testing.T) {
	linked := link(t, recipe{})
	finished, err := finish(t, linked)
	require.NoError(t, err)

	for name, c := range map[string]struct {
		path   string
		damage func(t *testing.T, l *library)
		fault  string
	}{
		"a newer glibc": {linked, func(t *testing.T, l *library) {
			exchange(t, l.content, "GLIBC_2.34\x00", "GLIBC_2.39\x00")
		}, `of version "GLIBC_2.39", and servers may have glibc 2.34`},
		"another name for the start": {linked, func(t *testing.T, l *library) {
			exchange(t, l.content, "\x00"+l.start+"\x00", "\x00"+strings.ToUpper(l.start)+"\x00")
		}, "there are 0 symbols for the start of the Go runtime"},
		"another name for a variable": {linked, func(t *testing.T, l *library) {
			exchange(t, l.content, "\x00go_parse\x00", "\x00go_prase\x00")
		}, "symbols for the C variable go_parse, not one: a compiler that optimizes"},
		"another name for the entry of servers": {finished, func(t *testing.T, l *library) {
			exchange(t, l.content, "\x00RedisModule_OnLoad\x00", "\x00RedisModule_OnLaod\x00")
		}, "it does not export RedisModule_OnLoad"},
		"an end that is missing": {linked, func(_ *testing.T, l *library) {
			l.content[l.word(40)+64+32+3] = 0x7f // the size of section 1
		}, "reaches beyond the end of the file"},
		"another machine":   {linked, func(_ *testing.T, l *library) { l.content[18] = byte(elf.EM_RISCV) }, "built for amd64 and arm64"},
		"no library at all": {linked, func(_ *testing.T, l *library) { clear(l.content) }, "bad magic number"},
		"an unknown relocation": {finished, func(_ *testing.T, l *library) {
			l.setWord(l.relocations[len(l.relocations)-1].at+8, 37)
		}, "is of type 37, which is not known to be safe"},
		"thread-local storage again": {finished, func(_ *testing.T, l *library) {
			header := l.word(programHeaders)
			for i, segment := range l.Progs {
				if segment.Type == elf.PT_NULL {
					l.content[header+uint64(i)*programHeaderSize] = byte(elf.PT_TLS)
				}
			}
		}, "there is thread-local storage"},
		"a function of Go among the constructors": {finished, func(t *testing.T, l *library) {
			r, err := l.pointer(l.SectionByType(elf.SHT_INIT_ARRAY).Addr)
			require.NoError(t, err)
			l.setWord(r.at+16, l.goFrom+64)
		}, "which is not a function of C"},
		"a variable that points elsewhere": {finished, func(t *testing.T, l *library) {
			variable, err := l.variable("go_decide")
			require.NoError(t, err)
			r, err := l.pointer(variable.Value)
			require.NoError(t, err)
			l.setWord(r.at+16, r.addend+1)
		}, "the variable go_decide points to go_decide+0x1"},
		"the flag NODELETE": {finished, func(t *testing.T, l *library) {
			at, found := l.dynamic(elf.DT_FLAGS_1)
			require.True(t, found)
			l.setWord(at, uint64(elf.DF_1_NODELETE))
		}, "NODELETE is set"},
		"a segment that is writable and executable": {finished, func(t *testing.T, l *library) {
			segment := slices.IndexFunc(l.Progs, func(p *elf.Prog) bool { return p.Flags == elf.PF_R|elf.PF_W && p.Type == elf.PT_LOAD })
			l.content[l.word(programHeaders)+uint64(segment)*programHeaderSize+4] |= byte(elf.PF_X)
		}, "is writable and executable"},
		"a call into the table of imports":             {finished, callTo(".plt", 32), "calls .plt+0x20"},
		"a call into the middle of a function of ours": {finished, callTo("funnel/module/answer.decide", 4), "calls funnel/module/answer.decide+0x4"},
		"a call into nowhere":                          {finished, callTo("", 1<<30), "calls 0x40000000"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(c.path)
			require.NoError(t, err)
			l, err := parse(content)
			require.NoError(t, err)
			c.damage(t, l)
			path := write(t, "damaged.so", string(l.content))
			if c.path == linked {
				_, err = finish(t, path)
			} else {
				err = Check(path, Options{})
			}
			require.ErrorContains(t, err, c.fault)
		})
	}
}

func exchange(t *testing.T, content []byte, old, new string) {
	t.Helper()
	require.Len(t, new, len(old))
	require.True(t, bytes.Contains(content, []byte(old)), "%q", old)
	copy(content, bytes.ReplaceAll(content, []byte(old), []byte(new)))
}

// callTo changes where the one call in go_parse leads: so far behind the start of a section
// or of a function of Go, or of the file.
func callTo(name string, offset uint64) func(t *testing.T, l *library) {
	return func(t *testing.T, l *library) {
		if l.goName != "amd64" {
			t.Skip("the call is changed in the code of amd64")
		}
		target := offset
		if section := l.Section(name); section != nil {
			target += section.Addr
		} else if name != "" {
			function, err := l.goFunction(name)
			require.NoError(t, err)
			target += function.Value
		}
		function, err := l.goFunction("go_parse")
		require.NoError(t, err)
		place, err := l.place(function.Value, function.Size)
		require.NoError(t, err)
		call := uint64(bytes.IndexByte(l.content[place:place+function.Size], 0xE8))
		binary.LittleEndian.PutUint32(l.content[place+call+1:], uint32(target-(function.Value+call+5)))
	}
}

// TestMuslHasWhatIsImported looks up every name of the list.
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
