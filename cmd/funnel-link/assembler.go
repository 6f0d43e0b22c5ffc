package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// An assembly is text for the assembler of the C compiler.
type assembly struct{ bytes.Buffer }

func (a *assembly) add(format string, args ...any) { fmt.Fprintf(a, format+"\n", args...) }

// quoted returns a name as the assembler reads it. The name of a type may hold quotes.
func quoted(name string) string {
	return `"` + strings.NewReplacer(`"`, "'", `\`, "/").Replace(name) + `"`
}

// begin defines a symbol in a section of its own. So the linker can remove the sections that are
// not needed, and can name the function that uses an undefined symbol.
func (a *assembly) begin(p piece, content []byte) {
	section, flags, kind := ".rodata", "a", "object"
	switch {
	case p.isCode():
		section, flags, kind = ".text", "ax", "function"
	case p.section.Flags&elf.SHF_WRITE != 0:
		section, flags = ".data.rel.ro", "aw"
	}
	a.add(".section %s,%q,@progbits\n.balign %d", quoted(section+"."+p.name), flags, min(max(p.section.Addralign, 1), 32))
	a.add(".type %s,@%s\n%[1]s:", quoted(p.name), kind)
	for row := range slices.Chunk(content, 16) {
		a.add(".byte %s", strings.ReplaceAll(strings.Trim(fmt.Sprint(row), "[]"), " ", ","))
	}
	a.add(".size %s, .-%[1]s", quoted(p.name))
}

// refer makes the linker write the address of a symbol into a piece.
func (a *assembly) refer(p piece, offset uint64, kind, symbol string, addend int64) {
	a.add(".reloc %s+%d, %s, %s%+d", quoted(p.name), offset, kind, quoted(symbol), addend)
}
