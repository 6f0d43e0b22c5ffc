package main

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// An object is go.o: all Go code, as Go's linker hands it to its external linker.
type object struct {
	*elf.File
	symbols     []elf.Symbol
	relocations map[*elf.Section][]relocation
}

// A relocation makes the linker write the address of a symbol, plus addend.
type relocation struct {
	offset uint64 // within its section
	kind   uint32
	symbol elf.Symbol
	addend int64
}

func openObject(path string) (*object, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	o := &object{file, nil, map[*elf.Section][]relocation{}}
	o.symbols, err = file.Symbols()
	for _, section := range file.Sections {
		if err != nil || section.Type != elf.SHT_RELA {
			continue
		}
		var table []byte
		table, err = section.Data()
		for ; len(table) >= 24; table = table[24:] {
			field := func(n int) uint64 { return binary.LittleEndian.Uint64(table[8*n:]) }
			target := file.Sections[section.Info]
			o.relocations[target] = append(o.relocations[target], relocation{
				field(0), elf.R_TYPE64(field(1)), o.symbols[elf.R_SYM64(field(1))-1], int64(field(2))})
		}
	}
	return o, err
}

// section returns the section of a symbol. Undefined symbols have the first section, which is
// empty.
func (o *object) section(symbol elf.Symbol) *elf.Section {
	if int(symbol.Section) < len(o.Sections) {
		return o.Sections[symbol.Section]
	}
	return o.Sections[elf.SHN_UNDEF]
}

// functionAt returns the index of the function whose code includes an address, or -1.
func (o *object) functionAt(section *elf.Section, address uint64) int {
	return slices.IndexFunc(o.symbols, func(s elf.Symbol) bool {
		return o.section(s) == section && s.Value <= address && address < s.Value+s.Size
	})
}

// next returns the address at which the next symbol of a section begins.
func (o *object) next(section *elf.Section, address uint64) uint64 {
	next := section.Size
	for _, symbol := range o.symbols {
		if o.section(symbol) == section && symbol.Value > address {
			next = min(next, symbol.Value)
		}
	}
	return next
}

// rootsOf returns the functions of Go that C calls, from the C objects among the arguments of a
// linker. Their symbols are weak, because cgo also links these objects without Go. Their names have
// a dot, which no name of C has.
func rootsOf(args []string) (roots []string) {
	for _, path := range args {
		file, err := elf.Open(path)
		if err != nil {
			continue // no object
		}
		symbols, _ := file.Symbols() // an object may have none
		file.Close()
		for _, s := range symbols {
			if elf.ST_BIND(s.Info) == elf.STB_WEAK && s.Section == elf.SHN_UNDEF && strings.Contains(s.Name, ".") {
				roots = append(roots, s.Name)
			}
		}
	}
	return roots
}
