package finish

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A library is an ELF file in memory, which can be changed in place.
type library struct {
	content []byte
	*elf.File
	architecture

	symbols      []elf.Symbol // that name a place, in order of address
	threadLocal  []elf.Symbol // that name a thread-local variable
	goFrom, goTo uint64       // the Go code, from and to
	relocations  []relocation
}

// A relocation is an entry of a table of type SHT_RELA.
type relocation struct {
	at     uint64 // in the content
	offset uint64 // the address that the loader changes
	kind   uint32
	symbol uint32
	addend uint64
}

const relocationSize = 24

func parse(content []byte) (*library, error) {
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if file.Class != elf.ELFCLASS64 || file.Data != elf.ELFDATA2LSB || file.Type != elf.ET_DYN {
		return nil, fmt.Errorf("this is no shared library of 64 bits, little endian, but %v, %v, %v",
			file.Class, file.Data, file.Type)
	}
	architecture, known := architectures[file.Machine]
	if !known {
		return nil, fmt.Errorf("this is a library for %v: funnel is built for amd64 and arm64", file.Machine)
	}
	l := &library{content: content, File: file, architecture: architecture}

	if err := l.readSymbols(); err != nil {
		return nil, err
	}
	for _, section := range file.Sections {
		if err := l.readRelocations(section); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// readSymbols sorts the names of places by address, and finds the Go code.
func (l *library) readSymbols() error {
	symbols, err := l.Symbols()
	if err != nil {
		return fmt.Errorf("symbols are needed to find what to change, build without -s: %w", err)
	}
	for _, symbol := range symbols {
		switch kind := elf.ST_TYPE(symbol.Info); {
		case symbol.Section == elf.SHN_UNDEF, symbol.Section >= elf.SHN_LORESERVE, kind == elf.STT_SECTION:
		case kind == elf.STT_TLS:
			l.threadLocal = append(l.threadLocal, symbol)
		default:
			l.symbols = append(l.symbols, symbol)
		}
		switch symbol.Name {
		case "runtime.text":
			l.goFrom = symbol.Value
		case "runtime.etext":
			l.goTo = symbol.Value
		}
	}
	if l.goFrom == 0 || l.goTo <= l.goFrom {
		return errors.New("the symbols runtime.text and runtime.etext do not say where the Go code lies")
	}
	slices.SortStableFunc(l.symbols, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	return nil
}

// readRelocations reads a section if it is a table of relocations.
func (l *library) readRelocations(section *elf.Section) error {
	end := section.Offset + section.FileSize
	if section.Type != elf.SHT_NOBITS && (end < section.Offset || end > uint64(len(l.content))) {
		return fmt.Errorf("section %s reaches beyond the end of the file", section.Name)
	}
	switch {
	case section.Type == elf.SHT_REL && section.Flags&elf.SHF_ALLOC != 0, section.Type == shtRelr:
		return fmt.Errorf("section %s holds packed relocations: link without them, "+
			"by CGO_LDFLAGS='-Wl,-z,nopack-relative-relocs' perhaps", section.Name)
	case section.Type != elf.SHT_RELA || section.Flags&elf.SHF_ALLOC == 0:
		return nil
	case section.Size%relocationSize != 0:
		return fmt.Errorf("section %s is no table of relocations", section.Name)
	}
	for at := section.Offset; at < section.Offset+section.Size; at += relocationSize {
		info := l.word(at + 8)
		l.relocations = append(l.relocations, relocation{
			at: at, offset: l.word(at), kind: uint32(info), symbol: uint32(info >> 32), addend: l.word(at + 16),
		})
	}
	return nil
}

// shtRelr is the type of a section of packed relative relocations, which package
// debug/elf does not name.
const shtRelr elf.SectionType = 19

// word reads 8 bytes of the content.
func (l *library) word(at uint64) uint64 { return binary.LittleEndian.Uint64(l.content[at:]) }

func (l *library) setWord(at, value uint64) { binary.LittleEndian.PutUint64(l.content[at:], value) }

// section returns the section of an address, or nil.
func (l *library) section(address uint64) *elf.Section {
	for _, section := range l.Sections {
		if section.Flags&elf.SHF_ALLOC != 0 && section.Flags&elf.SHF_TLS == 0 &&
			section.Addr <= address && address-section.Addr < section.Size {
			return section
		}
	}
	return nil
}

// place returns where the bytes of an address are in the content.
func (l *library) place(address uint64, size uint64) (uint64, error) {
	section := l.section(address)
	if section == nil || section.Type == elf.SHT_NOBITS || address+size > section.Addr+section.Size {
		return 0, fmt.Errorf("the file has no bytes for address %#x", address)
	}
	return section.Offset + address - section.Addr, nil
}

// named returns the one symbol with this name that wanted accepts.
func (l *library) named(name, what string, wanted func(elf.Symbol) bool) (elf.Symbol, error) {
	var found []elf.Symbol
	for _, symbol := range l.symbols {
		if symbol.Name == name && wanted(symbol) {
			found = append(found, symbol)
		}
	}
	if len(found) != 1 {
		return elf.Symbol{}, fmt.Errorf("there are %d symbols for %s %s, not one", len(found), what, name)
	}
	return found[0], nil
}

// goFunction finds a Go function, cFunction a C function, and variable a pointer in C.
func (l *library) goFunction(name string) (elf.Symbol, error) {
	return l.named(name, "the Go function", l.isGoSymbol)
}

func (l *library) cFunction(name string) (elf.Symbol, error) {
	return l.named(name, "the C function", func(symbol elf.Symbol) bool {
		return elf.ST_TYPE(symbol.Info) == elf.STT_FUNC && !l.isGo(symbol.Value)
	})
}

func (l *library) variable(name string) (elf.Symbol, error) {
	return l.named(name, "the C variable", func(symbol elf.Symbol) bool {
		section := l.section(symbol.Value)
		return symbol.Size == 8 && section != nil && section.Flags&elf.SHF_WRITE != 0
	})
}

// isGo reports whether an address is in the code that the Go linker laid out.
func (l *library) isGo(address uint64) bool { return l.goFrom <= address && address < l.goTo }

func (l *library) isGoSymbol(symbol elf.Symbol) bool { return l.isGo(symbol.Value) }

// pointer finds the one relative relocation that puts a pointer at an address.
func (l *library) pointer(address uint64) (relocation, error) {
	for _, r := range l.relocations {
		if r.offset != address {
			continue
		}
		if r.kind != l.relative || r.symbol != 0 {
			return relocation{}, fmt.Errorf("the pointer at %#x is set by a relocation of type %d, not by the relative one, %d",
				address, r.kind, l.relative)
		}
		return r, nil
	}
	return relocation{}, fmt.Errorf("no relocation sets the pointer at %#x", address)
}

// dynamic finds the entry with a tag in the dynamic section; at is the place of its value
// in the content.
func (l *library) dynamic(tag elf.DynTag) (at uint64, found bool) {
	section := l.SectionByType(elf.SHT_DYNAMIC)
	if section == nil {
		return 0, false
	}
	for at := section.Offset; at+16 <= section.Offset+section.Size; at += 16 {
		switch elf.DynTag(l.word(at)) {
		case tag:
			return at + 8, true
		case elf.DT_NULL:
			return 0, false
		}
	}
	return 0, false
}

// entry returns an entry point from C into Go: the relocation that sets the variable of
// that name, and the Go function that the variable will point to.
func (l *library) entry(name string) (relocation, elf.Symbol, error) {
	variable, err := l.variable(name)
	if err != nil {
		return relocation{}, elf.Symbol{}, fmt.Errorf("%w: a compiler that optimizes at link time may have removed it", err)
	}
	function, err := l.goFunction(name)
	if err != nil {
		return relocation{}, elf.Symbol{}, err
	}
	r, err := l.pointer(variable.Value)
	return r, function, err
}

// describe names the place of an address as precisely as possible.
func (l *library) describe(address uint64) string {
	if symbol, found := l.symbolAt(address); found {
		if symbol.Value == address {
			return symbol.Name
		}
		return fmt.Sprintf("%s+%#x", symbol.Name, address-symbol.Value)
	}
	if section := l.section(address); section != nil {
		return fmt.Sprintf("%s+%#x", section.Name, address-section.Addr)
	}
	return fmt.Sprintf("%#x", address)
}

// symbolAt returns the symbol at an address. Marks, which have no size, count only if
// there is nothing else.
func (l *library) symbolAt(address uint64) (found elf.Symbol, ok bool) {
	for _, symbol := range l.symbols {
		if symbol.Value > address {
			break
		}
		if address-symbol.Value < symbol.Size || symbol.Value == address && !ok {
			found, ok = symbol, true
		}
	}
	return found, ok
}
