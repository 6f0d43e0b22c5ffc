package finish

import (
	"cmp"
	"debug/elf"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// unsized are the functions without a size, which the disassembler does not show. They
// belong to gcc's start files and to the C part of the Go runtime, which is not called.
var unsized = []string{"deregister_tm_clones", "register_tm_clones", "__do_global_dtors_aux", "frame_dummy", "crosscall1"}

// cFunctions returns the functions that the C compiler wrote: this project's and those of
// the C part of the Go runtime.
func (l *library) cFunctions() ([]elf.Symbol, error) {
	var functions []elf.Symbol
	for _, symbol := range l.symbols {
		section := l.section(symbol.Value)
		switch {
		case section == nil || section.Flags&elf.SHF_EXECINSTR == 0 || l.isGo(symbol.Value) || symbol.Value == l.goTo:
		case section.Name == ".init", section.Name == ".fini": // of the start files
		case strings.HasPrefix(symbol.Name, "$"): // marks of code and data on arm64
		case symbol.Size > 0:
			functions = append(functions, symbol)
		case !slices.Contains(unsized, symbol.Name):
			return nil, fmt.Errorf("the code of C at %s has no size, and the disassembler does not show it: give it one, by .size in assembler", symbol.Name)
		}
	}
	return functions, nil
}

// verifyNames reports C code without a name, which the disassembler would not show. Only
// padding may lie between functions, and instructions that the linker has moved there to work
// around a fault of a processor. The start files of .init and .fini, and the linker's
// .plt, have no names.
func (l *library) verifyNames(functions []elf.Symbol) error {
	type span struct{ from, to uint64 }
	named := []span{{l.goFrom, l.goTo}}
	for _, f := range functions {
		named = append(named, span{f.Value, f.Value + f.Size})
	}
	for n, symbol := range l.symbols {
		if !slices.Contains(unsized, symbol.Name) {
			continue
		}
		for _, next := range l.symbols[n:] {
			if symbol.Value < next.Value && !strings.HasPrefix(next.Name, "$") {
				named = append(named, span{symbol.Value, next.Value})
				break
			}
		}
	}
	slices.SortFunc(named, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, section := range l.Sections {
		if section.Flags&elf.SHF_EXECINSTR == 0 || section.Name == ".init" || section.Name == ".fini" || strings.HasPrefix(section.Name, ".plt") {
			continue
		}
		at, end := section.Addr, section.Addr+section.Size
		for _, next := range append(named, span{end, end}) {
			if next.to <= at || end < next.from {
				continue
			}
			if at < next.from {
				filled, err := l.filledFrom(at, next.from)
				if err != nil {
					return err
				}
				if filled < next.from {
					return fmt.Errorf("the code of C at %s has no name, and the disassembler does not show it: give it one, by .type and .size in assembler", l.describe(filled))
				}
			}
			at = next.to
		}
	}
	return nil
}

// filledFrom returns where code begins, between two addresses, that is neither padding nor
// moved there by the linker.
func (l *library) filledFrom(from, to uint64) (filled uint64, err error) {
	place, err := l.place(from, to-from)
	if err != nil {
		return 0, err
	}
	for filled = from; filled < to; {
		code := l.content[place+filled-from : place+to-from]
		length := uint64(l.filling(code))
		if length == 0 && l.moved != nil {
			length = l.moved(l, code, filled, to)
		}
		if length == 0 {
			break
		}
		filled += length
	}
	return filled, nil
}

// judgeC returns what is wrong with the C code: it enters Go other than through the
// variables of the entry points, or needs a processor that a server may not have.
func (l *library) judgeC(functions []*function) []string {
	var faults []string
	for _, f := range functions {
		fault := func(i instruction, what string) {
			faults = append(faults, fmt.Sprintf("%s\n  has the instruction %q at %s, which %s", f.Name, i.text, l.describe(i.address), what))
		}
		for _, i := range f.code {
			if i.doubt == notEverywhere || i.doubt == notKnown {
				fault(i, i.doubt+": compile C without -march, -mavx and their like")
			}
			for _, address := range append(i.references, i.target) {
				if l.isGo(address) {
					fault(i, "leads to "+l.describe(address)+": C enters Go through "+entries+" alone")
				}
			}
		}
	}
	return faults
}

var entries = strings.Join(Functions, ", ")

// nameOfC matches the name of a C variable or function, with the suffixes that gcc adds.
var nameOfC = regexp.MustCompile(`^\w+(\.(\d+|lto_priv|part|constprop|isra))*$`)

// verifyEntries: only the entry points lead from the memory of C into Go.
func (l *library) verifyEntries() error {
	for _, symbol := range l.symbols {
		if name, found := strings.CutPrefix(symbol.Name, "_cgoexp_"); found {
			return fmt.Errorf("cgo exports a function of Go, %s: a call from C would wait for the Go runtime for ever; remove //export, and see docs/go-runtime.md for the way into Go", name)
		}
	}
	imported, err := l.DynamicSymbols()
	if err != nil {
		return err
	}
	var known []uint64 // the places of the entry points
	for _, name := range Functions {
		variable, err := l.variable(name)
		if err != nil {
			return err
		}
		known = append(known, variable.Value)
	}
	for _, r := range l.relocations {
		target := r.addend
		if 0 < r.symbol && int(r.symbol) <= len(imported) {
			target += imported[r.symbol-1].Value
		}
		if r.kind == noRelocation || !l.isGo(target) || slices.Contains(known, r.offset) {
			continue
		}
		// C cannot use Go's names.
		function, _ := l.symbolAt(target)
		holder, found := l.symbolAt(r.offset)
		if nameOfC.MatchString(function.Name) && (!found || nameOfC.MatchString(holder.Name)) {
			return fmt.Errorf("%s holds the address of %s: C enters Go through %s alone", l.describe(r.offset), l.describe(target), entries)
		}
	}
	return nil
}
